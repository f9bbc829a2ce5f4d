"""Operations of one agent's Applications: given once, known to be over only when the agent has had them."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any, TypeAlias

import orjson

from argocd import names
from argocd.agents.own_annotations import requests_on
from argocd.agents.replication import pending_operation
from argocd.reading import value
from kube.store import Object
from sidecars.delivery.outcomes import DeliveryVerdict, judge
from sidecars.mirroring.kinds import DIGEST_BYTES, operation_digest
from sidecars.mirroring.writer import version_of
from sidecars.wire.events import Event
from sidecars.wire.json_objects import read_object

Place: TypeAlias = tuple[str, str]
"""An Application's namespace and name on the hub."""

REMEMBERED_OPERATIONS = 8
"""Of an Application, that its agent has had: the hub holds one at a time, and a watch shows the last few."""


def place_of(application: Mapping[str, Any]) -> Place:
    return application["metadata"]["namespace"], application["metadata"]["name"]


class Operations:
    __slots__ = ("_given", "_had", "_held", "_over", "_refused", "_told", "_unsure", "_withheld")

    def __init__(self) -> None:
        self._held = False
        """A comparison is under way: the agent may not have yet what an operation is for."""
        self._refused: set[Place] = set()
        """Applications whose operation found no room in the queue, or was held."""
        self._unsure: set[Place] = set()
        """Those whose operation was there when this process began, or at the primary before a promotion: the agent may
        have had it.
        """
        self._withheld: set[Place] = set()
        """Those of which the agent said that there is no operation, when it was not known to have had it."""
        self._given: dict[Place, tuple[str, int]] = {}
        self._had: dict[Place, dict[str, None]] = {}
        self._over: dict[Place, int] = {}
        self._told: dict[Place, tuple[str, ...]] = {}
        """Digests of commands, not commands: an agent chooses how large those are."""

    # Giving.

    def begin(self, applications: Iterable[Object]) -> None:
        """This process meets the agent: these have an operation already."""
        self._unsure = {place_of(item) for item in applications}

    def adopts(self, old: Object | None, new: Object) -> None:
        """What a promotion made of a copy's mark is no new operation, however late it is done or seen."""
        pending = None if old is None else pending_operation(old)
        if pending is not None and value(new, "operation") == pending:
            self._unsure.add(place_of(new))

    def hold(self) -> None:
        """Until `take_due`."""
        self._held = True

    def take_due(self, applications: Iterable[Object]) -> list[Object]:
        """Those that found no room in the queue, and those of which nobody knows whether they were given. The
        caller gives them, and says so by `settle`.
        """
        self._held = False
        due, self._refused = self._refused | self._unsure, set()
        return [each for each in applications if place_of(each) in due]

    def settle(self) -> bool:
        """What was due has been given; whether there was room for all of it."""
        self._unsure &= self._refused  # of those it is still not known
        return not self._refused

    def gives(self, application: Mapping[str, Any]) -> bool:
        """Whether its operation is one that the agent is to be given now; from now on it was."""
        if self._held:
            self.found_no_room(application)
            return False
        place, given = place_of(application), (operation_digest(application), version_of(application))
        if self._given.get(place, ("", 0))[0] == given[0]:
            return False
        if given[1] < self._over.get(place, 0):
            return False  # a watch shows the past: that one is over
        self._given[place] = given
        self._had.pop(place, None)  # the same one once more is a new one
        return True

    def is_unsure(self, application: Mapping[str, Any]) -> bool:
        """Whether the agent may have had its operation from the process, or the primary, before this one."""
        return place_of(application) in self._unsure

    def found_no_room(self, application: Mapping[str, Any]) -> None:
        """It is given when there is some."""
        place = place_of(application)
        self._given.pop(place, None)
        self._refused.add(place)

    # Operations that the agent is known to have had: only of those it can say that they are over.

    def arrived(self, event: Event) -> bool:
        """The one that gave an operation; whether the agent should be asked how it stands now."""
        namespace, _, name = event.subject.partition("/")
        self._note_had((namespace, name), operation_digest(read_object(event.payload)))
        asks = (namespace, name) in self._withheld
        self._withheld.discard((namespace, name))
        return asks

    def is_pending(self, hub: Object) -> bool:
        """Whether the hub's operation is one that the agent has not had: a status without it is older."""
        if value(hub, "operation") is None:
            return False
        place = place_of(hub)
        pending = operation_digest(hub) not in self._had.get(place, ())
        if pending:
            self._withheld.add(place)
        return pending

    def over(self, hub: Object) -> None:
        """The hub has none: the next one is a new one, even if it looks the same. A watch may show the past."""
        place = place_of(hub)
        self._over[place] = max(version_of(hub), self._over.get(place, 0))
        self._unsure.discard(place)
        if version_of(hub) > self._given.get(place, ("", 0))[1]:
            self._given.pop(place, None)
            self._had.pop(place, None)

    # What the agent itself said of an Application's commands is no news to it.

    @contextmanager
    def telling(self, application: Object, *, place: Place, is_new: bool = False) -> Iterator[None]:
        """By the agent, while it is written to the hub: the watch may be faster than the answer. What was not
        written was not told; `is_new`: of that nothing need be remembered either.
        """
        told, had = self._told.get(place), self._had.get(place)
        before = None if had is None else dict(had)
        self._told[place] = _digests(_commands(application))
        if value(application, "operation") is not None:
            self._note_had(place, operation_digest(application))
        try:
            yield
        except BaseException as error:
            if is_new or (isinstance(error, Exception) and judge(error) is not DeliveryVerdict.RETRY):
                _put_back(self._told, place, told)
                _put_back(self._had, place, before)
            raise

    def _note_had(self, place: Place, digest: str) -> None:
        had = self._had.setdefault(place, {})
        had[digest] = None
        if len(had) > REMEMBERED_OPERATIONS:
            del had[next(iter(had))]

    def as_known(self, old: Object | None, new: Object | None) -> Object | None:
        """The old version with those commands of the new one that the agent told of."""
        if old is None or new is None:
            return old
        told = self._told.get(place_of(new))
        if _is_another_operation(old, new):
            old = {key: part for key, part in old.items() if key != "operation"}
        if told is None:
            return old
        wanted = _commands(new)
        operation, phase, *requests = (
            wish if said == digest else had
            for said, digest, wish, had in zip(told, _digests(wanted), wanted, _commands(old), strict=True)
        )
        return _with_commands(old, operation=operation, phase=phase, requests=requests)

    def forget(self, place: Place) -> None:
        """The Application is gone."""
        for places in (self._told, self._had, self._given, self._over):
            places.pop(place, None)
        for marked in (self._refused, self._unsure, self._withheld):
            marked.discard(place)


