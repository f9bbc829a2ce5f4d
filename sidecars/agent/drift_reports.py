"""A managed agent tells its principal which of its copies somebody changes again and again."""

from collections.abc import Callable
from datetime import datetime, timedelta

from argocd.agents.namespaces import as_told_to_peer
from argocd.reading import text
from sidecars.agent.state import AgentState
from sidecars.delivery.timing import Timing
from sidecars.mirroring import repeated_drift
from sidecars.mirroring.drift import Key, UndoneChange, key_of
from sidecars.mirroring.kinds import APPLICATION
from sidecars.mirroring.link import Link
from sidecars.mirroring.repeated_drift import DriftCounts, DriftReport, changed_fields
from sidecars.wire import capabilities, payloads
from sidecars.wire.events import AGENT_SOURCE, message_event

OBJECTS = 256
"""Whose drift is counted: four times as many as a principal lists of one agent."""
PAUSE = timedelta(seconds=30)
"""Between two reports on one object, however often it is undone."""


class DriftReports:
    def __init__(
        self,
        *,
        agent_state: AgentState,
        timing: Timing,
        new_id: Callable[[], str],
        link: Callable[[], Link],
    ) -> None:
        self._agent_state = agent_state
        self._timing = timing
        self._new_id = new_id
        self._link = link
        self._counts = DriftCounts(OBJECTS)
        self._told: dict[Key, datetime] = {}

    def undone(self, change: UndoneChange) -> None:
        key, now = key_of(change.kind, change.mirror), self._timing.now()
        drift = self._counts.undone(key, now=now)
        link = self._link()
        if drift is None or not link.connected or capabilities.DRIFT not in link.extensions:
            return
        told = self._told.pop(key, None)
        if told is not None and now - told < PAUSE:
            self._told[key] = told
            return
        self._told[key] = now
        if len(self._told) > OBJECTS:
            del self._told[next(iter(self._told))]
        report = DriftReport(
            target=change.kind.target,
            namespace=self._namespace(change),
            name=text(change.mirror, "metadata", "name"),
            times=drift.times,
            seconds=int((drift.last - drift.since).total_seconds()),
            deleted=change.expected is None,
            fields=[] if change.expected is None else changed_fields(change),
        )
        link.send(
            message_event(
                repeated_drift.TYPE,
                target=repeated_drift.TARGET,
                payload=payloads.write(report),
                source=AGENT_SOURCE,
                new_id=self._new_id,
            )
        )

    def _namespace(self, change: UndoneChange) -> str:
        peer = self._agent_state.principal_namespace
        if change.kind is APPLICATION:
            return as_told_to_peer(change.mirror, peer_namespace=peer)
        return peer
