"""Electing a leader, in virtual time on the embedded store."""

import asyncio
import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from kube.embedded import Call, EmbeddedStore, Phase
from kube.errors import ConflictError, UnavailableError
from kube.leases import Election, LeaseTiming, heartbeat
from kube.resources import LEASES
from kube.store import Object, PatchKind
from tests.simulation.virtual_time import run as in_virtual_time

HOME = "default"
WALL_CLOCK = datetime(2026, 1, 1, tzinfo=UTC)


class Scene:
    """Some candidates on one store; notes who leads from when to when."""

    def __init__(self, *, seed: int = 0) -> None:
        self.store = EmbeddedStore()
        self.reigns: list[tuple[str, float, float]] = []
        self.elections: dict[str, Election] = {}
        self._random = random.Random(seed)
        self._loop = asyncio.get_running_loop()

    def candidate(self, name: str, *, skew: timedelta = timedelta(0)) -> Election:
        self.elections[name] = Election(
            self.store,
            name="leader",
            namespace=HOME,
            identity=name,
            clock=self._loop.time,
            wall_clock=lambda: WALL_CLOCK + skew + timedelta(seconds=self._loop.time()),
            random=self._random,
        )
        return self.elections[name]

    def start(self, name: str, **options: Any) -> asyncio.Task[None]:
        election = self.candidate(name, **options)
        return asyncio.create_task(election.run(lambda: self._reign(name)))

    async def _reign(self, name: str) -> None:
        began = self._loop.time()
        try:
            await asyncio.Event().wait()
        finally:
            self.reigns.append((name, began, self._loop.time()))

    async def lease(self) -> Object:
        return await self.store.get(LEASES, name="leader", namespace=HOME)

    def leaders(self) -> list[str]:
        return [name for name, election in self.elections.items() if election.is_leading]


