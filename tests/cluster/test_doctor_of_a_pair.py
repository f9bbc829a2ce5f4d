"""The doctor beside a pair of principals on real API servers: green, then red after a difference by hand and a stop."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest

from checks.doctor.diagnosis import CheckHealth, Diagnosis
from checks.doctor.examination import look
from checks.doctor.examined import DoctorOptions, Examined
from checks.doctor.pair_checks import SECTION
from kube.resources import APP_PROJECTS
from scripts.cluster.controlplane import Cluster
from tests.cluster.paired_hubs import ARGOCD, PATIENCE, Hub, PairOfHubs, connected, equal
from tests.sidecars.pair_in_memory import describe, project, until

pytestmark = [pytest.mark.cluster, pytest.mark.proof, pytest.mark.timeout(600)]

CHECKS = {check.id: check for check in SECTION.checks}
OK, ERROR = CheckHealth.OK, CheckHealth.ERROR
ROLES = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{ARGOCD}/roles/tiphys-principal"


@pytest.fixture
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PairOfHubs]:
    folder = tmp_path_factory.mktemp("pair")
    with Cluster(name="region-a") as a, Cluster(name="region-b") as b:
        hubs = PairOfHubs(Hub("a", a, folder), Hub("b", b, folder), folder)
        hubs.equip()
        try:
            yield hubs
        finally:
            hubs.kill()


@asynccontextmanager
async def examined(hub: Hub, *, health: bool = True) -> AsyncIterator[Examined]:
    """Without `health` that is asked through the API server."""
    options = DoctorOptions(
        argocd_namespace=ARGOCD,
        principal_service="none:1",
        ha_address=f"127.0.0.1:{hub.admin_port}",
        health_url=f"http://127.0.0.1:{hub.health}/healthz" if health else "",
    )
    async with connected(hub.cluster.kubeconfig) as store:
        yield Examined(store, options)


async def seen(patient: Examined, id_: str, *, health: CheckHealth, words: str = "") -> Diagnosis:
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while True:
        found = await look(patient, CHECKS[id_])
        if found.health is health and words in found.message:
            return found
        assert asyncio.get_running_loop().time() < deadline, found
        await asyncio.sleep(0.1)


@contextmanager
def projects_read_only(hub: Hub) -> Iterator[None]:
    """The principal may not write them there."""
    role = hub.cluster.request("GET", ROLES)
    before = json.loads(json.dumps(role["rules"]))
    for rule in role["rules"]:
        if "appprojects" in rule["resources"]:
            rule["verbs"] = ["get", "list", "watch"]
    hub.cluster.request("PUT", ROLES, role)
    try:
        yield
    finally:
        role = hub.cluster.request("GET", ROLES)
        hub.cluster.request("PUT", ROLES, {**role, "rules": before})


async def test_health_peer_and_replication_are_red_where_they_must_be(pair: PairOfHubs) -> None:
    a, b = pair.a, pair.b
    b.start(role="replica")
    a.start()
    await a.until("active", so=lambda told: told["fenced"])
    async with a.store() as at_a, b.store() as at_b:
        await at_a.create(APP_PROJECTS, project("web", description="as told"), namespace=ARGOCD)
        await until(at_b, APP_PROJECTS, lambda there: "web" in there)
        await equal(a, b)
        async with examined(a) as active, examined(b) as standby:
            for patient in (active, standby):
                for id_ in CHECKS:
                    if id_ != "pair/address":  # these principals have no Deployment that would tell it
                        await seen(patient, id_, health=OK)
            with projects_read_only(b):
                await describe(at_b, "web", "by hand")
                for patient in (active, standby):
                    await seen(patient, "pair/replication", health=ERROR)
            for patient in (active, standby):
                await seen(patient, "pair/replication", health=OK)
            a.kill()
            await seen(standby, "pair/peer", health=ERROR, words="does not answer")
            async with examined(a, health=False) as stopped:  # whose Service nobody gives endpoints here
                await seen(stopped, "pair/health", health=ERROR, words="it is active and /healthz says 404")
