"""What only agents know after a promotion: how long nothing is said about it, and whose word ends that. And that a fence
is proven before a demotion is answered.
"""

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from argocd import names
from kube.embedded import EmbeddedStore
from kube.resources import CONFIG_MAPS, SECRETS
from kube.store import Object, Resource
from sidecars.principal import principal
from sidecars.replication.control.settings import RestartPolicy
from sidecars.replication.record import MAX_TEXT, MOST_RELEASED
from tests.sidecars import processes
from tests.sidecars.pair_in_memory import ARGOCD
from tests.sidecars.replication.hubs import cluster_secret, until
from tests.sidecars.replication.paired_principals import JO, FencedStore, Region, following, regions
from tests.sidecars.replication.step_store import audit, compared, held_objects, record, switched
from tests.sidecars.replication.test_pair import eventually_replicating
from tiphys.errors import CallError

AGENT = "agent-a"
RELEASED = "released held objects of all agents"


async def promoted(one: Region, two: Region) -> None:
    """The primary is gone and its replica serves; it holds what it does not know."""
    await following(one, two)
    await compared(two)
    await one.stop()
    await two.until("disconnected")
    await two.controller.promote(JO)
    assert record(two).holding


async def equal_again(one: Region, two: Region) -> None:
    """The old primary has followed to equal digests, and the new one has asked it since."""
    await one.start()
    await one.until("replicating")
    await compared(one)
    asked = two.controller.asked_at
    two.controller.peer_due.set()
    await until(lambda: two.controller.asked_at != asked)
    async with two.controller.turn():  # what it made of the answer is done
        pass


async def test_the_old_primary_with_the_same_objects_ends_it_for_agents_that_have_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(principal, "SETTLING_SECONDS", 0.1)
    a, b, workload = FencedStore(), FencedStore(), EmbeddedStore(namespaces=[ARGOCD])
    await a.create(SECRETS, cluster_secret(AGENT), namespace=ARGOCD)
    async with regions(a, b) as (one, two):
        await promoted(one, two)
        async with processes.connected_agent(workload, two.pki, name=AGENT, port=two.port):
            await equal_again(one, two)
            two.controller.peer_due.set()
            await until(lambda: bool(record(two).released))
        last = record(two).audit[-1]
        assert (last.who, last.what) == ("tiphys", f"released held objects of {AGENT}")
        assert last.why == "the replica has equal digests"
        holds = partial(held_objects(two).holds, kind="Application", namespace=AGENT, name="last")
        # Neither principal may know of one that comes later.
        assert (holds(AGENT), holds("later")) == (False, True)
        # Once is enough.
        for _ in range(2):
            asked = two.controller.asked_at
            two.controller.peer_due.set()
            await until(lambda asked=asked: two.controller.asked_at != asked)  # type: ignore[misc]
            async with two.controller.turn():
                pass
        assert audit(two).count(f"released held objects of {AGENT}") == 1


async def test_where_no_agent_is_known_nothing_says_that_none_has_more() -> None:
    async with regions(FencedStore(), FencedStore()) as (one, two):
        await promoted(one, two)
        await equal_again(one, two)
        assert (record(two).holding, record(two).released) == (True, ())


async def test_what_an_agent_has_alone_waits_for_an_operator_all_the_same() -> None:
    async with regions(FencedStore(), FencedStore()) as (one, two):
        await promoted(one, two)
        assert held_objects(two).holds(AGENT, kind="Application", namespace=AGENT, name="last")
        await equal_again(one, two)
        assert record(two).holding
        with pytest.raises(CallError, match="only an active one holds objects; this one is replicating"):
            await one.controller.release("", JO)
        assert await two.controller.release("", JO) == 1
        assert not record(two).holding


async def test_an_agent_that_has_not_come_yet_may_have_something_too() -> None:
    a, b = FencedStore(), FencedStore()
    await a.create(SECRETS, cluster_secret(AGENT), namespace=ARGOCD)
    async with regions(a, b) as (one, two):
        await promoted(one, two)
        await equal_again(one, two)
        assert record(two).holding
        assert RELEASED not in audit(two)


async def test_a_switchover_hands_over_what_is_held_and_whom_an_operator_has_released() -> None:
    a, b = FencedStore(), FencedStore()
    await a.create(SECRETS, cluster_secret(AGENT), namespace=ARGOCD)
    async with regions(a, b) as (one, two):
        await promoted(one, two)
        # As many as there may be.
        many = (AGENT, *(f"{number}".rjust(MAX_TEXT, "x") for number in range(1, MOST_RELEASED)))
        await two.controller.role.note(who="jo", why="a test", what="released", released=many)
        await equal_again(one, two)
        await eventually_replicating(two, one)
        assert (await switched(two))[-1] == "the peer is active under epoch 3; this one follows"
        assert (record(one).holding, record(one).released) == (True, many)
        taken = held_objects(one)
        assert not taken.holds(AGENT, kind="Application", namespace=AGENT, name="last")
        assert taken.holds("agent-b", kind="Application", namespace="agent-b", name="last")


async def test_agents_that_are_released_one_by_one_fit_into_the_record() -> None:
    a, b = FencedStore(), FencedStore()
    async with regions(a, b) as (one, two):
        await promoted(one, two)
        await two.stop()
        held = await b.get(CONFIG_MAPS, name=names.HA_RECORD, namespace=ARGOCD)
        many = json.dumps([f"agent-{number}" for number in range(MOST_RELEASED)])
        await b.replace(CONFIG_MAPS, {**held, "data": {**held["data"], "released": many}})
        two.ha = {"restart_policy": RestartPolicy.ACTIVE}
        await two.start()
        await two.until("active")
        assert await two.controller.release("agent-7", JO) == 0  # once more is no more
        with pytest.raises(CallError, match="1000 agents were released one by one: release all of them"):
            await two.controller.release("one-more", JO)
        assert len(record(two).released) == MOST_RELEASED
        await two.controller.release("", JO)
        assert (record(two).holding, record(two).released) == (False, ())


class CanaryStore(FencedStore):
    """Notes for which role a canary was let pass."""

    def __init__(self) -> None:
        super().__init__()
        self.proven: list[str] = []

    async def create(self, resource: Resource, body: Object, **more: Any) -> Object:
        stored = await super().create(resource, body, **more)
        if body["metadata"].get("name") == names.HA_CANARY:
            self.proven.append(body["data"]["role"])
        return stored


async def test_a_demotion_is_answered_when_nobody_can_write_any_more() -> None:
    a = CanaryStore()
    async with regions(a, FencedStore()) as (one, two):
        await following(one, two)
        a.proven.clear()
        await one.controller.demote(replace(JO, why="failback"))
        assert a.proven[-1] == "standby"
        assert one.controller.fence_report.stands


async def test_a_switchover_leaves_alone_what_was_and_holds_nothing_anew_that_was_released() -> None:
    a, b = FencedStore(), FencedStore()
    async with regions(a, b) as (one, two):
        await promoted(one, two)
        await two.controller.release(AGENT, JO)
        await equal_again(one, two)
        await eventually_replicating(two, one)
        await switched(two)
        await one.until("active")
        assert (record(one).holding, record(one).released) == (True, (AGENT,))
        holds = partial(held_objects(one).holds, kind="Application", namespace=AGENT, name="last")
        assert (holds(AGENT), holds("later")) == (False, True)
