"""What an inbox has seen before, and what newer events make superfluous."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from argocd.agents.vocabulary import Message
from kube.errors import (
    UnavailableError,
)
from sidecars.delivery.inbox import InboxLimits
from sidecars.delivery.lanes import ORDER
from sidecars.delivery.seen import SeenLimits
from sidecars.wire.events import Event
from tests.sidecars.delivery.controlled_inbox import World, failing
from tests.simulation.virtual_time import run

Make = Callable[..., Event]


@pytest.mark.parametrize("kind", [Message.SPEC_UPDATE, Message.SET_OPERATION])
def test_a_duplicate_is_acknowledged_again_and_not_applied_again(kind: Message, make: Make) -> None:
    async def program() -> None:
        world = World()
        for _ in range(3):
            await world.put(make(kind))
            await world.settled()
        assert world.applied == ["guestbook 1"]
        assert world.acknowledged == ["guestbook 1"] * 3
        assert world.seen == ["duplicate", "duplicate"]

    run(program())


@pytest.mark.parametrize("kind", [Message.SPEC_UPDATE, Message.DELETE])
def test_state_or_a_deletion_that_is_sent_anew_is_no_duplicate(kind: Message, make: Make) -> None:
    """A Go principal answers drift with the version that it sent before, at another time."""

    async def program() -> None:
        world = World()
        event = make(kind)
        for second in (1, 2, 2):
            await world.put(event.stamped(datetime(2026, 11, 16, 0, 0, second, tzinfo=UTC)))
            await world.settled()
        assert world.applied == ["guestbook 1"] * 2
        assert world.acknowledged == ["guestbook 1"] * 3

    run(program())


def test_older_state_never_follows_newer_of_the_same_outbox(make: Make) -> None:
    async def program() -> None:
        world = World()
        world.plans["guestbook 2"] = lambda: asyncio.sleep(1)
        first, second = (
            replace(make(Message.SPEC_UPDATE, version=version), extensions={ORDER: f"here.{version}"})
            for version in (1, 2)
        )
        await world.put(second, first)
        await world.settled()
        assert world.applied == ["guestbook 2"]
        assert world.acknowledged == ["guestbook 2", "guestbook 1"]
        await world.put(replace(first, extensions={ORDER: "restarted.1"}))
        await world.settled()
        assert world.applied == ["guestbook 2", "guestbook 1"]

    run(program())


def test_a_duplicate_of_what_is_being_applied_waits_for_that(make: Make) -> None:
    async def program() -> None:
        world = World()
        world.plans["guestbook 1"] = lambda: asyncio.sleep(1)
        await world.put(make(Message.SPEC_UPDATE), make(Message.SPEC_UPDATE))
        assert not world.acknowledged
        await world.settled()
        assert world.applied == world.acknowledged == ["guestbook 1"]

    run(program())


def test_a_command_is_told_apart_from_the_state_with_the_same_ids(make: Make) -> None:
    async def program() -> None:
        world = World()
        await world.put(make(Message.SPEC_UPDATE), make(Message.SET_OPERATION))
        await world.settled()
        assert world.applied == ["guestbook 1", "guestbook 1"]

    run(program())


def test_what_is_superseded_while_it_waits_for_another_try_is_not_tried(make: Make) -> None:
    async def program() -> None:
        world = World()
        world.plans["guestbook 1"] = failing(*(UnavailableError("no answer") for _ in range(100)))
        await world.put(make(Message.SPEC_UPDATE, version=1))
        await asyncio.sleep(0.5)
        await world.put(make(Message.DELETE, version=2))
        await world.settled()
        assert world.applied == ["guestbook 2"]
        assert world.acknowledged == ["guestbook 1", "guestbook 2"]
        assert world.time() == pytest.approx(0.5)

    run(program())


def test_state_before_a_command_is_not_superseded_by_state_behind_it(make: Make) -> None:
    async def program() -> None:
        world = World()
        world.plans["guestbook 1"] = lambda: asyncio.sleep(1)
        await world.put(
            make(Message.CREATE, version=1),
            make(Message.SPEC_UPDATE, version=2),
            make(Message.SET_OPERATION, version=3),
            make(Message.SPEC_UPDATE, version=4),
            make(Message.SPEC_UPDATE, version=5),
        )
        await world.settled()
        assert world.applied == [f"guestbook {version}" for version in (1, 2, 3, 5)]
        assert sorted(world.acknowledged) == [f"guestbook {version}" for version in range(1, 6)]

    run(program())


def test_what_is_remembered_is_bounded(make: Make) -> None:
    async def program() -> None:
        limits = InboxLimits(memory=SeenLimits(commands=4, state=4))
        world = World(limits=limits)
        for version in range(10):
            await world.put(make(Message.SET_OPERATION, version=version))
            await world.settled()
        await world.put(make(Message.SET_OPERATION, version=9), make(Message.SET_OPERATION, version=0))
        await world.settled()
        assert world.seen == ["duplicate"]
        assert world.applied[-1] == "guestbook 0"

    run(program())
