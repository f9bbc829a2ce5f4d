"""What argocd-agent does wrong in a pair, tried with a real one and ours on the other end: it costs no object and shows
no Secret.

There is no garbage collector beside these API servers, and argocd-agent deletes in the foreground: what it has deleted
stays with a deletion timestamp.
"""

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from grpc import aio

from argocd import names
from kube import queries
from kube.live import LiveStore
from kube.resources import APP_PROJECTS, APPLICATIONS, CONFIG_MAPS, SECRETS
from kube.store import PatchKind
from kube.store import Resource as KubeResource
from scripts.argocd_agent import AGENTCTL, BINARY
from scripts.cluster.controlplane import Cluster
from sidecars.wire.generated.replication_pb2 import (
    ConfirmMissingResourcesRequest,
    ConfirmMissingResourcesResponse,
    ReplicationStatus,
    Resource,
)
from sidecars.wire.tls import channel_credentials
from tests.cluster.go_principal import Door, GoAgent, GoPrincipal, MixedPair, forced
from tests.cluster.installation import tiphys
from tests.cluster.paired_hubs import AGENT, ARGOCD, PATIENCE, Hub, connected
from tests.sidecars import pair_in_memory
from tests.sidecars.pair_in_memory import application, project

pytestmark = [
    pytest.mark.skipif(not BINARY, reason="ARGOCD_AGENT_BIN names no argocd-agent"),
    pytest.mark.skipif(
        bool(BINARY) and not Path(AGENTCTL).exists(), reason="no argocd-agentctl beside argocd-agent"
    ),
    pytest.mark.cluster,
    pytest.mark.timeout(420),
]

LATE = 600
"""Applications of a snapshot: a standby writes them for some seconds."""

log = logging.getLogger(__name__)


class Fleet:
    """A pair of which one is argocd-agent's, and an agent of argocd-agent's."""

    def __init__(self, ours: Hub, go: GoPrincipal, agent: GoAgent) -> None:
        self.ours, self.go, self.agent = ours, go, agent
        self.pair = MixedPair(ours, go)
        agent.equip(ours)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Cluster(name="ours") as a, Cluster(name="go") as b, Cluster(name="spoke") as c:
        made = Fleet(Hub("a", a, tmp_path), GoPrincipal("b", b, tmp_path), GoAgent(c, tmp_path))
        try:
            yield made
        finally:
            made.agent.kill()
            made.pair.kill()


@asynccontextmanager
async def stores(fleet: Fleet) -> AsyncIterator[tuple[LiveStore, LiveStore, LiveStore]]:
    """Of our hub, of the Go one and of the agent."""
    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(fleet.ours.store())
        there = await stack.enter_async_context(connected(fleet.go.cluster.kubeconfig))
        spoke = await stack.enter_async_context(connected(fleet.agent.cluster.kubeconfig))
        yield here, there, spoke


def repository(name: str) -> dict[str, Any]:
    labels = {names.SECRET_TYPE: names.SECRET_TYPE_REPOSITORY}
    return {
        "metadata": {"name": name, "labels": labels},
        "stringData": {"url": f"https://git.example.org/{name}", "project": "web", "password": "of the hub"},
    }


def alive(there: dict[str, Any]) -> set[str]:
    return {name for name, item in there.items() if "deletionTimestamp" not in item["metadata"]}


async def until(store: LiveStore, condition: Any, *, namespace: str, of: KubeResource = APPLICATIONS) -> None:
    """Of the names of what nobody is deleting."""
    await pair_in_memory.until(
        store, of, lambda there: condition(alive(there)), namespace=namespace, patience=PATIENCE
    )


async def present(store: LiveStore, *, namespace: str) -> dict[str, Any]:
    found = {}
    async for page in queries.pages(store, APPLICATIONS, namespace=namespace):
        found.update({item["metadata"]["name"]: item for item in page})
    return found


async def create(store: LiveStore, name: str) -> None:
    await store.create(APPLICATIONS, application(name), namespace=AGENT)


async def revise(store: LiveStore, name: str, revision: str) -> None:
    patch = {"spec": {"source": {"targetRevision": revision}}}
    await store.patch(APPLICATIONS, patch, name=name, namespace=AGENT, kind=PatchKind.MERGE)


async def secret(store: LiveStore, name: str) -> dict[str, Any] | None:
    found = await queries.find(store, SECRETS, name=name, namespace=ARGOCD)
    return None if found is None or "deletionTimestamp" in found["metadata"] else found


async def moved_on(there: LiveStore, here: LiveStore, name: str) -> None:
    """What the primary told before has come too."""
    await create(there, name)
    await until(here, lambda found: name in found, namespace=AGENT)


