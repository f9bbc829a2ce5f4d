"""What speaks against a promotion, and what does not keep one from serving."""

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from argocd import names
from argocd.agents.replication import PENDING_OPERATION
from argocd.reading import value
from kube.embedded import Call, Phase
from kube.errors import ForbiddenError, InvalidError, UnavailableError
from kube.resources import APPLICATIONS, CONFIG_MAPS
from sidecars.delivery.timing import Backoff
from sidecars.replication.control.settings import RestartPolicy
from sidecars.replication.control.status import status
from sidecars.replication.primary.session import SessionLimits
from sidecars.replication.standby import adoption
from tests.sidecars.pair_in_memory import ARGOCD, until
from tests.sidecars.processes import PATIENCE
from tests.sidecars.replication.hubs import Hub, Pair, application, create, embedded
from tests.sidecars.replication.hubs import until as eventually
from tests.sidecars.replication.paired_principals import JO, FencedStore, Region, following, regions
from tests.sidecars.replication.step_store import compared, held_objects
from tiphys.errors import CallError

AGENT = "agent-a"


async def test_a_peer_that_turns_us_away_and_is_active_is_still_active() -> None:
    a, b = FencedStore(), FencedStore()
    async with regions(a, b) as (one, two):
        await following(one, two)
        await one.stop()
        one.ha = {"allowed_clients": frozenset({"somebody-else"})}
        await one.start()
        await one.until("active")
        async with asyncio.timeout(PATIENCE):
            while True:  # grpc may rest after a dial into the restart
                view = await two.controller.ask()
                if view is not None and "not in allowed replication clients" in view.problem:
                    break
                await asyncio.sleep(0.01)
        with pytest.raises(CallError, match="it is reachable and active"):
            await two.controller.promote(JO)
        assert (one.state, two.state) == ("active", "disconnected")


async def test_two_that_turn_each_other_away_still_hear_of_the_higher_epoch() -> None:
    a, b = FencedStore(), FencedStore()
    async with regions(a, b) as (one, two):
        await following(one, two)
        await one.stop()
        await two.until("disconnected")
        await two.stop()
        two.ha = {"allowed_clients": frozenset({"somebody-else"})}
        await two.start()
        await two.until("disconnected")
        await two.controller.promote(replace(JO, force=True, epoch=1))
        one.ha = {**two.ha, "restart_policy": RestartPolicy.ACTIVE}
        await one.start()
        await one.until("active", "disconnected")
        # By the refusal of its first question, or a later one.
        words = {"restarted as standby", "stepped down"}
        await eventually(lambda: words & {entry.what for entry in one.controller.role.held_record().audit})
        assert one.state == "disconnected"


async def test_one_object_that_cannot_be_adopted_keeps_nobody_from_being_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(adoption, "RETRY", Backoff(base=0.01, ceiling=0.01))
    a, b = FencedStore(), FencedStore()
    refuses = True

    async def refuse(call: Call) -> None:
        if refuses and call.phase is Phase.BEFORE and (call.verb, call.name) == ("replace", "stuck"):
            raise ForbiddenError("a policy forbids it")

    async with regions(a, b) as (one, two):
        await following(one, two)
        for name in ("stuck", "shop"):
            await a.create(APPLICATIONS, application(name, operation={"sync": {}}), namespace=AGENT)
        await until(b, APPLICATIONS, lambda there: {"stuck", "shop"} <= set(there), namespace=AGENT)
        await one.stop()
        await two.until("disconnected")
        b.hooks.faults = refuse
        assert await two.controller.promote(JO) == "active"
        assert await two.health() == (200, "")
        shop = await b.get(APPLICATIONS, name="shop", namespace=AGENT)
        assert shop["operation"] == {"sync": {}}
        stuck = await b.get(APPLICATIONS, name="stuck", namespace=AGENT)
        assert PENDING_OPERATION in stuck["metadata"]["annotations"]
        refuses = False
        await until(
            b,
            APPLICATIONS,
            lambda there: value(there, "stuck", "operation") == {"sync": {}},
            namespace=AGENT,
        )


