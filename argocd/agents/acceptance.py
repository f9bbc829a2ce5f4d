"""What either side does with a message and with a change of its own objects: the agent's half, and what is refused."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from argocd.agents.identity import has_source
from argocd.agents.own_annotations import requests_on
from argocd.agents.vocabulary import Message, Mode, Target
from argocd.reading import value

Object = Mapping[str, Any]


class Acceptance(StrEnum):
    """Whatever the answer, the message is acknowledged: it would not be right the next time either."""

    APPLY = "apply"
    DISCARD = "event discarded"
    REFUSE = "event type not allowed"


_LIFE = frozenset({Message.CREATE, Message.SPEC_UPDATE, Message.DELETE})
_COMMANDS = frozenset({Message.SET_OPERATION, Message.TERMINATE_OPERATION})

_PRINCIPAL_APPLIES = {
    (Mode.MANAGED, Target.APPLICATION): frozenset({Message.STATUS_UPDATE, Message.DELETE}),
    (Mode.AUTONOMOUS, Target.APPLICATION): _LIFE,
    (Mode.AUTONOMOUS, Target.PROJECT): _LIFE,
}
_AGENT_APPLIES = {
    (Mode.MANAGED, Target.APPLICATION): _LIFE | _COMMANDS,
    (Mode.MANAGED, Target.PROJECT): _LIFE,
    (Mode.MANAGED, Target.REPOSITORY): _LIFE,
    (Mode.MANAGED, Target.GPG_KEYS): _LIFE,
    # Of an update only the operation and the refresh request are taken.
    (Mode.AUTONOMOUS, Target.APPLICATION): _COMMANDS | {Message.SPEC_UPDATE},
}


def principal_accepts(target: Target, message: Message, *, mode: Mode) -> Acceptance:
    """What a principal does with a message of an agent in that mode.

    A managed agent's deletion counts only while the principal's own Application is being deleted.
    """
    return _accepts(_PRINCIPAL_APPLIES.get((mode, target), frozenset()), message)


def agent_accepts(target: Target, message: Message, *, mode: Mode) -> Acceptance:
    return _accepts(_AGENT_APPLIES.get((mode, target), frozenset()), message)


def _accepts(applied: frozenset[Message], message: Message) -> Acceptance:
    if message in applied:
        return Acceptance.APPLY
    return Acceptance.DISCARD if message is Message.CREATE else Acceptance.REFUSE


class WatchedChange(StrEnum):
    """What a watch saw."""

    ADDED = "add"
    UPDATED = "update"
    DELETED = "delete"


def own_object_changed(change: WatchedChange, *, mode: Mode, tracked: bool) -> Message | None:
    """What an agent tells its principal about a project or Application that changed on its cluster.

    Only an autonomous agent has objects of its own to tell of. `tracked`: it had told of this one before.
    """
    if mode is Mode.MANAGED:
        return None
    if change is WatchedChange.DELETED:
        return Message.DELETE
    if change is WatchedChange.ADDED:
        return None if tracked else Message.CREATE
    return Message.SPEC_UPDATE if tracked else None


def status_message(old: Object | None, new: Object) -> Message | None:
    """What a managed agent tells its principal when one of its copies changed: only what the principal takes."""
    if not has_source(new):
        return None
    if (
        old is not None
        and all(value(old, key) == value(new, key) for key in ("status", "operation"))
        and requests_on(old) == requests_on(new)
    ):
        return None
    return Message.STATUS_UPDATE


class Drift(StrEnum):
    """What to do about a change that somebody made to a mirror."""

    NONE = "none"
    REVERT = "write the source's version back"
    RESTORE = "create it again"
    REPORT = "tell the source that it is gone"


def drift_of(local: Object, *, expected: Any, content: str = "spec") -> Drift:
    """A mirror that changed, beside the content that the source last sent (None: not known)."""
    drifted = expected is not None and value(local, content) != expected
    return Drift.REVERT if drifted else Drift.NONE


def deletion_of_mirror(*, announced: bool) -> Drift:
    """A mirror that vanished: as the source had said, or by somebody's hand."""
    return Drift.REPORT if announced else Drift.RESTORE
