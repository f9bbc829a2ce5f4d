"""The pages about rules and configuration say what the code does."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import yaml

from argocd.engine.configuration_file import parse_text
from argocd.judging.configuration import Configuration, Exemption, NamespacePolicy
from argocd.rules.catalogue import CATALOGUE
from scripts.docs import rules

DOCS = Path(__file__).parents[3] / "docs"


def test_every_rule_has_an_anchor_that_its_id_names() -> None:
    page = rules.generate()
    for rule in CATALOGUE:
        assert page.count(f'<a id="{rule.id}"></a>') == 1
        assert f"(#{rule.id})" in page


def test_the_index_on_top_counts_every_rule_once() -> None:
    index = rules.generate().partition("\n## ")[0]
    counts = re.findall(r"^\| \[\S+\]\(#\S+\) \| [^|]+ \| (\d*) \| (\d*) \|$", index, re.MULTILINE)
    assert sum(int(count or 0) for row in counts for count in row) == len(CATALOGUE)


def test_the_page_of_rules_is_fresh() -> None:
    assert (DOCS / "rules.md").read_text().endswith(rules.generate()), "run `make docs`"


def keys_of(kind: Any) -> set[str]:
    configured = (field for field in dataclasses.fields(kind) if field.metadata.get("configured", True))
    return {field.name.replace("_", "-") for field in configured}


def test_the_page_about_the_configuration_shows_a_good_one_with_every_key() -> None:
    page = (DOCS / "configuration.md").read_text()
    found = re.search(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert found
    configuration, problems = parse_text(found[1])
    assert problems == []
    shown = yaml.safe_load(found[1])
    assert set(shown) == keys_of(Configuration)
    for section in ("argocd", "agents", "tracking", "impersonation", "limits"):
        assert set(shown[section]) == keys_of(getattr(configuration, section))
        assert getattr(configuration, section) == getattr(Configuration(), section), "the page shows defaults"
        assert all(f"`{section}.{key}`" in page for key in shown[section])
    assert set(shown["namespaces"][0]) == keys_of(NamespacePolicy)
    assert set(shown["exemptions"][0]) == keys_of(Exemption)
