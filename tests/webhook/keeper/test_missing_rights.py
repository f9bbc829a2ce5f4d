"""A webhook whose account lacks rights: it waits, names the first right that is missing, and goes on when given."""

import base64
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.cluster.controlplane import Cluster
from tests.webhook.webhook_process import Guard

PATIENCE_SECONDS = 60
"""Watches that were refused are tried again after up to half a minute."""

READING = ["get", "list", "watch"]
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/tiphys"
ACCOUNT = "helmsman"

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def guard(cluster: Cluster, tmp_path: Path) -> Iterator[Guard]:
    home, argocd = cluster.create_namespace(), cluster.create_namespace()
    cluster.request("POST", f"/api/v1/namespaces/{home}/serviceaccounts", {"metadata": {"name": ACCOUNT}})
    guard = Guard(
        cluster=cluster,
        folder=tmp_path,
        home=home,
        argocd=argocd,
        kubeconfig=cluster.kubeconfig_of_account(ACCOUNT, namespace=home),
    )
    guard.launch()
    yield guard
    guard.kubeconfig = None
    guard.unregister()
    guard.stop()
    for namespace in (home, argocd):
        cluster.drop_namespace(namespace)


def test_each_missing_right_is_one_line_among_the_troubles_until_it_is_given(guard: Guard) -> None:
    troubled(guard, "election", 'cannot get resource "leases" in API group "coordination.k8s.io"')
    troubled(guard, "replica lease", 'cannot patch resource "leases"')
    troubled(guard, "watch of Secret tiphys-webhook-tls", 'cannot list resource "secrets"')
    grant(guard, "coordination.k8s.io", ["leases"], [*READING, "create", "update", "patch", "delete"])
    troubled(guard, "certificates", 'cannot be renewed: secrets "tiphys-webhook-ca" is forbidden')
    grant(guard, "", ["secrets"], [*READING, "create", "update", "delete"])
    until(lambda: "certificates" not in guard.troubles, guard)
    waits_for(guard, "the cache of configuration", 'cannot list resource "configmaps"')
    waits_for(guard, "the cache of projects", 'cannot list resource "appprojects"')
    troubled(guard, "watch of ValidatingWebhookConfiguration", 'resource "validatingwebhookconfigurations"')
    grant(guard, "", ["configmaps", "secrets", "serviceaccounts", "namespaces"], READING, everywhere=True)
    grant(guard, "argoproj.io", ["applications", "appprojects"], READING, everywhere=True)
    kinds = ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"]
    grant(guard, "admissionregistration.k8s.io", kinds, READING, everywhere=True)
    until(lambda: guard.page("/readyz")[0] == 200, guard)
    account, guard.kubeconfig = guard.kubeconfig, None  # an admin registers
    guard.register()
    guard.kubeconfig = account
    right = bundle(guard)
    overwrite(guard)
    troubled(guard, "caBundle", 'cannot patch resource "validatingwebhookconfigurations"')
    grant(guard, "admissionregistration.k8s.io", kinds, ["patch"], everywhere=True)
    until(lambda: bundle(guard) == right, guard)
    until(lambda: guard.troubles == {}, guard)
    assert "Traceback" not in guard.log


def grant(
    guard: Guard, group: str, resources: list[str], verbs: list[str], *, everywhere: bool = False
) -> None:
    rule = {"apiGroups": [group], "resources": resources, "verbs": verbs}
    guard.cluster.grant(
        rules=[rule], account=f"{guard.home}/{ACCOUNT}", namespace="" if everywhere else guard.home
    )


def troubled(guard: Guard, what: str, said: str) -> None:
    until(lambda: said in guard.troubles.get(what, ""), guard)
    assert "\n" not in guard.troubles[what]


def waits_for(guard: Guard, what: str, said: str) -> None:
    def told() -> bool:
        lines = json.loads(guard.page("/status.json")[1])["not_ready"]
        return any(line.startswith(what) and said in line for line in lines)

    until(told, guard)


def until(holds: Callable[[], bool], guard: Guard) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if holds():
            return
        time.sleep(0.1)
    raise AssertionError(f"{guard.troubles}\n{guard.page('/readyz')[1]}")


def bundle(guard: Guard) -> Any:
    return guard.cluster.request("GET", CONFIGURATIONS)["webhooks"][0]["clientConfig"].get("caBundle")


def overwrite(guard: Guard) -> None:
    foreign = base64.b64encode(b"foreign").decode()
    patch = [{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": foreign}]
    guard.cluster.request("PATCH", CONFIGURATIONS, patch, content_type="application/json-patch+json")
