"""The state of operations between a principal and one agent."""

from typing import Any

import pytest

from argocd.agents.vocabulary import Message, Target
from kube.errors import InvalidError
from kube.store import Object
from sidecars.principal.operations import Operations, place_of
from sidecars.wire.events import Event, object_event

SYNC = {"sync": {"revision": "main"}}


def application(name: str = "shop", *, version: int = 1, **fields: Any) -> Object:
    metadata = {"name": name, "namespace": "agent-a", "uid": name, "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {}, **fields}


def giving(item: Object) -> Event:
    return object_event(Message.SET_OPERATION, target=Target.APPLICATION, obj=item)


def test_an_operation_is_given_once_and_the_same_one_again_after_it_was_over() -> None:
    operations = Operations()
    assert operations.gives(application(operation=SYNC))
    assert not operations.gives(application(version=2, operation=SYNC))
    operations.over(application(version=3))
    assert not operations.gives(application(version=2, operation=SYNC))  # the watch shows the past
    assert operations.gives(application(version=4, operation=SYNC))


def test_what_is_held_or_found_no_room_is_due_later() -> None:
    operations = Operations()
    held, full, idle = (application(name, operation=SYNC) for name in ("held", "full", "idle"))
    operations.hold()
    assert not operations.gives(held)
    operations.found_no_room(full)
    assert operations.take_due([held, full, idle]) == [held, full]
    assert operations.gives(held)
    assert operations.gives(full)
    operations.found_no_room(full)
    assert not operations.settle()
    assert operations.take_due([held, full, idle]) == [full]
    assert operations.gives(full)
    assert operations.settle()


def test_what_was_there_before_this_process_stays_unsure_until_there_was_room_for_it() -> None:
    operations, item = Operations(), application(operation=SYNC)
    operations.begin([item])
    assert operations.take_due([item]) == [item]
    assert operations.is_unsure(item)
    operations.found_no_room(item)
    assert not operations.settle()
    assert operations.is_unsure(item)
    assert operations.take_due([item]) == [item]
    assert operations.settle()
    assert not operations.is_unsure(item)


def test_only_of_an_operation_that_it_has_had_the_agent_can_say_that_it_is_over() -> None:
    operations, item = Operations(), application(operation=SYNC)
    assert operations.is_pending(item)
    assert operations.arrived(giving(item))  # it said that there is none, before it had it: ask again
    assert not operations.is_pending(item)
    assert not operations.arrived(giving(item))


def test_what_the_agent_told_of_itself_is_no_news_to_it() -> None:
    operations, idle, busy = Operations(), application(), application(version=2, operation=SYNC)
    assert operations.as_known(idle, busy) == idle
    with operations.telling(busy, place=place_of(busy)):
        pass
    known = operations.as_known(idle, busy)
    assert known is not None
    assert known["operation"] == SYNC
    assert not operations.is_pending(busy)
    operations.forget(place_of(busy))
    assert operations.as_known(idle, busy) == idle
    assert operations.is_pending(busy)


def test_what_was_not_written_was_not_told() -> None:
    operations, idle, busy = Operations(), application(), application(version=2, operation=SYNC)
    with (
        pytest.raises(InvalidError),
        operations.telling(busy, place=place_of(busy)),
    ):
        raise InvalidError("the API server says no")
    assert operations.as_known(idle, busy) == idle
    assert operations.is_pending(busy)


def test_of_an_applications_operations_the_last_few_are_remembered() -> None:
    operations = Operations()
    told = [application(operation={"sync": {"revision": str(number)}}) for number in range(100)]
    for item in told:
        with operations.telling(item, place=place_of(item)):
            pass
    assert not operations.is_pending(told[-1])
    assert operations.is_pending(told[0])
