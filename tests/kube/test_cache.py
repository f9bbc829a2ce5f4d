"""The cache on both stores."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kube.cache import Cache
from kube.projections import shared, whole, without_managed_fields
from kube.resources import APPLICATIONS, CONFIG_MAPS
from kube.store import Object, PatchKind, Store
from tests.kube.objects import BOUND, application, config_map
from tests.kube.recorder import Impatient, Recorder


@asynccontextmanager
async def running(cache: Cache[Any]) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(cache.run())
        async with asyncio.timeout(BOUND):
            await cache.synced()
        yield
        task.cancel()


def _cache(store: Store, home: str, **options: Any) -> Cache[Object]:
    options = {"projection": whole, "namespace": home, "random": Impatient(), **options}
    return Cache(store, CONFIG_MAPS, **options)


async def test_a_cache_has_what_the_store_has(store: Store, home: str) -> None:
    for number in range(5):
        await store.create(CONFIG_MAPS, config_map(f"c{number}", namespace=home))
    cache = _cache(store, home, page_size=2)
    assert not cache.has_synced
    async with running(cache):
        page = await store.list(CONFIG_MAPS, namespace=home)
        assert len(cache) == 5
        assert list(cache.values()) == page.items
        assert cache.get("c3", namespace=home) == page.items[3]
        assert cache.get("c9", namespace=home) is None
        assert set(cache.keys()) == {(home, f"c{number}") for number in range(5)}


async def test_subscribers_are_told_what_comes_changes_and_goes(store: Store, home: str) -> None:
    await store.create(CONFIG_MAPS, config_map("a", namespace=home))
    cache = _cache(store, home)
    recorder = Recorder(cache)
    async with running(cache):
        late = Recorder(cache)
        assert late.changes == recorder.changes == [("+", "a")]
        await store.create(CONFIG_MAPS, config_map("b", namespace=home))
        await store.replace(CONFIG_MAPS, config_map("a", namespace=home, x="1"))
        await store.delete(CONFIG_MAPS, name="a", namespace=home)
        await recorder.until(lambda: len(recorder.changes) == 4)
        assert recorder.changes == late.changes == [("+", "a"), ("+", "b"), ("*", "a"), ("-", "a")]


async def test_a_subscriber_that_leaves_hears_no_more(store: Store, home: str) -> None:
    cache = _cache(store, home)
    recorder = Recorder(cache)
    told: list[Object | None] = []
    leave = cache.subscribe(lambda _, new: told.append(new))
    async with running(cache):
        leave()
        await store.create(CONFIG_MAPS, config_map("a", namespace=home))
        await recorder.until(lambda: bool(recorder.changes))
    assert told == []


async def test_an_index_finds_and_follows(store: Store, home: str) -> None:
    def by_project(app: Object) -> list[str]:
        return [app["spec"]["project"]]

    for name, project in (("a", "web"), ("b", "web"), ("c", "db")):
        await store.create(APPLICATIONS, application(name, namespace=home, project=project))
    cache: Cache[Object] = Cache(
        store, APPLICATIONS, projection=whole, namespace=home, indexes={"project": by_project}
    )

    def names(project: str) -> list[str]:
        return [app["metadata"]["name"] for app in cache.find("project", project)]

    async with running(cache):
        assert names("web") == ["a", "b"]
        patch = {"spec": {"project": "db"}}
        moved = await store.patch(APPLICATIONS, patch, name="a", namespace=home, kind=PatchKind.MERGE)
        await cache.reached(moved["metadata"]["resourceVersion"])
        await store.delete(APPLICATIONS, name="b", namespace=home)
        recorder = Recorder(cache)
        await recorder.until(lambda: len(cache) == 2)
        assert names("web") == []
        assert names("db") == ["c", "a"]
        assert cache.terms("project") == ["db"]


async def test_a_projection_is_all_that_is_kept_and_all_that_is_told(store: Store, home: str) -> None:
    told: list[tuple[str | None, str | None]] = []
    cache: Cache[str] = Cache(
        store, CONFIG_MAPS, projection=lambda body: body["data"]["x"], namespace=home, random=Impatient()
    )
    cache.subscribe(lambda old, new: told.append((old, new)))
    async with running(cache):
        await store.create(CONFIG_MAPS, config_map("a", namespace=home, x="1", y="1"))
        await store.replace(CONFIG_MAPS, config_map("a", namespace=home, x="1", y="2"))
        last = await store.replace(CONFIG_MAPS, config_map("a", namespace=home, x="2", y="2"))
        await cache.reached(last["metadata"]["resourceVersion"])
        assert list(cache.values()) == ["2"]
    assert told == [(None, "1"), ("1", "2")]


async def test_selectors_bound_a_cache(store: Store, home: str) -> None:
    for name, tier in (("a", "web"), ("b", "db")):
        body = config_map(name, namespace=home)
        body["metadata"]["labels"] = {"tier": tier}
        await store.create(CONFIG_MAPS, body)
    cache = _cache(store, home, label_selector="tier=web")
    recorder = Recorder(cache)
    async with running(cache):
        for name, tier in (("a", "db"), ("b", "web")):
            patch = {"metadata": {"labels": {"tier": tier}}}
            await store.patch(CONFIG_MAPS, patch, name=name, namespace=home, kind=PatchKind.MERGE)
        await recorder.until(lambda: len(recorder.changes) == 3)
    assert recorder.changes == [("+", "a"), ("-", "a"), ("+", "b")]


async def test_a_cache_waits_for_ones_own_write(store: Store, home: str) -> None:
    cache = _cache(store, home)
    async with running(cache):
        written = await store.create(CONFIG_MAPS, config_map("a", namespace=home))
        async with asyncio.timeout(BOUND):
            await cache.reached(written["metadata"]["resourceVersion"])
        assert cache.get("a", namespace=home) == written
        await cache.reached(written["metadata"]["resourceVersion"])


async def test_health_tells_of_contact(store: Store, home: str) -> None:
    now = 100.0
    cache = _cache(store, home, clock=lambda: now)
    assert not cache.health.synced
    async with running(cache):
        now = 107.0
        health = cache.health
        assert health.synced
        assert health.silence == 7.0
        assert health.objects == 0
        assert health.failures == 0
        assert health.error == ""
        await store.create(CONFIG_MAPS, config_map("a", namespace=home))
        recorder = Recorder(cache)
        await recorder.until(lambda: len(cache) == 1)
        assert cache.health.silence == 0.0


async def test_an_error_of_a_subscriber_ends_the_run(store: Store, home: str) -> None:
    def fail(old: Object | None, new: Object | None) -> None:
        raise LookupError("a subscriber's mistake")

    cache = _cache(store, home)
    cache.subscribe(fail)
    await store.create(CONFIG_MAPS, config_map("a", namespace=home))
    with pytest.raises(LookupError):
        await cache.run()


async def test_projections_for_memory_keep_the_meaning(store: Store, home: str) -> None:
    await store.create(CONFIG_MAPS, config_map("a", namespace=home, x="1"))
    cache = _cache(store, home, projection=shared(without_managed_fields))
    async with running(cache):
        expected = await store.get(CONFIG_MAPS, name="a", namespace=home)
        del expected["metadata"]["managedFields"]
        assert cache.get("a", namespace=home) == expected
