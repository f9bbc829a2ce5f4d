"""The written pages name what the code has: entries, overrides, reasons."""

import pytest
import yaml

from cli.commands.agent import command as agent
from tests.webhook.conftest import ROOT
from webhook.injection.inject import LOG_LEVEL, OVERRIDES, InjectionReason
from webhook.injection.manifests import templates_of
from webhook.registration.table import Registration, mutating, validating


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def code_blocks(text: str, language: str) -> list[str]:
    return [block.split("```")[0] for block in text.split(f"```{language}\n")[1:]]


def test_every_entry_and_how_it_fails_is_on_the_page_of_registration() -> None:
    rows = [line for line in page("registration.md").splitlines() if line.startswith("| `")]
    for entry in (*validating(Registration())["webhooks"], *mutating(Registration())["webhooks"]):
        [row] = [row for row in rows if f"`{entry['name'].removesuffix('.tiphys.dev')}`" in row]
        assert row.endswith("closed |" if entry["failurePolicy"] == "Fail" else "open |")


@pytest.mark.parametrize("name", [*OVERRIDES, LOG_LEVEL, *(reason.value for reason in InjectionReason)])
def test_every_override_and_reason_is_on_the_page_of_injection(name: str) -> None:
    assert f"`{name}`" in page("injection.md")


def test_the_template_on_the_page_of_injection_is_a_good_one() -> None:
    examples = map(yaml.safe_load, code_blocks(page("injection.md"), "yaml"))
    [config_map] = [example for example in examples if example["kind"] == "ConfigMap"]
    templates = templates_of(config_map, origin="docs/injection.md")
    name, *arguments = templates["agent"].container()["args"]
    assert name == "agent"
    given = agent.make_context("agent", arguments).params
    assert given["server_address"] == "principal.example.com"
