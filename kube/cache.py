"""A copy in memory of some of a store's objects, kept by one list and then a watch."""

import asyncio
import random as randomness
import sys
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Generic, TypeVar

from kube.errors import ApiError, GoneError, UnavailableError
from kube.queries import PAGE_SIZE
from kube.store import ListPage, Object, Resource, Store, WatchEvent, WatchEventKind, version_number
from tiphys import logs

log = logs.get_logger()
T = TypeVar("T")

_FIRST_BACKOFF, _LONGEST_BACKOFF = 0.5, 30.0
# A watch that lived this long ended for a good reason, even if nothing came through it.
_LONG_LIVED = 10.0
# Whoever lists at several API servers may meet one that lags behind; but after a restore of etcd the past
# is the present, and waiting for the old future would never end.
_MOST_STALE_LISTS = 3
# A list whose pages expire twice while it is read is asked for in one piece.
_MOST_EXPIRED_PAGES = 2

Key = tuple[str, str]
"""Namespace (empty for kinds without one) and name."""

Subscriber = Callable[[T | None, T | None], None]
"""Called with (old, new): None as old for a new object, None as new for a deleted one."""


@dataclass(frozen=True, slots=True)
class Health:
    synced: bool
    objects: int
    version: str
    silence: float
    """Seconds since the store last said anything: a list, an event, a bookmark."""
    failures: int
    """In a row, since the last event or bookmark."""
    error: str
    """The last failure's, empty when there was a success since."""


@dataclass(frozen=True, slots=True)
class _IndexedValue(Generic[T]):
    value: T
    version: int
    uid: str


class _Index(Generic[T]):
    """What a cache holds; `indexes` name functions from a value to the terms it shall be found by."""

    def __init__(self, indexes: Mapping[str, Callable[[T], Iterable[Hashable]]]) -> None:
        self._held: dict[Key, _IndexedValue[T]] = {}
        self._functions = dict(indexes)
        self._indexes: dict[str, dict[Hashable, dict[Key, None]]] = {name: {} for name in indexes}

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._held)

    def get(self, key: Key) -> _IndexedValue[T] | None:
        return self._held.get(key)

    def values(self) -> Iterator[T]:
        return (held.value for held in self._held.values())

    def put(self, key: Key, held: _IndexedValue[T]) -> None:
        previous = self._held.get(key)
        self._held[key] = held
        if previous is not None and previous.value is held.value:
            return
        for name, function in self._functions.items():
            before = set(function(previous.value)) if previous is not None else set()
            after = set(function(held.value))
            self._forget(name, before - after, key)
            for term in after - before:
                self._indexes[name].setdefault(term, {})[key] = None

    def remove(self, key: Key) -> _IndexedValue[T]:
        held = self._held.pop(key)
        for name, function in self._functions.items():
            self._forget(name, set(function(held.value)), key)
        return held

    def find(self, index: str, term: Hashable) -> list[T]:
        """In the order in which the objects came under the term."""
        return [self._held[key].value for key in self._indexes[index].get(term, ())]

    def terms(self, index: str) -> list[Hashable]:
        return list(self._indexes[index])

    def _forget(self, name: str, terms: Iterable[Hashable], key: Key) -> None:
        index = self._indexes[name]
        for term in terms:
            keys = index[term]
            del keys[key]
            if not keys:
                del index[term]


