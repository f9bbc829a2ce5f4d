"""The cache on a store in trouble."""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

import pytest

from kube.cache import Cache
from kube.embedded import Call, EmbeddedStore
from kube.errors import (
    ApiError,
    ConflictError,
    ForbiddenError,
    GoneError,
    NotFoundError,
    TooManyRequestsError,
    UnavailableError,
)
from kube.projections import whole
from kube.resources import CONFIG_MAPS
from kube.store import ListPage, Object, Resource, WatchEvent, WatchEventKind
from tests.kube.objects import BOUND, config_map
from tests.kube.recorder import Impatient, Recorder
from tests.kube.test_cache import running
from tests.simulation.virtual_time import run

HOME = "default"


def _cache(store: Any, **options: Any) -> Cache[Object]:
    return Cache(store, CONFIG_MAPS, projection=whole, namespace=HOME, random=Impatient(), **options)


async def _fill(store: EmbeddedStore, *names: str) -> None:
    for name in names:
        await store.create(CONFIG_MAPS, config_map(name, namespace=HOME))


async def test_after_410_subscribers_see_the_difference_and_nothing_twice() -> None:
    store = EmbeddedStore()
    await _fill(store, "kept", "changed", "deleted", "reborn")
    cache = _cache(store)
    recorder = Recorder(cache)
    async with running(cache):
        del recorder.changes[:]
        # The watch ends, and before it can come back everything happens and is compacted.
        store.cut_watches()
        await store.replace(CONFIG_MAPS, config_map("changed", namespace=HOME, x="1"))
        await store.replace(CONFIG_MAPS, config_map("changed", namespace=HOME, x="2"))
        for name in ("deleted", "reborn"):
            await store.delete(CONFIG_MAPS, name=name, namespace=HOME)
        await _fill(store, "added", "reborn")
        await _fill(store, "passing")
        await store.delete(CONFIG_MAPS, name="passing", namespace=HOME)
        store.compact()
        last = await store.create(CONFIG_MAPS, config_map("last", namespace=HOME))
        await cache.reached(last["metadata"]["resourceVersion"])
        assert recorder.knows(await store.list(CONFIG_MAPS, namespace=HOME))
    assert sorted(recorder.changes) == sorted(
        [("+", "added"), ("*", "changed"), ("-", "deleted"), ("-", "reborn"), ("+", "reborn"), ("+", "last")]
    )


async def test_a_watch_that_ends_is_resumed_without_a_list() -> None:
    calls: list[str] = []

    async def note(call: Call) -> None:
        calls.append(call.verb)

    store = EmbeddedStore()
    store.hooks.faults = note
    cache = _cache(store)
    recorder = Recorder(cache)
    async with running(cache):
        for number in range(3):
            store.cut_watches(UnavailableError("cut") if number else None)
            await _fill(store, f"c{number}")
            await recorder.until(lambda: len(recorder.changes) == len(cache) == number + 1)  # noqa: B023  awaited here
    assert calls.count("list") == 1
    assert recorder.told_as_new() == ["c0", "c1", "c2"]


async def test_a_bookmark_saves_a_quiet_watch_from_compaction() -> None:
    store = EmbeddedStore(namespaces=["elsewhere"])
    cache = _cache(store)
    async with running(cache):
        last = await store.create(CONFIG_MAPS, config_map("other", namespace="elsewhere"))
        await asyncio.sleep(0)
        store.send_bookmarks()
        async with asyncio.timeout(BOUND):
            await cache.reached(last["metadata"]["resourceVersion"])
        lists = 0

        async def count(call: Call) -> None:
            nonlocal lists
            lists += call.verb == "list"

        store.hooks.faults = count
        store.compact()
        store.cut_watches()
        written = await store.create(CONFIG_MAPS, config_map("mine", namespace=HOME))
        await cache.reached(written["metadata"]["resourceVersion"])
        assert lists == 0


async def test_errors_are_waited_out_and_told_by_health() -> None:
    store = EmbeddedStore()
    await _fill(store, "a")
    refusals = 5

    async def refuse(call: Call) -> None:
        nonlocal refusals
        if call.verb == "list" and refusals:
            refusals -= 1
            seen.append(cache.health.failures)
            raise ForbiddenError("not yours")

    store.hooks.faults = refuse
    seen: list[int] = []
    cache = _cache(store)
    async with running(cache):
        assert len(cache) == 1
    assert seen == [0, 1, 2, 3, 4]
    assert cache.health.error == ""


