"""What either side takes, and what an agent tells of its own."""

from typing import Any

import pytest

from argocd import names
from argocd.agents.messages import (
    Acceptance,
    Drift,
    WatchedChange,
    agent_accepts,
    deletion_of_mirror,
    drift_of,
    own_object_changed,
    principal_accepts,
    status_message,
)
from argocd.agents.vocabulary import Message, Mode, Target
from tests.argocd.agents.agent_objects import application

APPLY, DISCARD, REFUSE = Acceptance.APPLY, Acceptance.DISCARD, Acceptance.REFUSE
MANAGED, AUTONOMOUS = Mode.MANAGED, Mode.AUTONOMOUS


@pytest.mark.parametrize(
    ("target", "message", "managed", "autonomous"),
    [
        (Target.APPLICATION, Message.CREATE, DISCARD, APPLY),
        (Target.APPLICATION, Message.SPEC_UPDATE, REFUSE, APPLY),
        (Target.APPLICATION, Message.STATUS_UPDATE, APPLY, REFUSE),
        (Target.APPLICATION, Message.DELETE, APPLY, APPLY),
        (Target.APPLICATION, Message.SET_OPERATION, REFUSE, REFUSE),
        (Target.PROJECT, Message.CREATE, DISCARD, APPLY),
        (Target.PROJECT, Message.SPEC_UPDATE, REFUSE, APPLY),
        (Target.PROJECT, Message.DELETE, REFUSE, APPLY),
        (Target.REPOSITORY, Message.SPEC_UPDATE, REFUSE, REFUSE),
    ],
)
def test_a_principal_takes_what_the_agents_mode_allows(
    target: Target, message: Message, managed: Acceptance, autonomous: Acceptance
) -> None:
    assert principal_accepts(target, message, mode=MANAGED) is managed
    assert principal_accepts(target, message, mode=AUTONOMOUS) is autonomous


@pytest.mark.parametrize(
    ("target", "message", "managed", "autonomous"),
    [
        (Target.APPLICATION, Message.CREATE, APPLY, DISCARD),
        (Target.APPLICATION, Message.SPEC_UPDATE, APPLY, APPLY),
        (Target.APPLICATION, Message.DELETE, APPLY, REFUSE),
        (Target.APPLICATION, Message.SET_OPERATION, APPLY, APPLY),
        (Target.APPLICATION, Message.TERMINATE_OPERATION, APPLY, APPLY),
        (Target.APPLICATION, Message.STATUS_UPDATE, REFUSE, REFUSE),
        (Target.PROJECT, Message.CREATE, APPLY, DISCARD),
        (Target.PROJECT, Message.SPEC_UPDATE, APPLY, REFUSE),
        (Target.PROJECT, Message.DELETE, APPLY, REFUSE),
        (Target.REPOSITORY, Message.SPEC_UPDATE, APPLY, REFUSE),
        (Target.GPG_KEYS, Message.DELETE, APPLY, REFUSE),
    ],
)
def test_an_agent_takes_what_its_mode_allows(
    target: Target, message: Message, managed: Acceptance, autonomous: Acceptance
) -> None:
    assert agent_accepts(target, message, mode=MANAGED) is managed
    assert agent_accepts(target, message, mode=AUTONOMOUS) is autonomous


@pytest.mark.parametrize(
    ("mode", "change", "before", "message"),
    [
        (AUTONOMOUS, WatchedChange.ADDED, False, Message.CREATE),
        (MANAGED, WatchedChange.ADDED, False, None),
        (AUTONOMOUS, WatchedChange.ADDED, True, None),
        (AUTONOMOUS, WatchedChange.UPDATED, True, Message.SPEC_UPDATE),
        (MANAGED, WatchedChange.UPDATED, True, None),
        (AUTONOMOUS, WatchedChange.UPDATED, False, None),
        (AUTONOMOUS, WatchedChange.DELETED, True, Message.DELETE),
        (MANAGED, WatchedChange.DELETED, True, None),
        (AUTONOMOUS, WatchedChange.DELETED, False, Message.DELETE),
    ],
)
def test_what_an_agent_tells_of_its_own_projects(
    *, mode: Mode, change: WatchedChange, before: bool, message: Message | None
) -> None:
    assert own_object_changed(change, mode=mode, tracked=before) is message


COPY = application(metadata={"annotations": {names.SOURCE_UID: "u"}})


def changed(**parts: Any) -> dict[str, Any]:
    return {**COPY, **parts}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (None, COPY, Message.STATUS_UPDATE),
        (None, application(), None),
        (COPY, COPY, None),
        (COPY, changed(status={"health": "h"}), Message.STATUS_UPDATE),
        (COPY, changed(operation={"sync": {}}), Message.STATUS_UPDATE),
        (COPY, changed(spec={"drift": True}), None),
        *(
            (
                COPY,
                changed(metadata={"annotations": {names.SOURCE_UID: "u", request: "normal"}}),
                Message.STATUS_UPDATE,
            )
            for request in names.REQUESTS
        ),
    ],
)
def test_a_managed_agent_tells_what_the_principal_takes(old: Any, new: Any, message: Message | None) -> None:
    assert status_message(old, new) is message


def test_a_mirror_that_was_changed_is_written_back() -> None:
    assert drift_of({"spec": {"a": 1}}, expected={"a": 2}) is Drift.REVERT
    assert drift_of({"spec": {"a": 1}}, expected={"a": 1}) is Drift.NONE
    assert drift_of({"spec": {"a": 1}}, expected=None) is Drift.NONE
    assert drift_of({"data": {"a": "1"}}, expected={}, content="data") is Drift.REVERT


def test_a_mirror_that_vanished_comes_back_unless_that_was_announced() -> None:
    assert deletion_of_mirror(announced=False) is Drift.RESTORE
    assert deletion_of_mirror(announced=True) is Drift.REPORT
