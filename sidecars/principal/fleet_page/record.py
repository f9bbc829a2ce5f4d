"""What the fleet page shows and nothing else keeps: noted while events pass, in bounded room."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import takewhile

from argocd import names
from argocd.agents.copies import AGENT_ERROR
from argocd.agents.routing import AgentMapping
from argocd.agents.vocabulary import OBJECT_TARGETS, PREFIX, Message, Mode
from argocd.reading import sequence, text
from kube.store import Object
from sidecars.delivery.outcomes import DeadLetter
from sidecars.delivery.timing import Timing
from sidecars.mirroring.drift import UndoneChange
from sidecars.mirroring.kinds import APPLICATION, BY_TARGET
from sidecars.mirroring.repeated_drift import DriftReport, RepeatedDrift
from sidecars.principal.agents import KnownAgent
from sidecars.principal.fleet_page.stuck import (
    StuckObject,
    StuckObjects,
    StuckReason,
    drift_in_words,
    in_words,
    reason_of,
    reason_of_condition,
)
from sidecars.principal.fleet_page.tallies import ApplicationTallies
from sidecars.principal.state import HubState
from sidecars.wire.events import Event

CHANGES = 50
"""What one looks through; who wants more has metrics and traces."""

SUMMARY, STUCK, TRAVELLED, REGIONS = "summary", "stuck", "travelled", "regions"
"""Parts of the page that change on their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionRecord:
    """`until` is None while it lasts, `ended` says why it does no more; `certificate_end` is None without one."""

    since: datetime
    until: datetime | None = None
    ended: str = ""
    certificate_end: datetime | None = None
    extensions: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class TravelledChange:
    """One that the other end has applied; `seconds` from the watch here to its word, or from its sending to us."""

    when: datetime
    agent: str
    to_agent: bool
    kind: str
    place: str
    what: str
    seconds: float


@dataclass(frozen=True, slots=True)
class LastError:
    when: datetime
    words: str


# What an agent may say of drift: as long as a year, and a million times.
_LONGEST_DRIFT, _MOST_DRIFTS = 365 * 86400, 1_000_000

_DIGITS = 18
"""Of a number that anybody may send; a process makes fewer changes."""


class FleetNews:
    """What has changed since somebody looked, by agent and by part of the page. A change costs the same whether nobody or everybody listens."""

    def __init__(self, incarnation: str) -> None:
        """`incarnation` tells this process from the one before, whose numbers mean nothing here."""
        self._incarnation = incarnation
        self._number = 0
        self._agents: dict[str, int] = {}
        """In the order of their last change."""
        self._parts: dict[str, int] = {}
        self._waiting: asyncio.Future[None] | None = None

    @property
    def number(self) -> int:
        return self._number

    @property
    def stamp(self) -> str:
        return self.stamp_of(self._number)

    def stamp_of(self, number: int) -> str:
        return f"{self._incarnation}-{number}"

    def number_of(self, stamp: str) -> int | None:
        """None where it is none of ours."""
        incarnation, _, number = stamp.rpartition("-")
        if (
            incarnation != self._incarnation
            or len(number) > _DIGITS
            or not number.isdecimal()
            or not number.isascii()
        ):
            return None
        return int(number) if int(number) <= self._number else None

    def of(self, agent: str) -> int:
        return self._agents.get(agent, 0)

    def agent_changed(self, agent: str) -> None:
        self._agents.pop(agent, None)
        self._agents[agent] = self._next()

    def part_changed(self, part: str) -> None:
        self._parts[part] = self._next()

    def forget(self, agent: str) -> None:
        """It is gone: listeners are told by the part that lists agents."""
        self._agents.pop(agent, None)

    def agents_since(self, number: int) -> list[str]:
        newest_first = reversed(self._agents.items())
        return [agent for agent, _ in takewhile(lambda each: each[1] > number, newest_first)]

    def parts_since(self, number: int) -> list[str]:
        return [part for part, changed in self._parts.items() if changed > number]

    async def changed(self, number: int) -> None:
        """Returns once something is newer; the caller bounds it."""
        while self._number <= number:
            if self._waiting is None:
                self._waiting = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._waiting)

    def _next(self) -> int:
        self._number += 1
        if self._waiting is not None:
            self._waiting.set_result(None)
            self._waiting = None
        return self._number