async def route(store: LiveStore, agent: str) -> None:
    """Project `web` reaches this agent alone."""
    patch = {"spec": {"destinations": [{"name": agent, "namespace": "*"}]}}
    await store.patch(APP_PROJECTS, patch, name="web", namespace=ARGOCD, kind=PatchKind.MERGE)


async def takes_nothing_for_deleted(there: LiveStore, here: LiveStore, spoke: LiveStore) -> None:
    # "Not for this agent any more" is forwarded as "deleted".
    await route(there, "elsewhere")
    await until(spoke, lambda found: "repo" not in found, namespace=ARGOCD, of=SECRETS)
    await moved_on(there, here, "after-repo")
    assert await secret(here, "repo") is not None
    log.info("un-routed: the agent has lost the repository, our standby has it")

    # So is an agent's deletion of what its primary keeps.
    label = {"metadata": {"labels": {names.IGNORE_SYNC: "true"}}}
    await there.patch(APPLICATIONS, label, name="kept", namespace=AGENT, kind=PatchKind.MERGE)
    await until(spoke, lambda found: "kept" not in found, namespace=ARGOCD)
    await moved_on(there, here, "after-kept")
    await until(here, lambda found: "kept" in found, namespace=AGENT)
    log.info("kept from its agent: the agent has lost the Application, our standby has it")


