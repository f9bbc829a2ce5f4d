"""The doctor's lines on a pair of principals: its objects on a real API server, both principals at work here."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from argocd import names
from checks.doctor.diagnosis import CheckHealth, Diagnosis
from checks.doctor.examination import look
from checks.doctor.examined import DoctorOptions, Examined, InstalledPart
from checks.doctor.pair_checks import SECTION
from checks.doctor.rights import rights_check
from kube.errors import InvalidError
from kube.live import LiveStore
from kube.resources import APP_PROJECTS
from kube.store import Object, Resource
from scripts.cluster.controlplane import Cluster
from sidecars.replication.record import HaRecord, HaRole, RecordStore
from tests.sidecars.pair_in_memory import ARGOCD, project
from tests.sidecars.replication.paired_principals import FencedStore, Region, regions

CHECKS = {check.id: check for check in SECTION.checks}
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
SECONDS = 60.0
OK, WARNING, ERROR = CheckHealth.OK, CheckHealth.WARNING, CheckHealth.ERROR


@pytest.fixture
async def store(cluster: Cluster) -> AsyncIterator[LiveStore]:
    found = await LiveStore.connect(kubeconfig=cluster.kubeconfig)
    yield found
    await found.close()


def examined(store: LiveStore, namespace: str, **options: Any) -> Examined:
    return Examined(store, DoctorOptions(argocd_namespace=namespace, principal_service="none:1", **options))


async def record(store: LiveStore, namespace: str, role: HaRole) -> None:
    kept = RecordStore(store, namespace=namespace)
    held = await kept.read()
    made = HaRecord(pair="p", principal="a", role=role, epoch=3, version=held.version if held else "")
    await (kept.change(made) if held else kept.create(made))


def principal(*words: str) -> Object:
    labels = {"app": "principal"}
    containers = [{"name": "principal", "image": "tiphys", "args": ["principal", *words]}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": "tiphys-principal"}, "spec": spec}


async def test_the_record_tells_the_role(store: LiveStore, namespace: str) -> None:
    patient = examined(store, namespace)
    assert SECTION.applies is not None
    assert not await SECTION.applies(patient)
    assert (await look(patient, CHECKS["pair/record"])).health is ERROR
    await record(store, namespace, HaRole.PROMOTING)
    assert await SECTION.applies(patient)
    unfinished = await look(patient, CHECKS["pair/record"])
    assert unfinished.health is ERROR
    assert "a promotion to epoch 3 has not ended" in unfinished.message
    await record(store, namespace, HaRole.ACTIVE)
    assert await look(patient, CHECKS["pair/record"]) == Diagnosis(OK, "active, epoch 3, the peer's is 0")


@contextmanager
def fence(cluster: Cluster, *, namespace: str) -> Iterator[None]:
    """One that is about nothing: what ours does is shown elsewhere."""
    nothing = {
        "apiGroups": ["none.example.org"],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["x"],
    }
    policy = {
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": {"resourceRules": [nothing]},
        "validations": [{"expression": "true"}],
    }
    binding = {
        "policyName": names.HA_FENCE,
        "validationActions": ["Deny"],
        "paramRef": {"name": names.HA_RECORD, "namespace": namespace, "parameterNotFoundAction": "Deny"},
    }
    made = ((POLICIES, policy), (BINDINGS, binding))
    try:
        for path, spec in made:
            cluster.request("POST", path, {"metadata": {"name": names.HA_FENCE}, "spec": spec})
        yield
    finally:
        for path, _ in made:
            cluster.request("DELETE", f"{path}/{names.HA_FENCE}")


async def test_the_fence_is_there_with_its_parameter(
    cluster: Cluster, store: LiveStore, namespace: str
) -> None:
    missing = await look(examined(store, namespace), CHECKS["pair/fence"])
    assert missing.health is ERROR
    assert "no ValidatingAdmissionPolicyBinding" in missing.message
    with fence(cluster, namespace="elsewhere"):
        wrong = await look(examined(store, namespace), CHECKS["pair/fence"])
        assert wrong.health is ERROR
        assert "looked for in elsewhere" in wrong.message
    with fence(cluster, namespace=namespace):
        assert (await look(examined(store, namespace), CHECKS["pair/fence"])).health is OK


async def test_the_peers_name_has_an_address(cluster: Cluster, store: LiveStore, namespace: str) -> None:
    patient = examined(store, namespace)
    assert (await look(patient, CHECKS["pair/address"])).health is WARNING
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    cluster.request("POST", path, principal("--ha-enabled", "--ha-peer-address=peer.invalid:443"))
    assert SECTION.applies is not None
    assert await SECTION.applies(patient)
    found = await look(patient, CHECKS["pair/address"])
    assert found.health is ERROR
    assert "peer.invalid has no address here" in found.message
    cluster.request("DELETE", f"{path}/tiphys-principal")
    cluster.request("POST", path, principal("--ha-enabled", "--ha-peer-address=localhost:443"))
    assert (await look(patient, CHECKS["pair/address"])).health is OK


class PickyStore(FencedStore):
    """An API server that refuses one project."""

    async def create(self, resource: Resource, body: Object, **more: Any) -> Object:
        if body["metadata"].get("name") == "unwanted":
            raise InvalidError("unwanted is invalid")
        return await super().create(resource, body, **more)


@asynccontextmanager
async def a_pair() -> AsyncIterator[tuple[Region, Region]]:
    async with regions(FencedStore(), PickyStore()) as (one, two):
        await asyncio.gather(one.start(), two.start())
        await one.until("active")
        await two.until("replicating")
        yield one, two


def admin(region: Region) -> str:
    assert region.process is not None
    assert region.process.pair is not None
    assert region.process.pair.admin is not None
    return f"127.0.0.1:{region.process.pair.admin.port}"


def health(region: Region) -> str:
    assert region.process is not None
    return f"http://127.0.0.1:{region.process.health.port}/healthz"


async def seen(patient: Examined, id_: str, *, health: CheckHealth) -> Diagnosis:
    deadline = asyncio.get_running_loop().time() + SECONDS
    while (found := await look(patient, CHECKS[id_])).health is not health:
        assert asyncio.get_running_loop().time() < deadline, found
        await asyncio.sleep(0.05)
    return found


async def test_health_is_what_dns_must_hear(store: LiveStore, namespace: str) -> None:
    await record(store, namespace, HaRole.ACTIVE)
    nobody = await look(examined(store, namespace), CHECKS["pair/health"])
    assert nobody.health is ERROR, "the API server finds no such Service"
    unreachable = await look(
        examined(store, namespace, health_url="http://127.0.0.1:1/"), CHECKS["pair/health"]
    )
    assert unreachable.health is WARNING
    async with a_pair() as (one, two):
        active = examined(store, namespace, health_url=health(one))
        standby = examined(store, namespace, health_url=health(two))
        assert await look(active, CHECKS["pair/health"]) == Diagnosis(
            OK, "200, as it must be of the active one"
        )
        wrong = await look(standby, CHECKS["pair/health"])
        assert wrong.health is ERROR
        assert "it is active and /healthz says 503: HA state: replicating" in wrong.message
        await record(store, namespace, HaRole.STANDBY)
        assert (await look(standby, CHECKS["pair/health"])).health is OK
        assert (await look(active, CHECKS["pair/health"])).health is ERROR


async def test_the_peer_and_what_is_replicated_are_told(store: LiveStore, namespace: str) -> None:
    silent = await look(examined(store, namespace, ha_address="127.0.0.1:1"), CHECKS["pair/peer"])
    assert silent.health is WARNING
    assert "port-forward" in silent.remedy
    async with a_pair() as (one, two):
        active = examined(store, namespace, ha_address=admin(one))
        standby = examined(store, namespace, ha_address=admin(two))
        for patient in (active, standby):
            assert (await seen(patient, "pair/peer", health=OK)).message.startswith("localhost:")
            await seen(patient, "pair/replication", health=OK)
        await one.store.create(APP_PROJECTS, project("unwanted"), namespace=ARGOCD)
        lost = await seen(standby, "pair/replication", health=ERROR)
        assert "could not be written on the replica" in lost.message
        await one.stop()
        alone = await seen(standby, "pair/peer", health=ERROR)
        assert "does not answer" in alone.message


async def test_a_principal_of_a_pair_needs_more_rights(
    cluster: Cluster, store: LiveStore, namespace: str
) -> None:
    patient = examined(store, namespace)
    alone = await look(patient, rights_check(InstalledPart.PRINCIPAL))
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    cluster.request("POST", path, principal("--ha-enabled"))
    paired = await look(patient, rights_check(InstalledPart.PRINCIPAL))
    assert alone.health is paired.health is ERROR

    def needed(found: Diagnosis) -> int:
        return int(found.message.partition(" of ")[2].partition(":")[0])

    assert needed(paired) > needed(alone)