def _is_another_operation(old: Object, new: Object) -> bool:
    """One was over and another given while the watch was away."""
    before, after = value(old, "operation"), value(new, "operation")
    return before is not None and after is not None and before != after


def _commands(application: Object) -> tuple[Any, ...]:
    requests = requests_on(application)
    return (
        value(application, "operation"),
        value(application, "status", "operationState", "phase"),
        *(requests.get(key) for key in names.REQUESTS),
    )


def _digests(commands: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(
        blake2b(orjson.dumps(each, option=orjson.OPT_SORT_KEYS), digest_size=DIGEST_BYTES).hexdigest()
        for each in commands
    )


def _put_back(places: dict[Place, Any], place: Place, before: Any) -> None:
    if before is None:
        places.pop(place, None)
    else:
        places[place] = before


def _with_commands(application: Object, *, operation: Any, phase: Any, requests: Iterable[Any]) -> Object:
    status = value(application, "status") or {}
    state = {**(value(status, "operationState") or {}), "phase": phase}
    metadata = application["metadata"]
    annotations = {
        **(metadata.get("annotations") or {}),
        **dict(zip(names.REQUESTS, requests, strict=True)),
    }
    return {
        **application,
        "operation": operation,
        "status": {**status, "operationState": state},
        "metadata": {**metadata, "annotations": annotations},
    }