async def stopped_behind_its_back(one: Region, two: Region) -> None:
    """The primary is gone and the replica has restarted."""
    await one.stop()
    await two.until("disconnected")
    await two.stop()
    await two.start()
    await two.until("disconnected")


async def test_a_replica_that_restarts_without_its_primary_is_promoted_without_force() -> None:
    a, b = FencedStore(), FencedStore()
    async with regions(a, b) as (one, two):
        await following(one, two)
        await a.create(APPLICATIONS, application("shop"), namespace=AGENT)
        await until(b, APPLICATIONS, lambda there: "shop" in there, namespace=AGENT)
        await compared(two)
        await stopped_behind_its_back(one, two)
        progress = two.controller.role.replica.progress()
        assert progress.compared_seconds is not None
        assert 0 <= progress.compared_seconds < PATIENCE
        assert await two.controller.promote(JO) == "active"
        # What was compared before it served says nothing about what the next primary has.
        cursor = await b.get(CONFIG_MAPS, name=names.HA_CURSOR, namespace=ARGOCD)
        assert (cursor["data"]["equal"], cursor["data"]["comparedAt"]) == ("{}", "")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"seen": "99"}, "changes were seen and not applied"),
        ({"whole": "false"}, "not everything could be written here"),
        ({"equal": '{"applications": false}'}, "the last comparison found differences in applications"),
        ({"equal": '{"applications": true}'}, "not every kind was compared"),
        ({"equal": "", "comparedAt": ""}, "nothing was compared"),
    ],
    ids=["seen", "whole", "different", "some kinds", "never"],
)
async def test_what_spoke_against_it_before_a_restart_does_so_after_it(
    changed: dict[str, str], words: str
) -> None:
    a, b = FencedStore(), FencedStore()
    async with regions(a, b) as (one, two):
        await following(one, two)
        await compared(two)
        await one.stop()
        await two.until("disconnected")
        await two.stop()
        cursor = await b.get(CONFIG_MAPS, name=names.HA_CURSOR, namespace=ARGOCD)
        await b.replace(CONFIG_MAPS, {**cursor, "data": cursor["data"] | changed})
        await two.start()
        await two.until("disconnected")
        with pytest.raises(CallError, match=words):
            await two.controller.promote(JO)


async def test_dead_letters_since_the_last_comparison_speak_against_it_and_are_told_in_bounds() -> None:
    a, b = FencedStore(), FencedStore()

    async def refuse(call: Call) -> None:
        if call.phase is Phase.BEFORE and call.verb == "create" and call.name.startswith("bad-"):
            raise InvalidError("spec: " + "not here " * 100)

    async with regions(a, b) as (one, two):
        await following(one, two)
        await compared(two)
        b.hooks.faults = refuse
        for number in range(250):
            await a.create(APPLICATIONS, application(f"bad-{number:03}"), namespace=AGENT)
        await eventually(lambda: len(two.controller.role.replica.progress().dead_letters) == 250)
        await one.stop()
        await two.until("disconnected")
        with pytest.raises(CallError, match="250 objects could not be written here"):
            await two.controller.promote(JO)
        told = status(two.controller)["replication"]
        assert (told["dead_letter_count"], len(told["dead_letters"])) == (250, 200)
        assert set(told["dead_letters"][0]) == {"kind", "namespace", "name", "reason"}
        # The next process knows that something is left over, without knowing what.
        await two.stop()
        cursor = await b.get(CONFIG_MAPS, name=names.HA_CURSOR, namespace=ARGOCD)
        assert cursor["data"]["whole"] == "false"


