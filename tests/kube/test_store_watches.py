"""Watches: the same on both stores."""

import asyncio
from contextlib import aclosing

import pytest

from kube.errors import ApiError
from kube.resources import APP_PROJECTS, CONFIG_MAPS
from kube.store import PatchKind, Store, WatchEventKind
from tests.kube.objects import config_map, project, watching


async def test_a_watch_tells_of_what_comes_changes_and_goes(store: Store, home: str) -> None:
    async with watching(store, namespace=home) as watch:
        created = await store.create(CONFIG_MAPS, config_map("a", namespace=home, x="1"))
        changed = await store.replace(CONFIG_MAPS, {**created, "data": {"x": "2"}})
        await store.delete(CONFIG_MAPS, name="a", namespace=home)
        added, modified, deleted = [await watch.event() for _ in range(3)]
    assert (added.kind, added.object) == (WatchEventKind.ADDED, created)
    assert (modified.kind, modified.object) == (WatchEventKind.MODIFIED, changed)
    assert deleted.kind is WatchEventKind.DELETED
    assert deleted.object["data"] == {"x": "2"}
    version = int(deleted.object["metadata"]["resourceVersion"])
    assert version > int(changed["metadata"]["resourceVersion"])


async def test_a_watch_resumes_after_its_version(store: Store, home: str) -> None:
    first = await store.create(CONFIG_MAPS, config_map("a", namespace=home))
    await store.create(CONFIG_MAPS, config_map("b", namespace=home))
    await store.delete(CONFIG_MAPS, name="a", namespace=home)
    version = first["metadata"]["resourceVersion"]
    async with watching(store, namespace=home, resource_version=version) as watch:
        assert await watch.next() == ("ADDED", "b")
        assert await watch.next() == ("DELETED", "a")


@pytest.mark.parametrize("version", ["", "0"])
async def test_a_watch_without_a_version_begins_with_what_there_is(
    store: Store, home: str, version: str
) -> None:
    await store.create(APP_PROJECTS, project("a", namespace=home))
    async with watching(store, APP_PROJECTS, namespace=home, resource_version=version) as watch:
        assert await watch.next() == ("ADDED", "a")
        await store.create(APP_PROJECTS, project("b", namespace=home))
        assert await watch.next() == ("ADDED", "b")


async def test_a_watch_of_a_namespace_hears_of_no_other(store: Store, home: str) -> None:
    async with watching(store, namespace=home) as watch:
        await store.create(CONFIG_MAPS, config_map(f"x-{home}", namespace="default"))
        await store.delete(CONFIG_MAPS, name=f"x-{home}", namespace="default")
        await store.create(CONFIG_MAPS, config_map("a", namespace=home))
        assert await watch.next() == ("ADDED", "a")


async def test_a_watch_of_a_name_hears_of_no_other(store: Store, home: str) -> None:
    async with watching(store, namespace=home, field_selector="metadata.name=b") as watch:
        await store.create(CONFIG_MAPS, config_map("a", namespace=home))
        await store.create(CONFIG_MAPS, config_map("b", namespace=home))
        assert await watch.next() == ("ADDED", "b")


async def test_an_object_enters_and_leaves_a_watch_with_its_labels(store: Store, home: str) -> None:
    async def label(value: str | None) -> str:
        patch = {"metadata": {"labels": {"tier": value}}, "data": {"last": str(value)}}
        patched = await store.patch(CONFIG_MAPS, patch, name="a", namespace=home, kind=PatchKind.MERGE)
        return str(patched["metadata"]["resourceVersion"])

    async with watching(store, namespace=home, label_selector="tier=web") as watch:
        await store.create(CONFIG_MAPS, config_map("a", namespace=home))
        await label("web")
        left = await label("db")
        await label("web")
        await label(None)
        assert await watch.next() == ("ADDED", "a")
        gone = await watch.event()
        assert gone.kind is WatchEventKind.DELETED
        # The state that was last in view, under the version of the change that took it out.
        assert gone.object["data"] == {"last": "web"}
        assert gone.object["metadata"]["resourceVersion"] == left
        assert await watch.next() == ("ADDED", "a")
        assert await watch.next() == ("DELETED", "a")


async def test_labels_that_are_no_equality_select_too(store: Store, home: str) -> None:
    async with watching(store, namespace=home, label_selector="tier notin (db),owner") as watch:
        for name, labels in (("a", {}), ("b", {"owner": "x"}), ("c", {"owner": "x", "tier": "db"})):
            body = config_map(name, namespace=home)
            body["metadata"]["labels"] = labels
            await store.create(CONFIG_MAPS, body)
        await store.delete(CONFIG_MAPS, name="b", namespace=home)
        assert await watch.next() == ("ADDED", "b")
        assert await watch.next() == ("DELETED", "b")


async def test_many_watches_hear_the_same(store: Store, home: str) -> None:
    page = await store.list(CONFIG_MAPS, namespace=home)

    async def first_three() -> list[str]:
        names: list[str] = []
        watch = store.watch(CONFIG_MAPS, namespace=home, resource_version=page.resource_version)
        async with aclosing(watch) as events:
            async for event in events:
                if event.kind is not WatchEventKind.BOOKMARK:
                    names.append(event.object["metadata"]["name"])
                if len(names) == 3:
                    break
        return names

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(first_three()) for _ in range(10)]
        for name in ("a", "b", "c"):
            await store.create(CONFIG_MAPS, config_map(name, namespace=home))
    assert [task.result() for task in tasks] == [["a", "b", "c"]] * 10


async def test_a_version_that_is_none_is_refused(store: Store, home: str) -> None:
    with pytest.raises(ApiError, match="none"):
        async for _ in store.watch(CONFIG_MAPS, namespace=home, resource_version="none"):
            pass


async def test_a_selector_that_is_none_is_refused(store: Store, home: str) -> None:
    with pytest.raises(ApiError):
        async for _ in store.watch(
            CONFIG_MAPS, namespace=home, resource_version="1", label_selector="a in b"
        ):
            pass