def test_an_api_server_that_wants_to_be_left_alone_is() -> None:
    calls: list[float] = []

    async def refuse(_call: Call) -> None:
        calls.append(asyncio.get_running_loop().time())
        if len(calls) < 4:
            raise TooManyRequestsError("later", retry_after=7.0)

    async def program() -> None:
        store = EmbeddedStore()
        store.hooks.faults = refuse
        async with running(_cache(store)):
            pass

    run(program())
    assert calls[:4] == [0.0, 7.0, 14.0, 21.0]


async def test_pages_that_expire_are_read_again_and_in_the_end_in_one_piece() -> None:
    store = EmbeddedStore()
    await _fill(store, "a", "b", "c", "d")
    limits: list[int | None] = []

    class Hasty(EmbeddedStore):
        async def list(self, resource: Resource, **options: Any) -> ListPage:
            limits.append(options["limit"])
            page = await store.list(resource, **options)
            store.compact()  # before anybody can ask for the next page
            return page

        def watch(self, resource: Resource, **options: Any) -> AsyncGenerator[WatchEvent, None]:
            return store.watch(resource, **options)

    cache = _cache(Hasty(), page_size=2)
    recorder = Recorder(cache)
    async with running(cache):
        assert recorder.told_as_new() == ["a", "b", "c", "d"]
    assert limits == [2, 2, 2, 2, None]


