"""A pair of which one is a real argocd-agent, on real API servers: restarts of either side, deletions meanwhile, promotions
of either, and what argocd-agent does wrong with our principal on the other end.

There is no garbage collector beside these API servers, and argocd-agent deletes in the foreground: what it has deleted
stays with a deletion timestamp.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kube.live import LiveStore
from kube.resources import APP_PROJECTS, APPLICATIONS
from scripts.argocd_agent import AGENTCTL, BINARY
from scripts.cluster.controlplane import Cluster
from sidecars.fleet.ha_client import HaRefusedError
from tests.cluster.go_principal import GoPrincipal, MixedPair, agentctl, forced
from tests.cluster.paired_hubs import AGENT, ARGOCD, PATIENCE, Hub, connected, word
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


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[MixedPair]:
    """The fence is an API server's own: clusters of the test's."""
    with Cluster(name="ours") as a, Cluster(name="go") as b:
        made = MixedPair(Hub("a", a, tmp_path), GoPrincipal("b", b, tmp_path))
        try:
            yield made
        finally:
            made.kill()


def web(name: str, revision: str = "v1") -> dict[str, Any]:
    made = application(name, metadata={"namespace": AGENT})
    made["spec"]["source"]["targetRevision"] = revision
    return made


async def create(store: LiveStore, *wanted: str) -> None:
    for name in wanted:
        await store.create(APPLICATIONS, web(name), namespace=AGENT)


async def revise(store: LiveStore, name: str, revision: str) -> None:
    found = await store.get(APPLICATIONS, name=name, namespace=AGENT)
    found["spec"]["source"]["targetRevision"] = revision
    await store.replace(APPLICATIONS, found)


async def until(store: LiveStore, condition: Any) -> None:
    """Of Applications that nobody is deleting, and their revisions."""

    def holds(there: dict[str, Any]) -> bool:
        return bool(
            condition(
                {
                    name: item["spec"]["source"]["targetRevision"]
                    for name, item in there.items()
                    if "deletionTimestamp" not in item["metadata"]
                }
            )
        )

    await pair_in_memory.until(store, APPLICATIONS, holds, namespace=AGENT, patience=PATIENCE)


async def its_own_tool_at_our_admin_port(ours: Hub) -> None:
    await ours.until("active", so=lambda told: told["peer"]["state"] == "replicating")
    status = json.loads(agentctl(ours.admin_port, "status", "-o", "json"))
    assert (status["state"], status["peer_state"], status["connected_replicas"]) == (
        "active",
        "replicating",
        1,
    )
    agentctl(ours.admin_port, "promote", refused="already active")


async def test_a_go_replica_of_ours_through_restarts_its_promotion_and_our_return(pair: MixedPair) -> None:
    ours, go = pair.ours, pair.go
    pair.start_go("replica")
    await go.until("syncing", "disconnected")
    pair.start_ours("primary")
    await ours.until("active", so=lambda told: told["fenced"])
    async with ours.store() as here, connected(go.cluster.kubeconfig) as there:
        await here.create(APP_PROJECTS, project("team", agents=AGENT), namespace=ARGOCD)
        await create(here, "web", "short", "brief")
        await until(there, lambda found: {"web", "short", "brief"} <= set(found))
        await revise(here, "web", "v2")
        await until(there, lambda found: found["web"] == "v2")
        await go.until("replicating")

        # Ours restarts, and what goes meanwhile nobody tells the replica.
        ours.kill()
        await here.delete(APPLICATIONS, name="short", namespace=AGENT)
        await revise(here, "web", "v3")
        pair.start_ours("primary")
        await ours.until("active")
        await until(there, lambda found: found["web"] == "v3" and "short" not in found)
        # The replica restarts, and forgets what it had.
        go.kill()
        await here.delete(APPLICATIONS, name="brief", namespace=AGENT)
        pair.start_go("replica")
        await until(there, lambda found: set(found) == {"web"})
        await go.until("replicating")

        await its_own_tool_at_our_admin_port(ours)

        # Its promotion, while ours is dead; ours returns, follows it and loses nothing of its own.
        ours.kill()
        await go.until("disconnected")
        assert "active" in agentctl(go.admin_port, "promote")
        await create(there, "later")
        await create(here, "only-here")
        pair.start_ours("primary")
        await ours.until("replicating", so=lambda told: told["peer"]["state"] == "active")
        await until(here, lambda found: set(found) == {"web", "later", "only-here"})
        agentctl(ours.admin_port, "promote", refused="still replicating from peer")
        agentctl(
            ours.admin_port, "promote", "--force", refused="tiphys ha promote --force --epoch 1 --reason"
        )

        # Back again.
        agentctl(go.admin_port, "demote")
        with pytest.raises(HaRefusedError, match="nothing can be compared"):
            await ours.admin.change_role("Promote", word())
        assert await forced(ours, epoch=1) == ("active", 3)
        assert "disconnected" in agentctl(ours.admin_port, "demote")


async def test_a_go_primary_of_ours_through_restarts_and_our_promotion(pair: MixedPair) -> None:
    ours, go = pair.ours, pair.go
    pair.start_go("primary")
    await go.until("active")
    pair.start_ours("replica")
    async with ours.store() as here, connected(go.cluster.kubeconfig) as there:
        await there.create(APP_PROJECTS, project("team", agents=AGENT), namespace=ARGOCD)
        await create(there, "web", "short", "brief")
        await ours.until("replicating")
        await until(here, lambda found: {"web", "short", "brief"} <= set(found))
        await revise(there, "web", "v2")
        await until(here, lambda found: found["web"] == "v2")

        # The primary restarts: its numbers begin anew, and what went meanwhile it tells nobody.
        go.kill()
        await there.delete(APPLICATIONS, name="short", namespace=AGENT)
        await revise(there, "web", "v3")
        pair.start_go("primary")
        await until(here, lambda found: found["web"] == "v3" and "short" not in found)
        # Ours restarts.
        ours.kill()
        await there.delete(APPLICATIONS, name="brief", namespace=AGENT)
        await revise(there, "web", "v4")
        pair.start_ours("replica")
        await until(here, lambda found: found == {"web": "v4"})

        # The primary's last creations, which ours never hears of; demoted, it asks us about everything it has.
        ours.kill()
        last = {f"last-{number}" for number in range(5)}
        await create(there, *last)
        await until(there, lambda found: last <= set(found))
        agentctl(go.admin_port, "demote")
        pair.start_ours("replica")
        await ours.until(
            "disconnected", so=lambda told: "not active" in (told["replication"] or {})["problem"]
        )
        with pytest.raises(HaRefusedError, match="nothing can be compared"):
            await ours.admin.change_role("Promote", word())
        assert await forced(ours, epoch=0) == ("active", 1)
        assert await ours.health_check() == 200
        await create(here, "later")
        await until(there, lambda found: "later" in found)
        await go.until("replicating")
        await create(here, "marker")
        await until(there, lambda found: {"web", "later", "marker", *last} == set(found))