class Cache(Generic[T]):
    """`run` belongs into a task group: it ends by cancellation or by an error of a projection or subscriber.

    Errors of the store are waited out, for ever: `health` tells. Callbacks are told every object once as new,
    in the order of its changes, and not of changes that the projection does not show. After a time without a
    watch they see the difference, not what happened in between.
    """

    def __init__(
        self,
        store: Store,
        resource: Resource,
        *,
        projection: Callable[[Object], T],
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
        indexes: Mapping[str, Callable[[T], Iterable[Hashable]]] | None = None,
        page_size: int = PAGE_SIZE,
        clock: Callable[[], float] = time.monotonic,
        random: randomness.Random | None = None,
    ) -> None:
        self._store = store
        self._resource = resource
        self._project = projection
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._metadata_only = metadata_only
        self._page_size = page_size
        self._clock = clock
        self._random = random or randomness.Random()  # noqa: S311  spreads retries, keeps no secret
        self._holdings: _Index[T] = _Index(indexes or {})
        self._subscribers: list[Subscriber[T]] = []
        self._synced = asyncio.Event()
        self._resume = ""
        """Where a watch can go on; empty where only a list helps."""
        self._reached = 0
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._stale_lists = 0
        self._heard = clock()
        self._events = 0
        self._failures = 0
        self._error = ""

    # Reading.

    def __len__(self) -> int:
        return len(self._holdings)

    def get(self, name: str, *, namespace: str = "") -> T | None:
        held = self._holdings.get((namespace, name))
        return held.value if held is not None else None

    def keys(self) -> Iterator[Key]:
        return iter(self._holdings)

    def values(self) -> Iterator[T]:
        return self._holdings.values()

    def find(self, index: str, term: Hashable) -> list[T]:
        return self._holdings.find(index, term)

    def terms(self, index: str) -> list[Hashable]:
        return self._holdings.terms(index)

    def subscribe(self, subscriber: Subscriber[T]) -> Callable[[], None]:
        """Tells of everything held, at once, and of every change until the returned function is called."""
        for value in list(self._holdings.values()):
            subscriber(None, value)
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    @property
    def has_synced(self) -> bool:
        return self._synced.is_set()

    async def synced(self) -> None:
        """Returns when the first list is complete; bound it."""
        await self._synced.wait()

    async def reached(self, resource_version: str) -> None:
        """Returns when the cache is as new as this version, such as that of one's own write; bound it."""
        version = version_number(resource_version)
        if version <= self._reached:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = (version, future)
        self._waiters.append(waiter)
        try:
            await future
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    async def caught_up(self) -> None:
        """Returns when the cache holds what a list taken now does. Costs a list: for when nobody writes any more."""
        version, there, token = 0, set(), ""
        while True:
            page = await self._page(self._page_size, token)
            for body in page.items:
                key, number, _ = _identity(body)
                there.add(key)
                version = max(version, number)
            token = page.continue_token
            if not token:
                break
        await self.reached(str(version))
        gone = asyncio.Event()
        unsubscribe = self.subscribe(lambda _old, new: gone.set() if new is None else None)
        try:
            while any(key not in there for key in self._holdings):
                gone.clear()
                await gone.wait()
        finally:
            unsubscribe()

    @property
    def health(self) -> Health:
        return Health(
            synced=self.has_synced,
            objects=len(self._holdings),
            version=str(self._reached),
            silence=self._clock() - self._heard,
            failures=self._failures,
            error=self._error,
        )

    # Keeping up.

    async def run(self) -> None:
        while True:
            began, events, asked_to_wait = self._clock(), self._events, 0.0
            try:
                if not self._resume:
                    await self._list()
                await self._watch()
            except GoneError as error:
                self._resume = ""
                self._error = str(error)
            except ApiError as error:
                self._error = str(error)
                asked_to_wait = error.retry_after
            else:
                if self._events != events or self._clock() - began >= _LONG_LIVED:
                    continue  # the server ends every watch some time
            self._failures += 1
            if self._failures == 1:
                context = {logs.KIND: self._resource.kind, logs.NAMESPACE: self._namespace or ""}
                log.warning("watching failed, trying again", **context, **{logs.ERROR: self._error})
            ceiling = min(_LONGEST_BACKOFF, _FIRST_BACKOFF * 2 ** min(self._failures - 1, 16))
            await asyncio.sleep(asked_to_wait + self._random.uniform(0, ceiling))

    async def _list(self) -> None:
        limit: int | None = self._page_size
        for restart in range(_MOST_EXPIRED_PAGES + 1):
            if restart == _MOST_EXPIRED_PAGES:
                limit = None
            try:
                version, present = await self._list_pages(limit)
                break
            except GoneError:
                if limit is None:
                    raise
        for key in [key for key in self._holdings if key not in present]:
            self._tell(self._holdings.remove(key).value, None)
        self._heard_from(version)
        self._synced.set()

    async def _list_pages(self, limit: int | None) -> tuple[str, set[Key]]:
        """Each page is taken in before the next is asked for: memory holds one page of whole objects at most."""
        present: set[Key] = set()
        page = await self._page(limit, "")
        version = page.resource_version
        self._refuse_the_past(version)
        while True:
            for body in page.items:
                present.add(self._take(body, listed=True))
            token = page.continue_token
            del page
            if not token:
                return version, present
            await asyncio.sleep(0)  # a store in this process would not let others run in between
            page = await self._page(limit, token)

    async def _page(self, limit: int | None, token: str) -> ListPage:
        return await self._store.list(
            self._resource,
            namespace=self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            limit=limit,
            continue_token=token,
            metadata_only=self._metadata_only,
        )

    def _refuse_the_past(self, version: str) -> None:
        """A list that is older than what was seen would bring back the dead and delete the new."""
        if version_number(version) >= self._reached:
            self._stale_lists = 0
            return
        self._stale_lists += 1
        if self._stale_lists <= _MOST_STALE_LISTS:
            raise UnavailableError(
                f"the list of {self._resource.plural} is of version {version}, {self._reached} was seen before"
            )
        self._stale_lists = 0
        self._reached = 0

    async def _watch(self) -> None:
        watch = self._store.watch(
            self._resource,
            namespace=self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            resource_version=self._resume,
            metadata_only=self._metadata_only,
        )
        async with aclosing(watch) as events:
            async for event in events:
                self._follow(event)

    def _follow(self, event: WatchEvent) -> None:
        self._events += 1
        self._failures = 0  # not by a list: lists whose watch fails at once shall become rarer
        if event.kind is WatchEventKind.DELETED:
            self._drop(event.object)
        elif event.kind is not WatchEventKind.BOOKMARK:
            self._take(event.object, listed=False)
        self._heard_from(event.object["metadata"]["resourceVersion"])

    def _take(self, body: Object, *, listed: bool) -> Key:
        key, version, uid = _identity(body)
        held = self._holdings.get(key)
        if held is None:
            self._add(key, body, version, uid)
        elif held.uid != uid:
            # The one we knew went and another came while nobody looked.
            if listed or version > held.version:
                self._tell(self._holdings.remove(key).value, None)
                self._add(key, body, version, uid)
        elif (version != held.version) if listed else (not version or version > held.version):
            self._change(key, held, body, version)
        return key

    def _add(self, key: Key, body: Object, version: int, uid: str) -> None:
        value = self._project(body)
        self._holdings.put(key, _IndexedValue(value, version, uid))
        self._tell(None, value)

    def _change(self, key: Key, held: _IndexedValue[T], body: Object, version: int) -> None:
        value = self._project(body)
        same = value == held.value
        self._holdings.put(key, _IndexedValue(held.value if same else value, version, held.uid))
        if not same:
            self._tell(held.value, value)

    def _drop(self, body: Object) -> None:
        key, version, uid = _identity(body)
        held = self._holdings.get(key)
        if held is not None and held.uid == uid and (not version or version >= held.version):
            self._tell(self._holdings.remove(key).value, None)

    def _tell(self, old: T | None, new: T | None) -> None:
        for subscriber in tuple(self._subscribers):
            subscriber(old, new)

    def _heard_from(self, version: str) -> None:
        self._heard = self._clock()
        self._error = ""
        self._resume = version
        self._reached = max(self._reached, version_number(version))
        for waiter in [waiter for waiter in self._waiters if waiter[0] <= self._reached]:
            self._waiters.remove(waiter)
            if not waiter[1].done():
                waiter[1].set_result(None)


def _identity(body: Object) -> tuple[Key, int, str]:
    metadata = body["metadata"]
    key = (sys.intern(metadata.get("namespace", "")), metadata["name"])
    return key, version_number(metadata.get("resourceVersion", "")), metadata.get("uid", "")