async def test_a_go_primary_and_its_agent_cost_our_standby_nothing_nor_its_promotion_the_agent(
    fleet: Fleet,
) -> None:
    ours, go = fleet.ours, fleet.go
    fleet.pair.start_go("primary")
    await go.until("active")
    fleet.pair.start_ours("replica")
    async with stores(fleet) as (here, there, spoke), Door(go).listening() as door:
        fleet.agent.start(door.port)
        await there.create(APP_PROJECTS, project("web", agents=AGENT), namespace=ARGOCD)
        for name in ("web", "kept"):
            await create(there, name)
        await until(spoke, lambda found: {"web", "kept"} <= found, namespace=ARGOCD)
        await there.create(SECRETS, repository("repo"), namespace=ARGOCD)
        for store in (spoke, here):
            await until(store, lambda found: "repo" in found, namespace=ARGOCD, of=SECRETS)
        await ours.until("replicating")
        await takes_nothing_for_deleted(there, here, spoke)

        # A promotion in the middle of a snapshot, which is not its first.
        await pair_in_memory.until(
            here,
            CONFIG_MAPS,
            lambda found: found.get(names.HA_CURSOR, {}).get("data", {}).get("syncedOnce") == "true",
            namespace=ARGOCD,
            patience=PATIENCE,
        )
        ours.kill()
        late = {f"late-{number:03}" for number in range(LATE)}
        for name in sorted(late):
            await create(there, name)
        await until(spoke, lambda found: late <= found, namespace=ARGOCD)
        fleet.pair.start_ours("replica")
        await until(here, lambda found: len(found & late) > LATE // 10, namespace=AGENT)
        go.kill()
        assert await forced(ours, epoch=0) == ("active", 1)
        known = await present(here, namespace=AGENT)
        assert {"web", "kept", "after-repo", "after-kept"} <= set(known)
        missing = late - set(known)
        assert missing
        edited = sorted(late & set(known))[:20]
        for name in edited:
            await revise(here, name, "edited")
        log.info("promoted with %d of %d of the snapshot", LATE - len(missing), LATE)

        # The agent meets a principal that lacks the last creations.
        tiphys(ours.cluster, "agents", "create", AGENT, "--mode", "managed")
        before = await present(spoke, namespace=ARGOCD)
        door.hub = ours
        told = await ours.until("active", so=lambda told: told["held_count"] == len(missing))
        log.info("%d objects held, %d missing", told["held_count"], len(missing))
        await revise(here, "web", "later")
        await pair_in_memory.until(
            spoke,
            APPLICATIONS,
            lambda found: found["web"]["spec"]["source"]["targetRevision"] == "later",
            namespace=ARGOCD,
            patience=PATIENCE,
        )
        after = await present(spoke, namespace=ARGOCD)
        assert alive(after) >= late | {"web"}
        assert {name: after[name]["metadata"]["uid"] for name in before} == {
            name: item["metadata"]["uid"] for name, item in before.items()
        }
        # Nothing of the snapshot was written after the promotion.
        at_last = await present(here, namespace=AGENT)
        assert set(at_last) == set(known)
        assert {at_last[name]["spec"]["source"]["targetRevision"] for name in edited} == {"edited"}


async def test_an_application_that_moves_to_another_agent_of_a_go_primary_stays_on_our_standby(
    fleet: Fleet,
) -> None:
    by_destination = "--destination-based-mapping"
    fleet.pair.start_go("primary", by_destination)
    await fleet.go.until("active")
    fleet.pair.start_ours("replica", by_destination)
    async with stores(fleet) as (here, there, spoke), Door(fleet.go).listening() as door:
        fleet.agent.start(door.port, by_destination)
        made = application("moving")
        made["spec"]["destination"]["name"] = AGENT
        await there.create(APPLICATIONS, made, namespace=ARGOCD)
        for store in (spoke, here):
            await until(store, lambda found: "moving" in found, namespace=ARGOCD)
        await fleet.ours.until("replicating")
        to = {"spec": {"destination": {"name": "elsewhere"}}}
        await there.patch(APPLICATIONS, to, name="moving", namespace=ARGOCD, kind=PatchKind.MERGE)
        await until(spoke, lambda found: "moving" not in found, namespace=ARGOCD)
        await pair_in_memory.until(
            here,
            APPLICATIONS,
            lambda found: found["moving"]["spec"]["destination"]["name"] == "elsewhere",
            namespace=ARGOCD,
            patience=PATIENCE,
        )
        await moved_on(there, here, "after")
        assert "moving" in alive(await present(here, namespace=ARGOCD))
        log.info("moved: the agent has lost the Application, our standby has it")


async def asked_by_the_replica(pair: MixedPair, *wanted: str) -> list[tuple[str, bytes]]:
    """About Secrets, with the certificate of the real one."""
    credentials = channel_credentials(pair.go.material)
    async with aio.secure_channel(f"localhost:{pair.ours.port}", credentials) as channel:

        async def call(name: str, request: bytes) -> bytes:
            raw: bytes = await channel.unary_unary(f"/replicationapi.Replication/{name}")(request, timeout=30)
            return raw

        status = ReplicationStatus.FromString(await call("Status", b""))
        request = ConfirmMissingResourcesRequest(
            agent_name=AGENT,
            snapshot_sequence_num=status.current_sequence_num,
            resources=[Resource(kind="Repository", namespace=ARGOCD, name=name) for name in wanted],
        )
        raw = await call("ConfirmMissingResources", request.SerializeToString())
        results = ConfirmMissingResourcesResponse.FromString(raw).results
        return [(result.status, result.resource.data) for result in results]


async def test_a_go_replica_keeps_what_lost_its_label_loses_what_is_gone_and_is_shown_no_other_secret(
    fleet: Fleet,
) -> None:
    ours, pair = fleet.ours, fleet.pair
    pair.start_go("replica")
    await fleet.go.until("syncing", "disconnected")
    pair.start_ours("primary")
    await ours.until("active", so=lambda told: told["fenced"])
    tiphys(ours.cluster, "agents", "create", AGENT, "--mode", "managed")
    async with stores(fleet) as (here, there, _), Door(ours).listening() as door:
        fleet.agent.start(door.port)
        await ours.until("active", so=lambda told: told["connected_agents"] == 1)
        await here.create(APP_PROJECTS, project("web", agents=AGENT), namespace=ARGOCD)
        made = {"labelled", "deleted", "nobodys"}
        for name in made:
            await here.create(SECRETS, repository(name), namespace=ARGOCD)
        await until(there, lambda found: made <= found, namespace=ARGOCD, of=SECRETS)

        # Un-routed they stay; one that is deleted then goes.
        await route(here, "elsewhere")
        await moved_on(here, there, "after-routing")
        assert all([await secret(there, name) for name in made])
        await here.delete(SECRETS, name="nobodys", namespace=ARGOCD)
        await until(there, lambda found: "nobodys" not in found, namespace=ARGOCD, of=SECRETS)
        await route(here, AGENT)
        log.info("un-routed: the replica kept the repositories, and lost the one that was deleted then")

        # While ours is away one is deleted, and one is a repository no more; the replica asks about both.
        ours.kill()
        await here.delete(SECRETS, name="deleted", namespace=ARGOCD)
        label = {"metadata": {"labels": {names.SECRET_TYPE: None}}}
        await here.patch(SECRETS, label, name="labelled", namespace=ARGOCD, kind=PatchKind.MERGE)
        pair.start_ours("primary")
        await ours.until("active")
        await until(there, lambda found: "deleted" not in found, namespace=ARGOCD, of=SECRETS)
        await moved_on(here, there, "after-return")
        assert await secret(there, "labelled") is not None
        log.info("away: the replica lost what was deleted, and kept what had lost its label")

        hidden = ("labelled", "argocd-agent-jwt", "argocd-agent-ca", "argocd-agent-principal-tls")
        assert all([await secret(here, name) for name in hidden])
        assert await asked_by_the_replica(pair, *hidden) == [("unknown", b"")] * len(hidden)
        assert await asked_by_the_replica(pair, "never-there") == [("deleted", b"")]
        log.info("asked about %s: not said to be gone, and nothing shown", ", ".join(hidden))
