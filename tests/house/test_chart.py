"""The Helm chart without Helm: its templates are fresh, its defaults are the bases', its schema takes its values."""

import json
import re
from functools import reduce
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from scripts.docs import chart
from tiphys import __version__

CHART = Path(__file__).parents[2] / "manifests" / "chart"


@pytest.fixture(scope="module")
def values() -> Any:
    return yaml.safe_load((CHART / "values.yaml").read_text())


@pytest.fixture(scope="module")
def schema() -> Any:
    return json.loads((CHART / "values.schema.json").read_text())


def test_every_template_is_what_the_bases_make_it_or_written_by_hand() -> None:
    generated = chart.pages()
    for page, text in generated.items():
        assert (chart.ROOT / page).read_text() == text, "run `make docs`"
    templates = {f"{chart.CHART}/{path.relative_to(CHART)}" for path in CHART.glob("templates/*/*.yaml")}
    by_hand = {
        "templates/agent/certificate.yaml",
        "templates/webhook/injection.yaml",
        "templates/webhook/dashboards.yaml",
        "templates/principal/dashboards.yaml",
    }
    assert templates - generated.keys() == {f"{chart.CHART}/{name}" for name in by_hand}


def test_a_value_that_stands_for_a_text_of_a_base_has_its_default(values: Any) -> None:
    told = dict(chart.defaults())
    assert len(told) >= 8
    for path, default in told.items():
        assert reduce(lambda value, key: value[key], path.split("."), values) == default, path


def test_the_chart_has_the_version_of_the_code() -> None:
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (about["version"], about["appVersion"]) == (__version__, __version__)


def test_the_schema_takes_the_values_and_knows_every_one(values: Any, schema: Any) -> None:
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.validate(values, schema)
    assert _keys(values, schema) == []


def _keys(values: Any, schema: Any, path: str = "") -> list[str]:
    """Those of which one of the two says nothing."""
    known = schema.get("properties")
    if known is None or not isinstance(values, dict):
        return []
    differing = [f"{path}{key}" for key in (values.keys() ^ known.keys()) - {"global", "claims"}]
    deeper = [_keys(values[key], known[key], f"{path}{key}.") for key in values.keys() & known.keys()]
    return differing + [each for found in deeper for each in found]


@pytest.mark.parametrize(
    "wrong",
    [
        {"webhok": {"enabled": True}},
        {"webhook": {"replicas": 0}},
        {"webhook": {"replicas": "2"}},
        {"agent": {"mode": "manged"}},
        {"agent": {"principal": {"address": ""}}},
        {"agent": {"principal": {"port": 70000}}},
        {"agent": {"certificate": {"key": "secret"}}},
        {"principal": {"extraArgs": "--log-level=debug"}},
        {"principal": {"highAvailability": {"adminAuth": "subject:CN=ops"}}},
        {"image": {"digest": "latest"}},
        {"argocd": {"namespace": "Argo CD"}},
        {"argocd": {"applicationNamespaces": "team-a"}},
        {"argocd": {"applicationNamespaces": ["team-*"]}},
        {"argocd": {"applicationNamespaces": ["team-a", "team-a"]}},
    ],
)
def test_the_schema_refuses(wrong: Any, schema: Any) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema)


def test_the_right_to_exec_comes_with_the_switch_and_not_without_it(values: Any) -> None:
    """Helm's own word on it: tests/cluster/test_chart_installed.py."""
    assert values["agent"]["terminals"]["enabled"] is False
    about = {
        str(path.relative_to(CHART))
        for path in CHART.glob("templates/*/*.yaml")
        if re.search("pods/exec|enable-exec", path.read_text())
    }
    assert about == {"templates/agent/deployment.yaml", "templates/agent/terminals.yaml"}
    condition = "{{- if and .Values.agent.enabled .Values.agent.terminals.enabled }}"
    first, *rest = (CHART / "templates/agent/terminals.yaml").read_text().partition("\n")[2].splitlines()
    assert (first, rest[-1]) == (condition, "{{- end }}")
    assert (
        "{{- if .Values.agent.terminals.enabled }}\n            - --enable-exec\n            {{- end }}"
        in (CHART / "templates/agent/deployment.yaml").read_text()
    )
