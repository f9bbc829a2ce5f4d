"""Lists in pages: what is forbidden, what expires on the way, and a reader that leaves early."""

import asyncio
from collections.abc import Iterable
from contextlib import aclosing
from datetime import date
from typing import Any

import pytest

from argocd.engine.directory import Shelf
from argocd.judging.configuration import Configuration
from checks import survey as surveying
from checks.scan import Scan
from checks.survey import Listing, survey
from kube.errors import ForbiddenError, GoneError, NotFoundError
from kube.resources import APPLICATION_SETS, APPLICATIONS, SERVICE_ACCOUNTS
from kube.store import ListPage, Object, Resource


class Shelves:
    """Answers lists from memory; `forbidden` are (plural, namespace) pairs that are not for us to see."""

    def __init__(self, *, forbidden: Iterable[tuple[str, str | None]] = (), **held: list[Object]) -> None:
        self.forbidden, self.held = set(forbidden), held
        self.expires = False
        self.asked: list[str] = []
        self.waiting: asyncio.Event | None = None

    async def get(self, resource: Resource, *, name: str, namespace: str | None = None) -> Object:
        raise NotFoundError(name)

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        continue_token: str = "",
        limit: int = 0,
        **_: Any,
    ) -> ListPage:
        if (resource.plural, namespace) in self.forbidden:
            raise ForbiddenError(f"{resource.plural} is forbidden")
        self.asked.append(continue_token)
        if continue_token and self.waiting is not None:
            await self.waiting.wait()
        if continue_token and self.expires:
            self.expires = False
            raise GoneError("expired", status={"metadata": {"continue": continue_token}})
        start = int(continue_token or 0)
        items = self.held.get(resource.plural, [])
        end = start + limit
        return ListPage(items[start:end], "1", str(end) if end < len(items) else "")


def shelves(**held: Any) -> Any:
    """As a store: only what lists need is there."""
    return Shelves(**held)


def applications(count: int) -> list[Object]:
    return [
        {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Application",
            "metadata": {"name": f"app-{number}", "namespace": "argocd"},
            "spec": {"project": "none", "syncPolicy": {"syncOptions": ["createnamespace=true"]}},
        }
        for number in range(count)
    ]


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surveying, "PAGE", 2)


async def names(listing: Listing) -> list[str]:
    return [item["metadata"]["name"] async for page in listing.everywhere(APPLICATIONS) for item in page]


async def test_every_page_comes_once_and_in_order() -> None:
    listing = Listing(shelves(applications=applications(5)), "argocd", [])
    assert await names(listing) == [f"app-{number}" for number in range(5)]


async def test_a_list_that_expires_goes_on_with_a_newer_version() -> None:
    store = shelves(applications=applications(5))
    store.expires = True
    assert len(await names(Listing(store, "argocd", []))) == 5


async def test_the_next_page_is_asked_for_early_and_dropped_with_its_reader() -> None:
    store = shelves(applications=applications(5))
    store.waiting = asyncio.Event()
    async with aclosing(Listing(store, "argocd", []).pages(APPLICATIONS)) as pages:
        async for _ in pages:
            await asyncio.sleep(0)
            break
    await asyncio.sleep(0)
    assert store.asked == ["", "2"]
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("list ")]


async def test_without_the_right_to_all_namespaces_argo_cds_is_seen() -> None:
    notes: list[str] = []
    store = shelves(forbidden={("applications", None)}, applications=applications(3))
    assert len(await names(Listing(store, "argocd", notes))) == 3
    assert notes == ["applications are only seen in argocd: no right to list all"]


async def test_what_is_not_seen_is_not_known() -> None:
    plural = SERVICE_ACCOUNTS.plural
    known = await survey(shelves(forbidden={(plural, None), (plural, "argocd")}), Configuration())
    assert known.directory.service_account("a", "b") is None
    assert known.directory.project("web") == {}
    assert any(str(Shelf.ACCOUNTS) in note for note in known.notes)


async def test_a_scan_says_that_it_did_not_see_everything() -> None:
    async def scanned(forbidden: set[tuple[str, str | None]]) -> Any:
        store = shelves(forbidden=forbidden, applications=applications(3))
        return await Scan(store, Configuration(), today=date(2026, 1, 1)).run()

    whole = await scanned(set())
    assert (whole.complete, whole.result.objects, whole.result.unreadable) == (True, 3, [])
    part = await scanned({("applications", None)})
    assert (part.complete, part.result.objects) == (False, 3)
    plural = APPLICATION_SETS.plural
    less = await scanned({(plural, None), (plural, "argocd")})
    assert (less.complete, [str(one.place) for one in less.result.unreadable]) == (False, [plural])