async def test_a_dead_letter_that_nobody_wants_any_more_is_forgotten_once_all_is_equal() -> None:
    a, b = embedded(), embedded()

    async def refuse(call: Call) -> None:
        if call.phase is Phase.BEFORE and (call.verb, call.name) == ("create", "bad"):
            raise InvalidError("not here")

    async with Pair(Hub(a), Hub(b), limits=SessionLimits(compare_seconds=0.2)).running() as pair:
        await eventually(lambda: "in sync" in pair.passive.told)
        b.hooks.faults = refuse
        await create(a, APPLICATIONS, application("bad"), namespace=AGENT)
        await eventually(lambda: len(pair.follower.progress().dead_letters) == 1)
        await pair.follower.stop()
        await a.delete(APPLICATIONS, name="bad", namespace=AGENT)
        await pair.follower.start()
        await eventually(lambda: pair.follower.progress().is_complete)


async def test_a_primary_that_dies_in_the_first_sync_leaves_a_count_of_what_is_missing() -> None:
    a, b = FencedStore(), FencedStore()
    written = 0

    async def half(call: Call) -> None:
        nonlocal written
        if call.phase is Phase.BEFORE and call.verb == "create" and call.name.startswith("app-"):
            written += 1
            if written > 12:
                raise UnavailableError("no answer")

    for number in range(20):
        await a.create(APPLICATIONS, application(f"app-{number:02}"), namespace=AGENT)
    b.hooks.faults = half
    async with regions(a, b) as (one, two):
        await asyncio.gather(one.start(), two.start())
        await one.until("active")
        await eventually(lambda: two.controller.role.replica.progress().missing == 8)
        await one.stop()
        await eventually(lambda: not two.controller.role.replica.progress().connected)
        assert two.state == "syncing"
        with pytest.raises(CallError, match="the first sync is not complete: 8 of its objects are missing"):
            await two.controller.promote(JO)
        assert await two.controller.promote(replace(JO, force=True, epoch=1)) == "active"
        assert len((await b.list(APPLICATIONS, namespace=AGENT)).items) == 12


async def test_deletions_are_recorded_before_they_are_made() -> None:
    a, b = FencedStore(), FencedStore()
    async with regions(a, b) as (one, two):
        await following(one, two)
        there = {f"app-{number:02}" for number in range(25)}
        for name in there:
            await a.create(APPLICATIONS, application(name), namespace=AGENT)
        await until(b, APPLICATIONS, lambda found: there <= set(found), namespace=AGENT)
        await one.stop()
        for name in there:
            await a.delete(APPLICATIONS, name=name, namespace=AGENT)
        await one.start()
        await eventually(lambda: bool(two.controller.role.replica.progress().held_deletions))

        async def refuse(call: Call) -> None:
            if call.phase is Phase.BEFORE and (call.verb, call.name) == ("replace", names.HA_RECORD):
                raise ForbiddenError("not now")

        b.hooks.faults = refuse
        with pytest.raises(ForbiddenError, match="not now"):
            await two.controller.accept_deletions("applications", JO)
        assert two.controller.role.replica.progress().held_deletions == {"applications": 25}
        b.hooks.faults = None
        assert await two.controller.accept_deletions("applications", JO) == 25
        await until(b, APPLICATIONS, lambda found: not there & set(found), namespace=AGENT)
        assert two.controller.role.held_record().audit[-1].what == "accepted 25 deletions of applications"


async def test_what_was_released_of_one_agent_is_not_held_after_a_restart() -> None:
    a, b = FencedStore(), FencedStore()
    async with regions(a, b) as (one, two):
        await following(one, two)
        await compared(two)
        await one.stop()
        await two.until("disconnected")
        await two.controller.promote(JO)
        await two.controller.release(AGENT, JO)
        with pytest.raises(CallError, match="no agent has a name of that length"):
            await two.controller.release("x" * 1000, JO)
        two.ha = {"restart_policy": RestartPolicy.ACTIVE}
        await two.stop()
        await two.start()
        await two.until("active")
        record = two.controller.role.held_record()
        assert (record.holding, record.released) == (True, (AGENT,))
        holds = partial(held_objects(two).holds, kind="Application", namespace=AGENT, name="shop")
        assert (holds(AGENT), holds("agent-b")) == (False, True)
        # Another promotion begins anew, and a word for all ends it.
        await two.controller.release("", JO)
        record = two.controller.role.held_record()
        assert (record.holding, record.released) == (False, ())
