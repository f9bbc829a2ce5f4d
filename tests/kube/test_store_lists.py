"""Lists, selectors and pages: the same on both stores."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from kube.errors import BadRequestError
from kube.resources import APP_PROJECTS, CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS
from kube.store import Resource, Store, WatchEvent, WatchEventKind
from tests.kube.objects import config_map, project


async def _make(store: Store, home: str, name: str, **labels: str) -> None:
    body = config_map(name, namespace=home)
    body["metadata"]["labels"] = labels
    await store.create(CONFIG_MAPS, body)


async def _names(store: Store, home: str, *, labels: str = "", fields: str = "") -> list[str]:
    page = await store.list(CONFIG_MAPS, namespace=home, label_selector=labels, field_selector=fields)
    return [item["metadata"]["name"] for item in page.items]


async def test_a_list_is_in_the_order_of_names(store: Store, home: str) -> None:
    for name in ("b", "a.c", "a-b", "a"):
        await _make(store, home, name)
    assert await _names(store, home) == ["a", "a-b", "a.c", "b"]


@pytest.mark.parametrize("resource", [CONFIG_MAPS, APP_PROJECTS])
async def test_the_items_of_a_list_say_what_they_are(store: Store, home: str, resource: Resource) -> None:
    await store.create(resource, {"metadata": {"name": "a", "namespace": home}} | _spec_of(resource))
    page = await store.list(resource, namespace=home)
    assert [(item["apiVersion"], item["kind"]) for item in page.items] == [
        (resource.api_version, resource.kind)
    ]
    assert page.items == [await store.get(resource, name="a", namespace=home)]


def _spec_of(resource: Resource) -> dict[str, object]:
    return {"spec": {}} if resource == APP_PROJECTS else {}


async def test_of_mere_metadata_neither_a_list_nor_a_watch_brings_data(store: Store, home: str) -> None:
    secret = {"metadata": {"name": "a", "namespace": home}, "data": {"key": "c2VjcmV0"}}
    await store.create(SECRETS, secret)
    page = await store.list(SECRETS, namespace=home, metadata_only=True)
    watch = store.watch(SECRETS, namespace=home, resource_version="0", metadata_only=True)
    async with asyncio.timeout(60), aclosing(watch) as events:
        seen = [event.object async for event in _first(events)]
    for found in (page.items, seen):
        assert [(one["apiVersion"], one["kind"], one["metadata"]["name"]) for one in found] == [
            ("v1", "Secret", "a")
        ]
        assert not any(one.keys() & {"data", "stringData", "type"} for one in found)


async def _first(events: AsyncGenerator[WatchEvent, None]) -> AsyncGenerator[WatchEvent, None]:
    async for event in events:
        if event.kind is WatchEventKind.ADDED:
            yield event
            return


async def test_an_empty_list_has_a_version(store: Store, home: str) -> None:
    page = await store.list(APP_PROJECTS, namespace=home)
    assert page.items == []
    assert page.continue_token == ""
    assert int(page.resource_version) > 0


async def test_a_list_of_all_namespaces_has_each_ones_objects(store: Store, home: str) -> None:
    await store.create(SERVICE_ACCOUNTS, {"metadata": {"name": "a", "namespace": home}})
    await store.create(SERVICE_ACCOUNTS, {"metadata": {"name": "a", "namespace": "default"}})
    try:
        page = await store.list(SERVICE_ACCOUNTS, field_selector="metadata.name=a")
        assert {item["metadata"]["namespace"] for item in page.items} == {home, "default"}
    finally:
        await store.delete(SERVICE_ACCOUNTS, name="a", namespace="default")


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", ["a", "b", "c", "d"]),
        ("tier=web", ["a", "b"]),
        ("tier==web", ["a", "b"]),
        ("tier!=web", ["c", "d"]),
        ("tier in (web, db)", ["a", "b", "c"]),
        ("tier in (web,)", ["a", "b"]),
        ("tier notin (web)", ["c", "d"]),
        ("tier", ["a", "b", "c"]),
        ("!tier", ["d"]),
        (" ! tier ", ["d"]),
        ("tier=web,size=2", ["b"]),
        ("size>1", ["b", "c"]),
        ("size<2", ["a"]),
        ("size = ", ["d"]),
        ("size in (1,2),tier", ["a", "b"]),
        ("example.com/x=y", ["d"]),
    ],
)
async def test_label_selectors_select(store: Store, home: str, selector: str, expected: list[str]) -> None:
    await _make(store, home, "a", tier="web", size="1")
    await _make(store, home, "b", tier="web", size="2")
    await _make(store, home, "c", tier="db", size="10")
    await _make(store, home, "d", **{"example.com/x": "y", "size": ""})
    assert await _names(store, home, labels=selector) == expected


@pytest.mark.parametrize(
    "selector",
    ["a=b,", ",", "=b", "a in b", "a in (b", "a > b", "a b", "a=b c", "!a=b", "a in (b))", "x/y/z", "a=-"],
)
async def test_a_label_selector_that_is_none_is_refused(store: Store, home: str, selector: str) -> None:
    with pytest.raises(BadRequestError):
        await _names(store, home, labels=selector)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("metadata.name=a", ["a"]),
        ("metadata.name==a", ["a"]),
        ("metadata.name!=a", ["b"]),
        ("metadata.name=a,metadata.name=b", []),
        ("metadata.name=a,metadata.name!=a", []),
        ("metadata.namespace!=default", ["a", "b"]),
        ("metadata.namespace=default", []),
    ],
)
async def test_field_selectors_select_by_name_and_namespace(
    store: Store, home: str, selector: str, expected: list[str]
) -> None:
    await _make(store, home, "a")
    await _make(store, home, "b")
    assert await _names(store, home, fields=selector) == expected


@pytest.mark.parametrize("selector", ["spec.project=a", "metadata.name"])
async def test_other_field_selectors_are_refused(store: Store, home: str, selector: str) -> None:
    with pytest.raises(BadRequestError):
        await store.list(APP_PROJECTS, namespace=home, field_selector=selector)


async def test_pages_together_are_the_list_as_it_was_at_the_first(store: Store, home: str) -> None:
    for number in range(7):
        await store.create(APP_PROJECTS, project(f"p{number}", namespace=home))
    page = await store.list(APP_PROJECTS, namespace=home, limit=3)
    version, pages = page.resource_version, [page.items]
    await store.delete(APP_PROJECTS, name="p5", namespace=home)
    await store.create(APP_PROJECTS, project("p4a", namespace=home))
    while page.continue_token:
        page = await store.list(APP_PROJECTS, namespace=home, limit=3, continue_token=page.continue_token)
        assert page.resource_version == version
        pages.append(page.items)
    assert [[item["metadata"]["name"] for item in items] for items in pages] == [
        ["p0", "p1", "p2"],
        ["p3", "p4", "p5"],
        ["p6"],
    ]


async def test_a_page_holds_as_many_selected_objects_as_asked_for(store: Store, home: str) -> None:
    for number in range(6):
        await _make(store, home, f"c{number}", odd=str(number % 2))
    page = await store.list(CONFIG_MAPS, namespace=home, label_selector="odd=1", limit=2)
    assert [item["metadata"]["name"] for item in page.items] == ["c1", "c3"]
    page = await store.list(
        CONFIG_MAPS, namespace=home, label_selector="odd=1", limit=2, continue_token=page.continue_token
    )
    assert [item["metadata"]["name"] for item in page.items] == ["c5"]
    assert page.continue_token == ""


async def test_a_continue_token_that_is_none_is_refused(store: Store, home: str) -> None:
    with pytest.raises(BadRequestError):
        await store.list(CONFIG_MAPS, namespace=home, limit=1, continue_token="no-token")
