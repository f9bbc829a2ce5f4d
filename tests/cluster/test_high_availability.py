"""Two hubs and a workload cluster, each with a real API server; principals are processes that are killed."""

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any

import pytest

from argocd import names
from argocd.reading import text
from kube import queries
from kube.errors import AlreadyExistsError, ForbiddenError
from kube.leases import LeaseTiming
from kube.live import LiveStore
from kube.resources import APP_PROJECTS, APPLICATION_SETS, APPLICATIONS, CONFIG_MAPS, SECRETS
from kube.store import Object, PatchKind, Resource
from scripts.cluster.controlplane import Cluster
from sidecars.fleet.ha_client import HaRefusedError
from tests.cluster.access_rights import called, given, unused
from tests.cluster.paired_hubs import (
    AGENT,
    ARGOCD,
    PATIENCE,
    Hub,
    Link,
    OneName,
    PairWithWorkload,
    connected,
    equal,
    record_of,
    word,
)
from tests.sidecars.pair_in_memory import application, describe, project, until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PairWithWorkload]:
    """Clusters of its own: an API server does not follow the parameter of a policy that is installed twice."""
    folder = tmp_path_factory.mktemp("pair")
    with Cluster(name="region-a") as a, Cluster(name="region-b") as b, Cluster(name="spoke") as workload:
        hubs = PairWithWorkload(Hub("a", a, folder), Hub("b", b, folder), workload, folder)
        hubs.equip()
        try:
            yield hubs
        finally:
            hubs.kill()


def web(name: str) -> dict[str, Any]:
    return application(name, metadata={"namespace": AGENT})


async def applications_on(store: LiveStore, namespace: str) -> set[str]:
    return {item["metadata"]["name"] for item in (await store.list(APPLICATIONS, namespace=namespace)).items}


async def uids_on(workload: LiveStore) -> dict[str, str]:
    page = await workload.list(APPLICATIONS, namespace=ARGOCD)
    return {item["metadata"]["name"]: item["metadata"]["uid"] for item in page.items}


def deletions(cluster: Cluster, *, since: int = 0) -> list[str]:
    """By our programs, from the audit log's line `since` on."""
    return [
        event["objectRef"].get("name", "")
        for event in cluster.audited(since=since)
        if event["verb"] in {"delete", "deletecollection"}
        and event["objectRef"].get("apiGroup") == APPLICATIONS.group
    ]


@pytest.fixture
async def name(pair: PairWithWorkload) -> AsyncIterator[OneName]:
    async with OneName(pair.a, pair.b).listening() as listening:
        yield listening


SET = {
    "generators": [{"list": {"elements": []}}],
    "template": {
        "metadata": {"name": "x"},
        "spec": {"project": "web", "source": {"repoURL": "https://git", "path": "."}, "destination": {}},
    },
}
SET_STATUS: Object = {"status": {"resourcesCount": 1}}
EVERYTHING = {"first", *(f"last-{number}" for number in range(20))}


async def first_sync_and_streaming(pair: PairWithWorkload, workload: LiveStore) -> None:
    async with pair.a.store() as at_a, pair.b.store() as at_b:
        await at_a.create(APP_PROJECTS, project("web", agents=AGENT), namespace=ARGOCD)
        await at_a.create(APPLICATIONS, web("first"), namespace=AGENT)
        await until(workload, APPLICATIONS, lambda there: "first" in there)
        await until(at_b, APPLICATIONS, lambda there: "first" in there, namespace=AGENT)
    await equal(pair.a, pair.b)
    with pytest.raises(HaRefusedError, match="still replicating from peer"):
        await pair.b.admin.change_role("Promote", word())


async def primary_killed_and_replica_promoted(
    pair: PairWithWorkload, workload: LiveStore, link: Link
) -> None:
    """The primary's last twenty creations reach the agent and not the replica; then it is gone."""
    a, b = pair.a, pair.b
    link.cut()
    await b.until("disconnected")
    async with a.store() as at_a:
        for number in range(20):
            await at_a.create(APPLICATIONS, web(f"last-{number}"), namespace=AGENT)
    await until(workload, APPLICATIONS, lambda there: set(there) >= EVERYTHING)
    a.kill()
    async with connected(b.cluster.kubeconfig) as other:
        with pytest.raises(ForbiddenError, match="this cluster is a standby"):
            await other.create(APPLICATIONS, web("too-early"), namespace=AGENT)
        assert await b.admin.change_role("Promote", word()) == ("active", 2)
        assert await b.health_check() == 200
        await other.create(APPLICATIONS, web("later"), namespace=AGENT)
    await until(workload, APPLICATIONS, lambda there: "later" in there)
    told = await b.until("active", so=lambda told: told["held_count"] == 20)
    assert {each["name"] for each in told["held"]} == EVERYTHING - {"first"}


