"""Answers of a switchover that get lost, and processes that end at its steps: never are two active, and whoever gave no token
serves again by itself.
"""

import asyncio
from dataclasses import replace

import pytest

from kube.resources import APP_PROJECTS
from sidecars.fleet.ha_client import HaUnknownError
from sidecars.replication.control import switchover
from tests.sidecars.pair_in_memory import ARGOCD, project, until
from tests.sidecars.replication.paired_principals import JO, FencedStore, following, regions
from tests.sidecars.replication.step_store import StepStore, audit, record, switched
from tests.sidecars.replication.test_pair import eventually_replicating


@pytest.mark.parametrize("looks", [1, 2], ids=["it is read again", "nor can it be read"])
async def test_a_lost_answer_to_the_takers_last_record_never_makes_two_active(looks: int) -> None:
    a, b = FencedStore(), StepStore()
    async with regions(a, b) as (one, two):
        await following(one, two)
        await eventually_replicating(one, two)
        b.lost_looks = looks
        b.loses = lambda what: what == "switchover"
        lines = await switched(one)
        assert lines[-1] == "the peer is active under epoch 2; this one follows"
        await two.until("active")
        await one.until("replicating")
        assert "switchover undone" not in audit(one)
        assert (record(one).role, record(one).step, record(one).token) == ("standby", "", {})
        assert "finished as active" in audit(two)


async def test_a_peer_that_was_given_the_token_and_does_not_answer_leaves_a_standby(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(switchover, "SEEN_SECONDS", 0.5)
    a, b = FencedStore(), StepStore()
    async with regions(a, b) as (one, two):
        await following(one, two)
        await eventually_replicating(one, two)
        b.ends_at = "switchover: epoch claimed"
        handing = asyncio.ensure_future(switched(one))
        await b.ended.wait()
        await two.stop()
        with pytest.raises(HaUnknownError, match="Look at both sides") as caught:
            await handing
        assert caught.value.exit_code == 3
        assert one.state == "disconnected"
        assert (record(one).role, record(one).step) == ("standby", "handing over")
        # Neither a restart of it nor one of its peer makes it serve: the token may have been taken.
        b.revive()
        await one.stop()
        await asyncio.gather(one.start(), two.start())
        await one.until("disconnected")
        await two.until("recovering")
        assert record(one).token
        # What was compared is forgotten with the process.
        forced = replace(JO, force=True, epoch=record(two).highest_epoch)
        assert await two.controller.promote(forced) == "active"
        await one.until("replicating")
        assert (record(one).step, record(one).token) == ("", {})


@pytest.mark.parametrize(
    ("step", "afterwards"),
    [
        ("switchover begun", "started as active"),
        ("switchover: closed to writers", "switchover undone"),
        ("switchover: token given", ""),
    ],
)
async def test_a_giver_that_is_killed_serves_again_unless_it_gave_the_token(
    step: str, afterwards: str
) -> None:
    a, b = StepStore(), FencedStore()
    async with regions(a, b) as (one, two):
        await following(one, two)
        await eventually_replicating(one, two)
        a.ends_at = step
        handing = asyncio.ensure_future(switched(one))
        await a.ended.wait()
        await one.stop()
        with pytest.raises(HaUnknownError, match=r"look at `tiphys ha status`|when it starts"):
            await handing
        a.revive()
        await one.start()
        if afterwards:
            await one.until("active")
            assert afterwards in audit(one)
            assert record(one).served_epoch == 1
        else:
            await one.until("disconnected")
            assert record(one).token
            # An operator has looked: nobody has taken it.
            assert await one.controller.promote(JO) == "active"
        assert (record(one).step, record(one).token) == ("", {})
        await two.until("replicating")
        await a.create(APP_PROJECTS, project("later"), namespace=ARGOCD)
        await until(b, APP_PROJECTS, lambda there: "later" in there)


async def test_a_giver_that_was_killed_without_a_token_follows_a_peer_that_was_promoted_since() -> None:
    a, b = StepStore(), FencedStore()
    async with regions(a, b) as (one, two):
        await following(one, two)
        await eventually_replicating(one, two)
        a.ends_at = "switchover: closed to writers"
        handing = asyncio.ensure_future(switched(one))
        await a.ended.wait()
        await one.stop()
        await asyncio.gather(handing, return_exceptions=True)
        a.revive()
        await two.until("disconnected")
        assert await two.controller.promote(JO) == "active"
        await one.start()
        await one.until("replicating")
        assert (record(one).step, "switchover undone" in audit(one)) == ("", False)


async def test_an_operators_word_ends_the_wait_of_a_giver_that_was_killed_without_a_token() -> None:
    a = StepStore()
    async with regions(a, FencedStore()) as (one, two):
        await following(one, two)
        await eventually_replicating(one, two)
        a.ends_at = "switchover: closed to writers"
        handing = asyncio.ensure_future(switched(one))
        await a.ended.wait()
        await asyncio.gather(one.stop(), two.stop())
        await asyncio.gather(handing, return_exceptions=True)
        a.revive()
        await one.start()
        await one.until("recovering")
        assert "a switchover from here gave no token" in one.controller.role.reason
        assert await one.controller.resume(JO) == "active"
        assert record(one).step == ""


async def test_a_taker_that_is_killed_once_it_is_recorded_serves_when_it_is_back() -> None:
    b = StepStore()
    async with regions(FencedStore(), b) as (one, two):
        await following(one, two)
        await eventually_replicating(one, two)
        b.ends_at = "switchover"
        handing = asyncio.ensure_future(switched(one))
        await b.ended.wait()
        await two.stop()
        b.revive()
        await two.start()
        assert (await handing)[-1] == "the peer is active under epoch 2; this one follows"
        await two.until("active")
        await one.until("replicating")
