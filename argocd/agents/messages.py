"""Which messages follow a change, on either side, and which ones the other side takes.

State is told when it differs: an object that changed only in its status, in what its own mirror wrote, or
in bookkeeping is not sent again. Commands (operation, termination, refresh) are told once, when they appear.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from argocd.agents import ignore_sync
from argocd.agents.identity import has_source, under_first_identity
from argocd.agents.own_annotations import BOOKKEEPING, annotations_without, requests_on
from argocd.agents.project_copies import project_for_agent
from argocd.agents.routing import AgentIndex, agent_of_application, project_of_repository
from argocd.agents.vocabulary import Message, Mode, Target
from argocd.reading import sequence, text, value

Object = Mapping[str, Any]

_TERMINATING = "Terminating"


@dataclass(frozen=True, slots=True)
class Sending:
    """One message to one agent."""

    agent: str
    message: Message
    target: Target
    object: Object


def differs(old: Object, new: Object, *, content: str = "spec") -> bool:
    """Whether the other side's copy of an object would be another one."""
    return (
        value(old, content) != value(new, content)
        or any(
            (value(old, "metadata", key) or None) != (value(new, "metadata", key) or None)
            for key in ("labels", "finalizers", "deletionTimestamp")
        )
        or annotations_without(old, BOOKKEEPING) != annotations_without(new, BOOKKEEPING)
    )


def refresh_requested(old: Object, new: Object) -> bool:
    """Whether somebody asked for a refresh; that the answer removed the request is no request."""
    before = requests_on(old)
    return any(before.get(key) != wanted for key, wanted in requests_on(new).items())


# -- at the principal ----------------------------------------------------------------------------------------


def project_sendings(old: Object | None, new: Object | None, *, agents: AgentIndex) -> Iterator[Sending]:
    """What a project's change on the principal means to its managed agents.

    `old` is None for a new project, `new` for a deleted one. Getting the label that keeps a project out
    is a deletion, losing it a creation.
    """
    change = agents.for_change(old, new)
    last = new if new is not None and not ignore_sync.is_ignored(new) else old
    before, after = (_Copies(item or {}, agents) for item in (old, new))
    gone = after if last is new else before
    for agent in change.lost:
        yield Sending(agent, Message.DELETE, Target.PROJECT, gone.copy_for(agent))
    # argocd-agent tells an agent that newly matches of an update; its receiver creates on either.
    seen_before = old is not None and not ignore_sync.is_ignored(old)
    for agent in change.gained:
        message = Message.SPEC_UPDATE if seen_before else Message.CREATE
        yield Sending(agent, message, Target.PROJECT, after.copy_for(agent))
    compared: dict[tuple[int, int], bool] = {}
    for agent in change.kept:
        first, second = before.copy_for(agent), after.copy_for(agent)
        pair = (id(first), id(second))
        if pair not in compared:
            compared[pair] = differs(first, second)
        if compared[pair]:
            yield Sending(agent, Message.SPEC_UPDATE, Target.PROJECT, second)


class _Copies:
    """A copy depends on which destinations are about its agent, so a few serve them all.

    They are the same objects, so that whoever sends them need encode each once.
    """

    def __init__(self, project: Object, agents: AgentIndex) -> None:
        self._project = project
        self._mapped_by = agents.mapped_by
        self._about = [agents.about(each) for each in sequence(project, "spec", "destinations")]
        self._made: dict[tuple[bool, ...], Object] = {}

    def copy_for(self, agent: str) -> Object:
        key = tuple(agent in about for about in self._about)
        if key not in self._made:
            self._made[key] = project_for_agent(self._project, agent=agent, mapped_by=self._mapped_by)
        return self._made[key]


def strands_its_deletion(old: Object, new: Object) -> bool:
    """Whether a project on the principal got finalizers: no controller there would ever remove them."""
    finalizers = value(new, "metadata", "finalizers")
    return bool(finalizers) and finalizers != value(old, "metadata", "finalizers")


def application_sendings(
    old: Object | None,
    new: Object | None,
    *,
    agents: AgentIndex,
) -> Iterator[Sending]:
    """What an Application's change on the principal means to its agent, or to two when it moves.

    None stands for an Application that is not there or not admitted.
    """
    before, after = (
        agent_of_application(item, mapped_by=agents.mapped_by, mode_of=agents.mode_of) if item else ""
        for item in (old, new)
    )
    if old is not None and new is not None and before != after:
        yield from _application_sendings(old, None, before, agents.mode_of(before))
        yield from _application_sendings(None, new, after, agents.mode_of(after), arrives=Message.SPEC_UPDATE)
    else:
        agent = after if new is not None else before
        yield from _application_sendings(old, new, agent, agents.mode_of(agent))


def _application_sendings(
    old: Object | None,
    new: Object | None,
    agent: str,
    mode: Mode | None,
    *,
    arrives: Message = Message.CREATE,
) -> Iterator[Sending]:
    for message in application_messages(old, new, mode=mode):
        said = arrives if message is Message.CREATE else message
        payload = new if new is not None else old or {}
        if said is Message.SPEC_UPDATE:
            payload = {key: part for key, part in payload.items() if key != "operation"}
        yield Sending(agent, said, Target.APPLICATION, payload)
    if arrives is Message.SPEC_UPDATE and mode is not None and value(new, "operation") is not None:
        yield Sending(agent, Message.SET_OPERATION, Target.APPLICATION, new or {})


def application_messages(old: Object | None, new: Object | None, *, mode: Mode | None) -> list[Message]:
    """The messages to the one agent that an Application on the principal belongs to.

    To an autonomous agent only commands go: what its Applications are it says itself.
    """
    if mode is None:
        return []
    if old is None or new is None:
        return [Message.CREATE if old is None else Message.DELETE] if mode is Mode.MANAGED else []
    messages = []
    if _phase(new) == _TERMINATING != _phase(old):
        messages.append(Message.TERMINATE_OPERATION)
    if refresh_requested(old, new) or (mode is Mode.MANAGED and differs(old, new)):
        messages.append(Message.SPEC_UPDATE)
    if value(old, "operation") is None and value(new, "operation") is not None:
        messages.append(Message.SET_OPERATION)
    return messages


def _phase(application: Object) -> str:
    return text(application, "status", "operationState", "phase")


def repository_sendings(
    old: Object | None,
    new: Object | None,
    *,
    sent_to: Collection[str],
    agents_of: Callable[[str], Collection[str]],
    argocd_namespace: str,
) -> Iterator[Sending]:
    """What a repository Secret's change, or one of its project, means to the agents.

    `sent_to` is who has it, which the project can no longer tell once it is gone; `agents_of` answers for
    a project's name. With `old` and `new` the same, only who gets it may have changed.
    """
    project = project_of_repository(new, argocd_namespace=argocd_namespace) if new is not None else ""
    wanted = set(agents_of(project)) if project else set()
    for agent in sorted(set(sent_to) - wanted):
        yield Sending(agent, Message.DELETE, Target.REPOSITORY, under_first_identity(new or old or {}))
    if new is None:
        return
    changed = old is None or differs(old, new, content="data")
    for agent in sorted(wanted):
        if changed or agent not in sent_to:
            message = Message.CREATE if old is None else Message.SPEC_UPDATE
            yield Sending(agent, message, Target.REPOSITORY, under_first_identity(new))


# -- at either end ------------------------------------------------------------------------------------------------


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
