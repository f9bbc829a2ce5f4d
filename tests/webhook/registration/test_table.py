"""The table of registrations, and what a real API server makes of its conditions."""

import pytest

from argocd import names
from argocd.tracking.completion import DEFAULT_KINDS
from kube.store import Object
from scripts.cluster.controlplane import Cluster
from webhook.registration.table import TRACKED, Registration, mutating, validating

PATH = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations"
KUBERNETES_NEEDS = ("kube-system", "kube-node-lease", "kube-public", names.TIPHYS_NAMESPACE)


def entries(registration: Registration | None = None) -> list[Object]:
    registration = registration or Registration()
    return [*validating(registration)["webhooks"], *mutating(registration)["webhooks"]]


def test_only_argo_cds_kinds_in_its_own_namespaces_fail_closed() -> None:
    registration = Registration(application_namespaces=["team-a"])
    closed = [entry for entry in entries(registration) if entry["failurePolicy"] == "Fail"]
    assert [entry["name"] for entry in closed] == ["argocd.validate.tiphys.dev", "agents.validate.tiphys.dev"]
    assert {group for entry in closed for rule in entry["rules"] for group in rule["apiGroups"]} == {
        "argoproj.io"
    }
    assert closed[0]["namespaceSelector"]["matchExpressions"] == [
        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["argocd", "team-a"]}
    ]
    assert {"key": "tiphys.dev/agent", "operator": "Exists"} in closed[1]["namespaceSelector"][
        "matchExpressions"
    ]


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry["name"])
def test_no_entry_reaches_what_kubernetes_needs_to_recover(entry: Object) -> None:
    reached = set(KUBERNETES_NEEDS)
    for expression in entry["namespaceSelector"]["matchExpressions"]:
        if expression["key"] == "kubernetes.io/metadata.name":
            listed = set(expression["values"])
            reached = reached & listed if expression["operator"] == "In" else reached - listed
    assert not reached
    assert all(
        "*" not in rule[key] for rule in entry["rules"] for key in ("apiGroups", "resources", "operations")
    )
    assert all(rule["scope"] == "Namespaced" for rule in entry["rules"])


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry["name"])
def test_every_entry_keeps_the_contract(entry: Object) -> None:
    assert (entry["sideEffects"], entry["matchPolicy"]) == ("None", "Equivalent")
    mutates = not entry["name"].endswith("validate.tiphys.dev")
    assert entry["timeoutSeconds"] == (2 if mutates else 5)
    assert entry.get("reinvocationPolicy") == ("IfNeeded" if mutates else None)
    assert "caBundle" not in entry["clientConfig"]


def test_the_kinds_that_are_tracked_by_default_are_registered_by_their_plurals() -> None:
    assert TRACKED == {
        "": ("configmaps", "persistentvolumeclaims", "secrets", "services", "serviceaccounts"),
        "apps": ("daemonsets", "deployments", "statefulsets"),
        "batch": ("cronjobs", "jobs"),
        "networking.k8s.io": ("ingresses",),
    }


def test_an_api_server_knows_every_kind_that_is_tracked_by_default_by_its_plural(cluster: Cluster) -> None:
    for group, plurals in TRACKED.items():
        path = f"/apis/{group}/v1" if group else "/api/v1"
        served = {(one["name"], one["kind"]) for one in cluster.request("GET", path)["resources"]}
        kinds = sorted(kind for tracked, kind in DEFAULT_KINDS if tracked == group)
        assert set(zip(plurals, kinds, strict=True)) <= served


def test_added_kinds_join_the_default_ones() -> None:
    registration = Registration(tracked={"example.com": ["widgets"], "apps": ["replicasets"]})
    rules = mutating(registration)["webhooks"][1]["rules"]
    by_group = {rule["apiGroups"][0]: rule["resources"] for rule in rules}
    assert by_group["example.com"] == ["widgets"]
    assert by_group["apps"] == ["daemonsets", "deployments", "replicasets", "statefulsets"]


def test_a_url_replaces_the_service() -> None:
    registration = Registration(url="https://127.0.0.1:8443/")
    assert {entry["clientConfig"]["url"] for entry in entries(registration)} == {
        "https://127.0.0.1:8443/validate",
        "https://127.0.0.1:8443/mutate",
        "https://127.0.0.1:8443/inject",
    }


def test_a_real_api_server_accepts_every_condition(cluster: Cluster) -> None:
    for plural, made in (("validating", validating), ("mutating", mutating)):
        body = made(Registration())
        body["metadata"]["name"] = "tiphys-conditions"
        stored = cluster.request("POST", PATH.format(plural) + "?dryRun=All", body)
        assert len(stored["webhooks"]) == len(body["webhooks"])