async def old_primary_returns_and_steps_back(pair: PairWithWorkload) -> None:
    """With its flag still saying primary."""
    a, b = pair.a, pair.b
    a.start()
    await a.until("replicating")
    await equal(b, a)
    assert record_of(a)["role"] == "standby"
    # What only it had is deleted there, and named.
    surplus = (await a.status())["replication"]["surplus"]
    assert {each["name"] for each in surplus if each["what"] == "deleted"} == EVERYTHING - {"first"}
    written = a.log.read_text()
    assert all(name in written for name in EVERYTHING - {"first"})
    async with a.store() as at_a, b.store() as at_b:
        there = await applications_on(at_a, AGENT)
        assert there == await applications_on(at_b, AGENT) == {"first", "later"}


async def test_four_journeys(pair: PairWithWorkload, name: OneName) -> None:
    a, b = pair.a, pair.b
    async with Link(a).listening() as link, pair.at_workload() as workload:
        b.start(role="replica", through=link.port)
        a.start()
        await a.until("active", so=lambda told: told["fenced"])
        assert (await a.health_check(), await b.health_check()) == (200, 503)
        await asyncio.to_thread(pair.equip_agent, a)
        with pair.agent(name):
            await first_sync_and_streaming(pair, workload)
            await primary_killed_and_replica_promoted(pair, workload, link)
            link.is_cut = False
            await old_primary_returns_and_steps_back(pair)
            # No workload has disappeared: that is an operator's word.
            kept = await uids_on(workload)
            assert set(kept) == EVERYTHING | {"later"}
            # Failback.
            await b.admin.change_role("Demote", word())
            await a.until("disconnected")
            assert await a.admin.change_role("Promote", word()) == ("active", 3)
            await a.until("active", so=lambda told: told["connected_agents"] == 1)
            await equal(a, b)
            # Both are killed at once and come back in any order, whatever their flags prefer.
            for (first, role), (second, other) in (
                ((a, "primary"), (b, "primary")),
                ((b, "primary"), (a, "replica")),
            ):
                pair.kill()
                first.start(role=role)
                await asyncio.sleep(1)
                second.start(role=other)
                await a.until("active", so=lambda told: told["connected_agents"] == 1)
                await equal(a, b)
            assert (record_of(a)["epoch"], record_of(b)["epoch"]) == ("3", "2")
            # The same ones from beginning to end: none was deleted and made again.
            assert await uids_on(workload) == kept
            assert deletions(pair.workload) == []
            await every_right_that_the_standbys_component_adds_is_used_and_none_is_lacking(a, b)


async def settled(pair: PairWithWorkload) -> tuple[Hub, Hub]:
    """Both run, whatever the test before has left: the active one and the other."""
    a, b = pair.a, pair.b
    if a.process is None and b.process is None:
        b.start(role="replica")
        a.start()
    for hub in (a, b):
        await hub.until("active", "replicating")
    active, standby = (a, b) if (await a.status())["state"] == "active" else (b, a)
    await equal(active, standby)
    return active, standby


async def every_right_that_the_standbys_component_adds_is_used_and_none_is_lacking(
    active: Hub, standby: Hub
) -> None:
    maps = ("argocd-gpg-keys-cm", "argocd-agent-tls-blocklist", "tiphys-agent-modes")
    named = {"metadata": {"name": "every-kind"}}
    repository = {"metadata": {"name": "every-kind", "labels": {names.SECRET_TYPE: "repository"}}}
    one_of_each: list[tuple[Resource, Object, Object]] = [
        (APPLICATION_SETS, {**named, "spec": SET}, {"spec": {"goTemplate": True}}),
        (
            SECRETS,
            {**repository, "stringData": {"url": "https://git"}},
            {"stringData": {"url": "https://other"}},
        ),
        *((CONFIG_MAPS, {"metadata": {"name": name}, "data": {}}, {"data": {"a": "b"}}) for name in maps),
    ]
    added = given(standby.cluster, "standby", "tiphys-principal") - given(
        standby.cluster, "control-plane", "tiphys-principal"
    )
    async with active.store() as at_active, standby.store() as at_standby:
        for resource, body, change in one_of_each:
            name = body["metadata"]["name"]
            there = partial(queries.find, at_standby, resource, name=name, namespace=ARGOCD)
            with suppress(AlreadyExistsError):
                await at_active.create(resource, body, namespace=ARGOCD)
            await eventually(there)
            if resource == APPLICATION_SETS:  # the only one whose status needs a right of its own
                held = await at_active.get(resource, name=name, namespace=ARGOCD)
                await at_active.replace(resource, {**held, **SET_STATUS}, subresource="status")
                await eventually(lambda there=there: _has(there, SET_STATUS))  # type: ignore[misc]
            before = text(await there(), "metadata", "resourceVersion")
            await at_active.patch(resource, change, name=name, namespace=ARGOCD, kind=PatchKind.MERGE)
            await eventually(
                lambda there=there, before=before: _is_another(there, before)  # type: ignore[misc]
            )
            await at_active.delete(resource, name=name, namespace=ARGOCD)
            await eventually(lambda there=there: _is_gone(there))  # type: ignore[misc]
        await equal(active, standby)
    calls = called(standby.cluster, f"system:serviceaccount:{ARGOCD}:tiphys-principal", since=0)
    assert {str(call) for call in calls.refused} == set()
    assert {str(right) for right in unused(added, calls)} == set()