class FleetRecord:
    def __init__(self, hub_state: HubState, *, timing: Timing, incarnation: str) -> None:
        self._hub_state = hub_state
        self._timing = timing
        self.tallies = ApplicationTallies(self._agent_of)
        self.stuck = StuckObjects()
        self._troubled: set[str] = set()
        """With something stuck: most agents have nothing, at most events."""
        self.travelled: deque[TravelledChange] = deque(maxlen=CHANGES)
        self.connections: dict[str, ConnectionRecord] = {}
        self.last_errors: dict[str, LastError] = {}
        self.news = FleetNews(incarnation)

    def begin(self) -> list[Callable[[], None]]:
        """Returns what ends it."""
        return [
            self._hub_state.applications.subscribe(self._application),
            self._hub_state.clusters.subscribe(self._cluster),
        ]

    def _agent_of(self, application: Object) -> str:
        admitted = self._hub_state.admitted(application)
        return "" if admitted is None else self._hub_state.agent_of(admitted)

    # Agents.

    @property
    def connected_now(self) -> int:
        return sum(each.until is None for each in self.connections.values())

    def connected(
        self, agent: str, *, certificate_end: datetime | None = None, extensions: frozenset[str] = frozenset()
    ) -> ConnectionRecord:
        connection = self.connections[agent] = ConnectionRecord(
            since=self._timing.now(), certificate_end=certificate_end, extensions=extensions
        )
        self.tallies.count_again(self._hub_state.applications.find("agent", agent))
        self._agent_changed(agent)
        return connection

    def disconnected(self, agent: str, connection: ConnectionRecord, why: str) -> None:
        if self.connections.get(agent) is connection:  # or a newer one has taken over
            self.connections[agent] = replace(connection, until=self._timing.now(), ended=why)
            self._agent_changed(agent)

    def forget(self, agent: str) -> None:
        self.connections.pop(agent, None)
        self.last_errors.pop(agent, None)
        self.stuck.forget(agent)
        self._troubled.discard(agent)
        self.news.forget(agent)
        self.news.part_changed(SUMMARY)
        self.news.part_changed(STUCK)

    def _cluster(self, old: Object | None, new: Object | None) -> None:
        for secret in (old, new):
            agent = text(secret, "metadata", "labels", names.AGENT_NAME)
            if agent and self._hub_state.clusters.find("agent", agent):
                self._agent_changed(agent)  # and the principal drops one that has no cluster any more

    def _agent_changed(self, agent: str) -> None:
        self.news.agent_changed(agent)
        self.news.part_changed(SUMMARY)

    # Events that pass.

    def acknowledged(self, agent: str, event: Event, seconds: float) -> None:
        self.news.agent_changed(agent)
        if event.target in OBJECT_TARGETS:
            began = self._timing.now() - timedelta(seconds=seconds)
            self._got_through(agent, event, before=began)
            self._travelled(agent, event, seconds, to_agent=True)

    def applied(self, agent: str, event: Event) -> None:
        if event.target in OBJECT_TARGETS:
            self._got_through(agent, event)
            sent_at = event.sent_at
            if sent_at is not None:
                seconds = max(0.0, (self._timing.now() - sent_at).total_seconds())
                self._travelled(agent, event, seconds, to_agent=False)

    def _travelled(self, agent: str, event: Event, seconds: float, *, to_agent: bool) -> None:
        self.travelled.append(
            TravelledChange(
                when=self._timing.now(),
                agent=agent,
                to_agent=to_agent,
                kind=_kind(event),
                place=event.subject,
                what=event.type.removeprefix(PREFIX),
                seconds=seconds,
            )
        )
        self.news.part_changed(TRAVELLED)

    def _got_through(self, agent: str, event: Event, *, before: datetime | None = None) -> None:
        if agent not in self._troubled:
            return
        place = agent, _kind(event), event.subject
        gone = event.type == Message.DELETE and self.stuck.withdrawn(*place)
        if self.stuck.resolve(*place, before=before) or gone:
            self._stuck_changed(agent)

    # What goes wrong.

    def dead_letter(self, agent: str, letter: DeadLetter) -> None:
        words = in_words(letter.message)
        self.last_errors[agent] = LastError(self._timing.now(), words)
        kind, place = _kind(letter.event), letter.event.subject
        self.stuck.note(
            StuckObject(
                agent=agent,
                kind=kind,
                place=place,
                reason=reason_of(letter),
                words=words,
                since=self._timing.now(),
            )
        )
        self._stuck_changed(agent)

    def undone(self, change: UndoneChange) -> None:
        """Somebody's change of a mirror was written back."""
        mirror = change.mirror
        namespace, name = text(mirror, "metadata", "namespace"), text(mirror, "metadata", "name")
        listed = sequence(change.expected or mirror, "spec", "sourceNamespaces")
        agent = namespace if change.kind is APPLICATION else (listed[0] if listed else "")
        place, now = f"{namespace}/{name}", self._timing.now()
        if isinstance(agent, str) and self.stuck.drifted_here(agent, change, place=place, now=now):
            self._stuck_changed(agent)

    def drift_reported(self, agent: KnownAgent, report: DriftReport) -> None:
        """A managed agent undoes the same change again and again, to something that it has from us."""
        settings, kind = self._hub_state.settings, BY_TARGET.get(report.target)
        if kind is None or agent.mode is not Mode.MANAGED:
            return
        namespace = settings.namespace
        if kind is APPLICATION:
            namespace = agent.name if settings.mapped_by is AgentMapping.NAMESPACE else report.namespace
        if self._hub_state.expected(agent.name, kind, report.name, namespace) is None:
            return
        now = self._timing.now()
        passed = timedelta(seconds=min(max(report.seconds, 0), _LONGEST_DRIFT))
        drift = RepeatedDrift(times=min(max(report.times, 1), _MOST_DRIFTS), since=now - passed, last=now)
        done = "deleted" if report.deleted else "changed"
        self.stuck.note_drift(
            StuckObject(
                agent=agent.name,
                kind=kind.resource.kind,
                place=f"{namespace}/{report.name}",
                reason=StuckReason.DRIFT_THERE,
                words=drift_in_words(f"{done} on the agent's cluster", drift, fields=report.fields),
                since=drift.since,
            ),
            last=now,
        )
        self._stuck_changed(agent.name)

    def calm(self) -> None:
        """Somebody looks: what has ended by the passing of time is gone."""
        for agent in self.stuck.calm(now=self._timing.now()):
            self._stuck_changed(agent)

    def _stuck_changed(self, agent: str) -> None:
        if self.stuck.count(agent):
            self._troubled.add(agent)
        else:
            self._troubled.discard(agent)
        self.news.part_changed(STUCK)
        self._agent_changed(agent)

    def _application(self, old: Object | None, new: Object | None) -> None:
        changed = self.tallies.changed(old, new)
        for agent in changed:
            self._agent_changed(agent)
        before, after = _agent_error(old), _agent_error(new)
        if before != after or (new is None and before):
            self._error_changed(old, new, after)

    def _error_changed(self, old: Object | None, new: Object | None, message: str) -> None:
        """An AgentError is where every trouble with an Application is told, and it outlives this process."""
        item = new if new is not None else old
        agent = self._agent_of(item) if item is not None else ""
        if not agent:
            return
        place = f"{text(item, 'metadata', 'namespace')}/{text(item, 'metadata', 'name')}"
        if not message:
            if self.stuck.resolve(agent, APPLICATION.resource.kind, place):
                self._stuck_changed(agent)
            return
        words = in_words(message.removeprefix(f"agent {agent}: "))
        reason: StuckReason = reason_of_condition(message, agent=agent)
        now = self._timing.now()
        self.last_errors[agent] = LastError(now, f"{place}: {words}")
        self.stuck.note(
            StuckObject(
                agent=agent,
                kind=APPLICATION.resource.kind,
                place=place,
                reason=reason,
                words=words,
                since=_told_at(item) or now,
            )
        )
        self._stuck_changed(agent)


def _kind(event: Event) -> str:
    kind = BY_TARGET.get(event.target)
    return kind.resource.kind if kind is not None else event.target[:40]


def _condition(application: Object | None) -> Object | None:
    for condition in sequence(application, "status", "conditions"):
        if text(condition, "type") == AGENT_ERROR:
            return condition  # type: ignore[no-any-return]  # a condition is an object
    return None


def _agent_error(application: Object | None) -> str:
    return text(_condition(application), "message")


def _told_at(application: Object | None) -> datetime | None:
    try:
        told = datetime.fromisoformat(text(_condition(application), "lastTransitionTime"))
    except ValueError:
        return None
    return told if told.tzinfo else None