class Lagging(EmbeddedStore):
    """Answers lists from another, older state when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.stale: list[ListPage] = []

    async def list(self, resource: Resource, **options: Any) -> ListPage:
        return self.stale.pop() if self.stale else await super().list(resource, **options)


async def test_a_list_from_the_past_deletes_nothing() -> None:
    store = Lagging()
    old = await store.list(CONFIG_MAPS, namespace=HOME)
    await _fill(store, "a", "b")
    cache = _cache(store)
    recorder = Recorder(cache)
    async with running(cache):
        store.stale = [old, old]
        store.cut_watches(GoneError("compacted"))
        await asyncio.sleep(0)
        last = await store.create(CONFIG_MAPS, config_map("c", namespace=HOME))
        await cache.reached(last["metadata"]["resourceVersion"])
    assert store.stale == []
    assert recorder.changes == [("+", "a"), ("+", "b"), ("+", "c")]


async def test_a_past_that_stays_is_believed_as_after_a_restore() -> None:
    store, restored = EmbeddedStore(), EmbeddedStore()
    await _fill(store, "a", "b")
    await _fill(restored, "b")

    class Swapped(EmbeddedStore):
        now = store

        async def list(self, resource: Resource, **options: Any) -> ListPage:
            return await self.now.list(resource, **options)

        def watch(self, resource: Resource, **options: Any) -> AsyncGenerator[WatchEvent, None]:
            return self.now.watch(resource, **options)

    front = Swapped()
    cache = _cache(front)
    recorder = Recorder(cache)
    async with running(cache):
        front.now = restored
        store.cut_watches(GoneError("no such history"))
        await recorder.until(lambda: len(cache) == 1)
        await _fill(restored, "c")
        await recorder.until(lambda: len(cache) == 2)
    assert recorder.changes[2:] == [("-", "b"), ("+", "b"), ("-", "a"), ("+", "c")]


async def test_events_that_come_twice_or_late_are_told_once() -> None:
    store = EmbeddedStore()
    first = await store.create(CONFIG_MAPS, config_map("a", namespace=HOME))
    second = await store.replace(CONFIG_MAPS, config_map("a", namespace=HOME, x="1"))
    done = asyncio.Event()

    class Stuttering(EmbeddedStore):
        async def list(self, resource: Resource, **options: Any) -> ListPage:
            return ListPage([], first["metadata"]["resourceVersion"])

        async def watch(self, resource: Resource, **options: Any) -> AsyncGenerator[WatchEvent, None]:
            for kind, body in (
                (WatchEventKind.ADDED, second),
                (WatchEventKind.ADDED, second),
                (WatchEventKind.MODIFIED, first),
                (WatchEventKind.DELETED, first),
            ):
                yield WatchEvent(kind, body)
            done.set()
            await asyncio.Event().wait()

    cache = _cache(Stuttering())
    recorder = Recorder(cache)
    async with running(cache):
        await done.wait()
        assert recorder.changes == [("+", "a")]
        assert cache.get("a", namespace=HOME) == second


async def test_one_of_another_uid_is_another_object() -> None:
    first = {"metadata": {"name": "a", "namespace": HOME, "uid": "1", "resourceVersion": "5"}}
    second = {"metadata": {"name": "a", "namespace": HOME, "uid": "2", "resourceVersion": "9"}}
    late = {"metadata": {"name": "a", "namespace": HOME, "uid": "1", "resourceVersion": "7"}}
    done = asyncio.Event()

    class Forgetful(EmbeddedStore):
        async def list(self, resource: Resource, **options: Any) -> ListPage:
            return ListPage([first], "6")

        async def watch(self, resource: Resource, **options: Any) -> AsyncGenerator[WatchEvent, None]:
            yield WatchEvent(WatchEventKind.MODIFIED, second)
            yield WatchEvent(WatchEventKind.MODIFIED, late)
            yield WatchEvent(WatchEventKind.DELETED, late)
            done.set()
            await asyncio.Event().wait()

    cache = _cache(Forgetful())
    recorder = Recorder(cache)
    async with running(cache):
        await done.wait()
    assert recorder.changes == [("+", "a"), ("-", "a"), ("+", "a")]
    assert cache.get("a", namespace=HOME) == second


async def test_after_a_restore_an_older_state_of_the_same_object_is_believed() -> None:
    def state(version: str) -> Object:
        return {"metadata": {"name": "a", "namespace": HOME, "uid": "1", "resourceVersion": version}}

    class Restored(EmbeddedStore):
        version = "9"

        async def list(self, resource: Resource, **options: Any) -> ListPage:
            return ListPage([state(self.version)], self.version)

        async def watch(self, resource: Resource, **options: Any) -> AsyncGenerator[WatchEvent, None]:
            if self.version == "9":
                self.version = "4"
                raise GoneError("etcd was restored")
            done.set()
            await asyncio.Event().wait()
            yield WatchEvent(WatchEventKind.BOOKMARK, {})

    done = asyncio.Event()
    cache = _cache(Restored())
    async with running(cache):
        await done.wait()
    assert cache.get("a", namespace=HOME) == state("4")


async def test_a_reader_that_is_too_slow_is_cut_off_and_loses_nothing() -> None:
    store = EmbeddedStore(watch_backlog=3)
    cache = _cache(store)
    recorder = Recorder(cache)
    async with running(cache):
        names = [f"c{number}" for number in range(20)]
        await _fill(store, *names)  # no turn for the cache in between
        await recorder.until(lambda: len(recorder.changes) == len(names))
    assert recorder.told_as_new() == names


@pytest.mark.parametrize("seed", range(25))
async def test_whatever_happens_in_the_end_the_cache_is_right(seed: int) -> None:
    """Random writes under random accidents: nothing is lost, and nothing told twice as new."""
    chance = random.Random(seed)
    store = EmbeddedStore(random=random.Random(seed), history=20, watch_backlog=5)
    calm = False

    async def strike(call: Call) -> None:
        if call.verb in {"list", "watch"}:
            await asyncio.sleep(0)
            if not calm and chance.random() < 0.3:
                raise chance.choice([UnavailableError("503"), GoneError("410"), ForbiddenError("403")])

    store.hooks.faults = strike
    cache = _cache(store, page_size=3)
    recorder = Recorder(cache)
    async with running(cache):
        for _ in range(300):
            await _random_write(store, chance)
            accident = chance.random()
            if accident < 0.05:
                store.compact()
            elif accident < 0.10:
                store.cut_watches(chance.choice([None, UnavailableError("cut"), GoneError("410")]))
            elif accident < 0.5:
                await asyncio.sleep(0)
        calm = True
        last = await store.create(CONFIG_MAPS, config_map("the-last", namespace=HOME))
        async with asyncio.timeout(BOUND):
            await cache.reached(last["metadata"]["resourceVersion"])
        assert recorder.knows(await store.list(CONFIG_MAPS, namespace=HOME))


async def _random_write(store: EmbeddedStore, chance: random.Random) -> None:
    body = config_map(f"c{chance.randrange(8)}", namespace=HOME, x=str(chance.random()))
    with suppress(NotFoundError, ConflictError, ApiError):
        match chance.randrange(3):
            case 0:
                await store.create(CONFIG_MAPS, body)
            case 1:
                await store.replace(CONFIG_MAPS, body)
            case _:
                await store.delete(CONFIG_MAPS, name=body["metadata"]["name"], namespace=HOME)
