"""`tiphys webhook status`: replicas, leader, certificate and registration, as they stand in the cluster."""

import base64
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from argocd import names
from certs.authority import Authority, LeafSubject
from certs.key_pair import KeyPair
from kube.embedded import EmbeddedStore
from kube.resources import CONFIG_MAPS, LEASES, NAMESPACES, SECRETS, VALIDATING_WEBHOOKS
from kube.store import Object, PatchKind
from webhook.registration.register import register
from webhook.registration.status import Status, status
from webhook.registration.table import Registration

NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
PLACE = Registration()
AUTHORITY = Authority.create("ours", now=NOW)


@pytest.fixture
async def store() -> AsyncIterator[EmbeddedStore]:
    store = EmbeddedStore()
    for name in (PLACE.home, PLACE.argocd_namespace):
        await store.create(NAMESPACES, {"metadata": {"name": name}})
    yield store
    await store.close()


async def look(store: EmbeddedStore, place: Registration = PLACE) -> Status:
    return await status(store, place, now=NOW)


async def lease(store: EmbeddedStore, name: str, holder: str, *, age: float = 1) -> None:
    renewed = (NOW - timedelta(seconds=age)).isoformat()
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 30, "renewTime": renewed}
    body = {"metadata": {"name": name, "namespace": PLACE.home}, "spec": spec}
    await store.create(LEASES, body, namespace=PLACE.home)


async def leaf(store: EmbeddedStore, pair: KeyPair) -> None:
    data = {
        "tls.crt": pair.certificate,
        "tls.key": pair.key,
        "ca.crt": AUTHORITY.pair.certificate,
    }
    await store.create(
        SECRETS,
        {
            "metadata": {"name": "tiphys-webhook-tls", "namespace": PLACE.home},
            "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
        },
        namespace=PLACE.home,
    )


async def good(store: EmbeddedStore) -> None:
    await lease(store, "tiphys-webhook", "one")
    await lease(store, "tiphys-webhook-replica-one", "one 1.2.3")
    await lease(store, "tiphys-webhook-replica-two", "two 1.2.3")
    await leaf(store, AUTHORITY.issue(LeafSubject("w"), now=NOW))
    await register(store, PLACE, bundle=AUTHORITY.pair.certificate)


async def test_all_that_is_well_is_told_in_a_few_lines(store: EmbeddedStore) -> None:
    await good(store)
    # No API server asks anybody here, so the dry run passes.
    assert list((await look(store)).lines()) == [
        "NOT guarded: a bad project in a dry run was accepted",
        "certificate: valid until 2026-11-23T06:00:00Z; the caBundle agrees",
        "leader: one",
        "replica: one 1.2.3",
        "replica: two 1.2.3",
        "problem: a bad project was accepted in a dry run: the API server does not ask Tiphys, or it only warns",
    ]


async def test_versions_that_differ_and_replicas_that_are_silent_are_told(store: EmbeddedStore) -> None:
    await lease(store, "tiphys-webhook", "gone", age=300)
    await lease(store, "tiphys-webhook-replica-one", "one 1.2.3")
    await lease(store, "tiphys-webhook-replica-two", "two 1.3.0")
    await lease(store, "tiphys-webhook-replica-three", "three 1.2.3", age=300)
    lines = list((await look(store)).lines())
    assert "replica: three 1.2.3 (no sign of life)" in lines
    assert "weaker: replicas of different versions: wait for the roll-out to end" in lines
    assert "problem: no leader: certificates are not renewed" in lines
    assert "leader: none" in lines


async def test_one_replica_is_a_weakness(store: EmbeddedStore) -> None:
    await lease(store, "tiphys-webhook-replica-one", "one 1.2.3")
    assert "one replica: writes that fail closed stop while it restarts" in (await look(store)).weaknesses


async def test_a_ca_bundle_that_does_not_agree_is_told(store: EmbeddedStore) -> None:
    await good(store)
    await register(store, PLACE, bundle=Authority.create("other", now=NOW).pair.certificate)
    found = await look(store)
    assert found.certificate == "valid until 2026-11-23T06:00:00Z; the caBundle DOES NOT agree"
    told = "argocd.validate.tiphys.dev: the caBundle does not verify the certificate in Secret tiphys-webhook-tls"
    assert told in found.problems


async def test_a_changed_or_missing_entry_is_told(store: EmbeddedStore) -> None:
    await good(store)
    patch: list[Object] = [
        {"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"},
        {"op": "remove", "path": "/webhooks/5"},
    ]
    await store.patch(VALIDATING_WEBHOOKS, patch, name="tiphys", kind=PatchKind.JSON)
    problems = (await look(store)).problems
    assert "argocd.validate.tiphys.dev has failurePolicy Ignore, not Fail" in problems
    assert any(line.startswith("tracking.validate.tiphys.dev is missing in Validating") for line in problems)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("enforcement: warn", "enforcement is warn: nothing is refused"),
        ("enforcment: warn", "ConfigMap tiphys-system/tiphys is broken: "),
        (
            'agents: {agent-identities: ["system:serviceaccount:argocd:argocd-server"]}',
            "argocd-server counts as a sidecar too",
        ),
    ],
)
async def test_a_weak_configuration_is_told(store: EmbeddedStore, text: str, told: str) -> None:
    body = {"metadata": {"name": "tiphys", "namespace": PLACE.home}, "data": {"tiphys.yaml": text}}
    await store.create(CONFIG_MAPS, body, namespace=PLACE.home)
    assert any(line.startswith(told) for line in (await look(store)).weaknesses)


@pytest.mark.parametrize("enabled", ["team-a,team-b,prod", "team-*,prod", "/(team|prod|kube|tiphys).*/"])
async def test_application_namespaces_that_fail_open_are_told(store: EmbeddedStore, enabled: str) -> None:
    """Not those that the webhook was told of, and not an agent's, which its label guards."""
    for name, labels in (("team-a", {}), ("team-b", {}), ("prod", {names.TIPHYS_AGENT: "prod"})):
        await store.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
    body = {
        "metadata": {"name": "argocd-cmd-params-cm", "namespace": PLACE.argocd_namespace},
        "data": {"application.namespaces": enabled},
    }
    await store.create(CONFIG_MAPS, body, namespace=PLACE.argocd_namespace)
    place = replace(PLACE, application_namespaces=("team-b",))
    told = [each for each in (await look(store, place)).weaknesses if "fails open" in each]
    assert told == ["Argo CD takes Applications in team-a, where Tiphys fails open: --application-namespace"]
