"""What an agent's own cluster shows it: drift to undo, status to tell, and its own objects if it is autonomous."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from argocd.agents.identity import is_managed
from argocd.agents.messages import Drift, WatchedChange, differs, own_object_changed, status_message
from argocd.agents.own_annotations import requests_on
from argocd.agents.vocabulary import Message, Mode
from argocd.reading import value
from kube.store import Object
from sidecars.agent.settings import AgentSettings
from sidecars.agent.state import AgentState
from sidecars.mirroring.drift import DriftGuard, Key, key_of
from sidecars.mirroring.kinds import APPLICATION, SyncedKind

Tell: TypeAlias = Callable[[Message, SyncedKind, Object], bool]
"""False where there was no room."""


class AgentOutgoing:
    def __init__(
        self, *, settings: AgentSettings, agent_state: AgentState, guard: DriftGuard, tell: Tell
    ) -> None:
        self._settings = settings
        self._agent_state = agent_state
        self._guard = guard
        self._tell = tell
        self._told: dict[Key, Object] = {}
        """Of a managed agent's Applications: status, operation and refresh as last told."""
        self._waiting: dict[Key, asyncio.TimerHandle] = {}
        self._started = False

    def begin(self) -> None:
        """Before the caches run."""
        for kind, cache in self._agent_state.caches.items():
            cache.subscribe(partial(self._changed, kind))

    def start(self) -> None:
        """The first lists are complete: from now on changes are news."""
        self._started = True

    def _changed(self, kind: SyncedKind, old: Object | None, new: Object | None) -> None:
        if self._settings.mode is Mode.MANAGED:
            self._copy_changed(kind, old, new)
        else:
            self._own_changed(kind, old, new)

    # A managed agent's copies.

    def _copy_changed(self, kind: SyncedKind, old: Object | None, new: Object | None) -> None:
        if new is not None and is_managed(new):
            if not self._started:
                self._guard.begin(kind, new)
            else:
                self._guard.changed(kind, new)
            if kind is APPLICATION and self._agent_state.concerns(kind, new):
                self._status(new)
        elif new is not None:
            if old is not None and is_managed(old):
                self._guard.changed(kind, new)  # somebody took the mark off
        elif old is not None and is_managed(old):
            drift = self._guard.gone(kind, old)
            if kind is APPLICATION:
                self._told.pop(key_of(kind, old), None)
                if drift is Drift.REPORT:
                    self._tell(Message.DELETE, kind, old)

    def given(self, copy: Object) -> None:
        """Created with the status that the principal has: telling it would cost each end a write or a look."""
        if value(copy, "operation") is None:
            self._told[key_of(APPLICATION, copy)] = _status_of(copy)

    def _status(self, new: Object) -> None:
        key = key_of(APPLICATION, new)
        if not self._started:
            self._told[key] = _status_of(new)  # what changed while nobody looked is found by comparing
            return
        if status_message(self._told.get(key), new) is None:
            return
        pause = self._settings.status_seconds
        if not pause:
            self.tell_status(new)
        elif key not in self._waiting:
            loop = asyncio.get_running_loop()
            self._waiting[key] = loop.call_later(pause, self._tell_later, key)

    def _tell_later(self, key: Key) -> None:
        del self._waiting[key]
        _, namespace, name = key
        now = self._agent_state.get(APPLICATION, name=name, namespace=namespace)
        if now is not None and is_managed(now):
            self.tell_status(now)

    def tell_status(self, application: Object) -> None:
        self._told[key_of(APPLICATION, application)] = _status_of(application)
        self._tell(Message.STATUS_UPDATE, APPLICATION, application)

    # An autonomous agent's own objects.

    def _own_changed(self, kind: SyncedKind, old: Object | None, new: Object | None) -> None:
        before = old if old is not None and self._agent_state.concerns(kind, old) else None
        after = new if new is not None and self._agent_state.concerns(kind, new) else None
        some = after if after is not None else before
        if some is None or not self._started:
            return
        if before is None:
            change = WatchedChange.ADDED
        elif after is None:
            change = WatchedChange.DELETED
        else:
            change = WatchedChange.UPDATED
            if not _is_news(kind, before, after):
                return
        message = own_object_changed(change, mode=self._settings.mode, tracked=before is not None)
        if message is not None:
            self._tell(message, kind, some)


def _is_news(kind: SyncedKind, old: Object, new: Object) -> bool:
    return differs(old, new) or (kind is APPLICATION and _status_of(old) != _status_of(new))


def _status_of(application: Object) -> Object:
    """As much of an Application as `status_message` looks at."""
    return {
        "metadata": {"annotations": requests_on(application)},
        "status": value(application, "status"),
        "operation": value(application, "operation"),
    }