async def _end(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_the_first_candidate_leads_and_the_second_waits() -> None:
    async def scene() -> None:
        play = Scene()
        first = play.start("one")
        await play.elections["one"].leading()
        second = play.start("two")
        await asyncio.sleep(100)
        assert play.leaders() == ["one"]
        assert play.elections["two"].leader == "one"
        spec = (await play.lease())["spec"]
        assert spec["holderIdentity"] == "one"
        assert spec["leaseDurationSeconds"] == 15
        assert spec["leaseTransitions"] == 0
        assert spec["acquireTime"] == "2026-01-01T00:00:00.000000Z"
        assert spec["renewTime"] > "2026-01-01T00:01:37"
        await _end(first, second)

    in_virtual_time(scene())


def test_a_leader_that_leaves_hands_over_at_once() -> None:
    async def scene() -> None:
        play = Scene()
        first = play.start("one")
        await play.elections["one"].leading()
        second = play.start("two")
        await asyncio.sleep(30)
        await _end(first)
        left = asyncio.get_running_loop().time()
        await play.elections["two"].leading()
        assert asyncio.get_running_loop().time() - left < 1.0
        assert play.elections["two"].was_handed_over
        assert (await play.lease())["spec"]["leaseTransitions"] == 1
        await _end(second)
        assert (await play.lease())["spec"]["holderIdentity"] == ""

    in_virtual_time(scene())


def test_a_leader_that_vanishes_is_followed_when_its_time_is_up() -> None:
    async def scene() -> None:
        play = Scene()
        spec = {
            "holderIdentity": "dead",
            "leaseDurationSeconds": 15,
            "renewTime": "2026-01-01T00:00:00.000000Z",
        }
        await play.store.create(LEASES, {"metadata": {"name": "leader", "namespace": HOME}, "spec": spec})
        second = play.start("two")
        await play.elections["two"].leading()
        assert 15.0 <= asyncio.get_running_loop().time() < 16.0
        assert not play.elections["two"].was_handed_over  # nobody knows since when it is dead
        await _end(second)

    in_virtual_time(scene())


@pytest.mark.parametrize("hours", [-1, 1])
def test_clocks_on_the_wall_decide_nothing(hours: int) -> None:
    async def scene() -> None:
        play = Scene()
        first = play.start("one")
        await play.elections["one"].leading()
        second = play.start("two", skew=timedelta(hours=hours))
        await asyncio.sleep(120)
        assert play.leaders() == ["one"]
        await _end(first, second)

    in_virtual_time(scene())


def test_a_leader_that_cannot_renew_stops_before_others_start() -> None:
    async def scene() -> None:
        play = Scene()
        first = play.start("one")
        await play.elections["one"].leading()
        second = play.start("two")
        await asyncio.sleep(20)
        cut_at = asyncio.get_running_loop().time()

        async def only_the_second(call: Call) -> None:
            if call.verb == "replace" and asyncio.current_task() is not second:
                raise UnavailableError("the network is down")

        play.store.hooks.faults = only_the_second
        await play.elections["two"].leading()
        began = asyncio.get_running_loop().time()
        assert play.leaders() == ["two"]
        name, _, ended = play.reigns[0]
        assert name == "one"
        assert cut_at + 7 < ended <= cut_at + 10
        assert ended < began
        assert play.elections["one"].error == "the network is down"
        play.store.hooks.faults = None
        await _end(first, second)

    in_virtual_time(scene())


def test_a_store_that_never_answers_ends_a_reign_too() -> None:
    async def scene() -> None:
        play = Scene()
        first = play.start("one")
        await play.elections["one"].leading()

        async def hang(call: Call) -> None:
            await asyncio.Event().wait()

        play.store.hooks.faults = hang
        await asyncio.sleep(10.1)
        assert play.leaders() == []
        assert len(play.reigns) == 1
        await _end(first)

    in_virtual_time(scene())


def test_a_leader_that_slept_knows_it() -> None:
    """As after SIGSTOP: nothing ran, but the clock went on."""

    async def scene() -> None:
        now = 0.0
        election = Election(EmbeddedStore(), name="leader", namespace=HOME, identity="one", clock=lambda: now)
        task = asyncio.create_task(election.run(lambda: asyncio.sleep(1000)))
        await election.leading()
        before = election.is_leading
        now = 11.0
        assert (before, election.is_leading) == (True, False)
        await _end(task)

    in_virtual_time(scene())


def test_a_renewal_survives_what_others_write_to_the_lease() -> None:
    async def scene() -> None:
        play = Scene()
        first = play.start("one")
        await play.elections["one"].leading()
        for _ in range(5):
            patch = {"metadata": {"labels": {"n": str(asyncio.get_running_loop().time())}}}
            await play.store.patch(LEASES, patch, name="leader", namespace=HOME, kind=PatchKind.MERGE)
            await asyncio.sleep(5)
        await play.store.delete(LEASES, name="leader", namespace=HOME)
        await asyncio.sleep(30)
        assert play.reigns == []
        assert (await play.lease())["spec"]["holderIdentity"] == "one"
        await _end(first)

    in_virtual_time(scene())


def test_a_write_whose_answer_was_lost_costs_nothing() -> None:
    async def scene() -> None:
        play = Scene()
        first = play.start("one")
        await play.elections["one"].leading()
        chance = random.Random(1)

        async def lose_answers(call: Call) -> None:
            if call.phase is Phase.AFTER and chance.random() < 0.2:
                raise UnavailableError("no answer", outcome_unknown=True)

        play.store.hooks.faults = lose_answers
        await asyncio.sleep(300)
        assert play.reigns == []
        await _end(first)

    in_virtual_time(scene())


def test_a_leader_that_is_robbed_stops_at_its_next_renewal() -> None:
    async def scene() -> None:
        play = Scene()
        first = play.start("one")
        await play.elections["one"].leading()
        patch = {"spec": {"holderIdentity": "thief"}}
        await play.store.patch(LEASES, patch, name="leader", namespace=HOME, kind=PatchKind.MERGE)
        await asyncio.sleep(3)
        assert play.leaders() == []
        assert [name for name, _, _ in play.reigns] == ["one"]
        assert (await play.lease())["spec"]["holderIdentity"] == "thief"
        await _end(first)

    in_virtual_time(scene())


def test_the_end_of_the_leaders_work_ends_the_run_and_frees_the_lease() -> None:
    async def scene() -> None:
        play = Scene()
        done: list[str] = []

        async def work() -> None:
            done.append("work")

        await play.candidate("one").run(work)
        assert done == ["work"]
        assert (await play.lease())["spec"]["holderIdentity"] == ""

        async def fail() -> None:
            raise LookupError("the work failed")

        with pytest.raises(LookupError):
            await play.candidate("two").run(fail)
        assert (await play.lease())["spec"]["holderIdentity"] == ""

    in_virtual_time(scene())


@pytest.mark.parametrize("seed", range(20))
def test_there_are_never_two_leaders(seed: int) -> None:
    """Candidates come and go, the store fails at random; reigns never overlap."""

    async def scene() -> None:
        play = Scene(seed=seed)
        chance = random.Random(seed)

        async def strike(call: Call) -> None:
            await asyncio.sleep(chance.random() * 3)
            if chance.random() < 0.2:
                raise chance.choice([UnavailableError("503"), ConflictError("409")])

        play.store.hooks.faults = strike
        tasks: dict[str, asyncio.Task[None]] = {}
        for step in range(100):
            name = f"c{chance.randrange(4)}-{step}"
            if len(tasks) < 4:
                tasks[name] = play.start(name)
            elif chance.random() < 0.3:
                leaver = chance.choice(sorted(tasks))
                await _end(tasks.pop(leaver))
            await asyncio.sleep(chance.random() * 10)
            assert len(play.leaders()) <= 1
        await _end(*tasks.values())
        assert len(play.reigns) > 3
        reigns = sorted(play.reigns, key=lambda reign: reign[1])
        for (_, _, ended), (_, began, _) in pairwise(reigns):
            assert ended <= began

    in_virtual_time(scene())


@pytest.mark.parametrize("timing", [(10, 10, 2), (15, 2, 2), (15, 10, 0)])
def test_timings_that_cannot_work_are_refused(timing: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="duration > renew deadline"):
        LeaseTiming(*timing)


def test_a_heartbeat_is_renewed_and_gone_in_the_end() -> None:
    async def scene() -> None:
        store = EmbeddedStore()
        loop = asyncio.get_running_loop()
        beating = heartbeat(
            store,
            name="replica-1",
            namespace=HOME,
            identity="one",
            wall_clock=lambda: WALL_CLOCK + timedelta(seconds=loop.time()),
        )
        task = asyncio.create_task(beating)
        await asyncio.sleep(25)
        lease = await store.get(LEASES, name="replica-1", namespace=HOME)
        assert lease["spec"] == {
            "holderIdentity": "one",
            "leaseDurationSeconds": 30,
            "renewTime": "2026-01-01T00:00:20.000000Z",
        }
        await _end(task)
        assert (await store.list(LEASES, namespace=HOME)).items == []

    in_virtual_time(scene())