async def _is_another(there: Callable[[], Awaitable[Object | None]], version: str) -> bool:
    return text(await there() or {}, "metadata", "resourceVersion") != version


async def _has(there: Callable[[], Awaitable[Object | None]], part: Object) -> bool:
    return part.items() <= (await there() or {}).items()


async def _is_gone(there: Callable[[], Awaitable[Object | None]]) -> bool:
    return await there() is None


async def eventually(condition: Callable[[], Awaitable[Any]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await condition():  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.05)


@pytest.mark.proof
async def test_a_fence_that_is_edited_is_noticed_and_keeps_from_promoting(pair: PairWithWorkload) -> None:
    active, standby = await settled(pair)
    binding = ("validatingadmissionpolicybinding", names.HA_FENCE, "--type=merge", "-p")
    standby.cluster.kubectl("patch", *binding, '{"spec": {"validationActions": ["Audit"]}}')
    try:
        words = ""
        async with asyncio.timeout(60):
            while "this cluster is not fenced" not in words:  # an API server hears of it by its own watch
                with pytest.raises(HaRefusedError) as caught:
                    await standby.admin.change_role("Promote", word())
                words = str(caught.value)
    finally:
        standby.cluster.kubectl("patch", *binding, '{"spec": {"validationActions": ["Deny"]}}')
    await standby.until("replicating", so=lambda told: told["fenced"])
    assert (await active.status())["state"] == "active"


@pytest.mark.proof
async def test_an_active_one_that_was_paused_beyond_its_lease_writes_nothing_and_steps_back(
    pair: PairWithWorkload,
) -> None:
    active, standby = await settled(pair)
    active.signal(signal.SIGSTOP)
    try:
        await standby.until("disconnected")
        await standby.admin.change_role("Promote", word())
        await asyncio.sleep(LeaseTiming().duration)
        began = active.cluster.audit_count()
    finally:
        active.signal(signal.SIGCONT)
    await active.until("replicating")
    user = f"system:serviceaccount:{ARGOCD}:tiphys-principal"
    written = {
        event["objectRef"].get("name", event["objectRef"]["resource"])
        for event in active.cluster.audited(since=began)
        if event["user"]["username"] == user and event["verb"] in {"create", "update", "patch", "delete"}
    }
    assert written <= {"tiphys-principal", names.HA_RECORD, names.HA_CURSOR, names.HA_CANARY, "events"}
    await equal(standby, active)


def stored(cluster: Cluster, *, since: int) -> Counter[str]:
    """How often our programs have written each of Argo CD's objects, from the audit log's line `since` on."""
    return Counter(
        event["objectRef"].get("name", "")
        for event in cluster.audited(since=since)
        if event["verb"] in {"create", "update", "patch", "delete"}
        and event["objectRef"].get("apiGroup") == APP_PROJECTS.group
        and event["responseStatus"]["code"] < HTTPStatus.BAD_REQUEST
    )


@pytest.mark.proof
async def test_a_standby_killed_before_and_after_an_acknowledgement_writes_nothing_twice(
    pair: PairWithWorkload,
) -> None:
    active, standby = await settled(pair)
    names_made = {f"burst-{number}" for number in range(60)}
    began = standby.cluster.audit_count()
    async with active.store() as at_active:
        for number, each in enumerate(sorted(names_made)):
            await at_active.create(APP_PROJECTS, project(each), namespace=ARGOCD)
            if number == len(names_made) // 2:
                standby.kill()  # in the middle of applying
        standby.start()
        await equal(active, standby)
        # A write whose caller died under it is in the audit log as failed, whether it was stored or not.
        assert stored(standby.cluster, since=began) <= Counter(names_made)
        # All is acknowledged, and the cursor, which is kept once a second, does not say so yet.
        last = await describe(at_active, "burst-0", "changed")
        await active.until("active", so=lambda told: told["replicas"][0]["lag_events"] == 0)
        standby.kill()
        standby.start()
        await equal(active, standby)
    written = stored(standby.cluster, since=began)
    assert written <= Counter([*names_made, last["metadata"]["name"]])
    assert written[last["metadata"]["name"]] == 2
