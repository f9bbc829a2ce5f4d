"""The templates that manifests/ ships: each makes a sidecar whose words the command understands."""

import importlib
from typing import Any

import jsonpatch
import pytest
import yaml

from cli.main import SUBCOMMANDS
from tests.webhook.conftest import ROOT
from webhook.injection.inject import InjectionReason, inject
from webhook.injection.templates import parse_template

COMPONENTS = ROOT / "manifests" / "components"
SHIPPED: dict[str, str] = yaml.safe_load((COMPONENTS / "injection" / "templates.yaml").read_text())["data"]


def understood(words: list[str]) -> dict[str, Any]:
    """What the command makes of them, without running it."""
    name, *rest = words
    command = importlib.import_module(SUBCOMMANDS[name][0]).command
    found: dict[str, Any] = command.make_context(name, rest).params
    return found


@pytest.mark.parametrize("role", sorted(SHIPPED))
def test_a_pod_that_asks_for_it_gets_a_sidecar_that_starts(role: str) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "argo-cd", "annotations": {"tiphys.dev/inject": role}},
        "spec": {"containers": [{"name": "argo-cd", "image": "argocd"}]},
    }
    result = inject(pod, {role: parse_template(role, SHIPPED[role], origin="templates.yaml")})
    assert result.reason is InjectionReason.INJECTED
    [sidecar] = jsonpatch.JsonPatch(list(result.patch)).apply(pod)["spec"]["initContainers"]
    assert sidecar["name"] == f"tiphys-{role}"
    given = understood(sidecar["args"])
    if role == "replica":
        assert (given["ha_enabled"], given["ha_preferred_role"]) == (True, "replica")
        assert given["ha_peer_address"] == "principal-peer.example.com:443"


def test_the_words_of_a_pairs_component_are_understood() -> None:
    added = yaml.safe_load((COMPONENTS / "high-availability" / "deployment.yaml").read_text())
    base = yaml.safe_load((ROOT / "manifests/base/principal/deployment.yaml").read_text())
    [container] = base["spec"]["template"]["spec"]["containers"]
    given = understood([*container["args"], *(each["value"] for each in added)])
    assert given["ha_enabled"]
    assert given["ha_allowed_replication_clients"]
