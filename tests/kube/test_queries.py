"""Questions on top of a store: what may be missing, and lists that outlive their version."""

import asyncio
from contextlib import aclosing

import pytest

from kube import queries
from kube.embedded import EmbeddedStore
from kube.errors import ForbiddenError, GoneError
from kube.resources import CONFIG_MAPS
from kube.store import ListPage, Object, Resource, Store
from tests.kube.objects import config_map

HOME = "default"
NAMES = ["a", "b", "c", "d", "e"]


class Compacted(EmbeddedStore):
    """Forgets its past before each of the pages that are numbered in `before`."""

    def __init__(self, *, before: set[int], resumable: bool = True) -> None:
        super().__init__()
        self._before, self._resumable = before, resumable
        self.asked = 0

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        limit: int | None = None,
        continue_token: str = "",
        metadata_only: bool = False,
    ) -> ListPage:
        self.asked += 1
        if self.asked in self._before:
            self.compact()
        try:
            return await super().list(
                resource,
                namespace=namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                limit=limit,
                continue_token=continue_token,
                metadata_only=metadata_only,
            )
        except GoneError as error:
            if not self._resumable:
                error.status = {}
            raise


async def fill(store: Store, home: str) -> None:
    for name in NAMES:
        await store.create(CONFIG_MAPS, config_map(name, namespace=home))


async def listed(store: Store, home: str) -> list[list[str]]:
    pages = queries.pages(store, CONFIG_MAPS, namespace=home, limit=2)
    return [[item["metadata"]["name"] for item in page] async for page in pages]


async def test_what_is_there_is_found_and_what_is_not_is_none(store: Store, home: str) -> None:
    await fill(store, home)
    found = await queries.find(store, CONFIG_MAPS, name="a", namespace=home)
    assert found == await store.get(CONFIG_MAPS, name="a", namespace=home)
    assert await queries.find(store, CONFIG_MAPS, name="z", namespace=home) is None


async def test_another_error_than_not_found_is_raised() -> None:
    class Forbidding(EmbeddedStore):
        async def get(self, resource: Resource, *, name: str, namespace: str | None = None) -> Object:
            raise ForbiddenError("not for you")

    with pytest.raises(ForbiddenError):
        await queries.find(Forbidding(), CONFIG_MAPS, name="a", namespace=HOME)


async def test_every_page_comes_once_and_in_order(store: Store, home: str) -> None:
    await fill(store, home)
    assert await listed(store, home) == [["a", "b"], ["c", "d"], ["e"]]


async def test_pages_take_what_the_selector_takes(store: Store, home: str) -> None:
    await fill(store, home)
    chosen = config_map("f", namespace=home)
    chosen["metadata"]["labels"] = {"chosen": "yes"}
    await store.create(CONFIG_MAPS, chosen)
    pages = queries.pages(store, CONFIG_MAPS, namespace=home, label_selector="chosen=yes")
    assert [item["metadata"]["name"] async for page in pages for item in page] == ["f"]


@pytest.mark.parametrize("before", [{2}, {3}, {2, 4}])
async def test_a_list_whose_version_expires_on_the_way_goes_on_where_it_was(before: set[int]) -> None:
    store = Compacted(before=before)
    await fill(store, HOME)
    assert await listed(store, HOME) == [["a", "b"], ["c", "d"], ["e"]]
    assert store.asked == 3 + len(before)


async def test_the_rest_of_a_list_that_expired_is_as_new_as_the_store() -> None:
    store = Compacted(before={2})
    await fill(store, HOME)
    found: list[str] = []
    async with aclosing(queries.pages(store, CONFIG_MAPS, namespace=HOME, limit=2)) as pages:
        async for page in pages:
            if not found:
                await store.delete(CONFIG_MAPS, name="c", namespace=HOME)
            found += [item["metadata"]["name"] for item in page]
    assert found == ["a", "b", "d", "e"]


async def test_a_list_that_expired_and_cannot_go_on_is_an_error() -> None:
    store = Compacted(before={2}, resumable=False)
    await fill(store, HOME)
    with pytest.raises(GoneError):
        await listed(store, HOME)


async def test_a_reader_that_leaves_early_leaves_no_question_behind() -> None:
    store = EmbeddedStore()
    await fill(store, HOME)
    async with aclosing(queries.pages(store, CONFIG_MAPS, namespace=HOME, limit=2)) as pages:
        async for _ in pages:
            break
    await asyncio.sleep(0)
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("list ")]
