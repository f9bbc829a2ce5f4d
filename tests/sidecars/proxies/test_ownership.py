"""Whose a live object is: chains of owners, and what is remembered of them. With a real API server:
tests/cluster/test_live_resources.py.
"""

import asyncio
from typing import Any

import orjson
import pytest

from argocd.settings.argocd_cm import Settings
from kube.live.raw import RawAnswer
from kube.store import Object
from sidecars.proxies import discovery, ownership
from sidecars.proxies.discovery import Discovery
from sidecars.proxies.own_applications import OwnApplications
from sidecars.proxies.ownership import DEPTH, LookupLimit, LookupLimitError, Ownership
from sidecars.proxies.refusals import RefusedRequestError

APPLICATION: Object = {"metadata": {"name": "shop", "namespace": "argocd"}}
KIND = "/apis/chain.example.org/v1"
RESOURCES = {"resources": [{"name": "links", "kind": "Link", "namespaced": True}]}


class Api:
    """An API server of one kind, whose objects own one another."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.asked: list[str] = []
        self.troubled: dict[str, int] = {}
        """What is answered to a path instead."""

    async def request(self, method: str, path: str, **_how: Any) -> RawAnswer:
        self.asked.append(path)
        await asyncio.sleep(0)
        if path in self.troubled:
            return RawAnswer(self.troubled[path], "application/json", b"{}")
        if path == KIND:
            return RawAnswer(200, "application/json", orjson.dumps(RESOURCES))
        found = self.objects.get(path.rpartition("/")[2])
        return RawAnswer(404 if found is None else 200, "application/json", orjson.dumps(found or {}))

    def add(self, name: str, *, owner: str = "", mark: str = "") -> Object:
        metadata: dict[str, Any] = {"name": name, "namespace": "shop", "uid": f"uid of {name}"}
        if owner:
            metadata["ownerReferences"] = [reference(owner)]
        if mark:
            identity = f"{mark}:chain.example.org/Link:shop/{name}"
            metadata["annotations"] = {"argocd.argoproj.io/tracking-id": identity}
        made = {"apiVersion": "chain.example.org/v1", "kind": "Link", "metadata": metadata}
        self.objects[name] = made
        return made


def reference(name: str) -> Object:
    return {"apiVersion": "chain.example.org/v1", "kind": "Link", "name": name, "uid": f"uid of {name}"}


class Scene:
    def __init__(self, api: Api | None = None) -> None:
        self.now = 1000.0
        self.api = api or Api()
        self.applications = {("argocd", "shop"): APPLICATION}
        self.projects: dict[str, Object] = {}
        self.own = OwnApplications(
            namespace="argocd",
            find=lambda namespace, name: self.applications.get((namespace, name)),
            every=self.applications.values,
            project=self.projects.get,
            settings=Settings,
        )
        stand_in: Any = self.api
        self.discovery = Discovery(stand_in, clock=lambda: self.now)
        self.ownership = Ownership(
            stand_in,
            discovery=self.discovery,
            applications=self.own,
            namespace="argocd",
            clock=lambda: self.now,
        )

    async def owner(self, thing: Object, *, lookups: int = 128) -> Object | None:
        return await self.ownership.application_of(thing, LookupLimit(lookups))

    def chain(self, length: int) -> Object:
        """The last of so many, the first of which is marked."""
        made = self.api.add("link-1", mark="shop")
        for number in range(2, length + 1):
            made = self.api.add(f"link-{number}", owner=f"link-{number - 1}")
        return made


@pytest.fixture
def at() -> Scene:
    return Scene()


async def test_a_chain_is_followed_so_far_and_no_further(at: Scene) -> None:
    assert await at.owner(at.chain(DEPTH)) is APPLICATION
    at.now += ownership.OWNED_SECONDS
    assert await at.owner(at.chain(DEPTH + 1)) is None


async def test_a_mark_that_was_copied_from_another_object_says_nothing(at: Scene) -> None:
    copied = at.api.add("copy", mark="shop")
    assert await at.owner(copied) is APPLICATION
    copied["metadata"]["annotations"]["argocd.argoproj.io/tracking-id"] = (
        "shop:chain.example.org/Link:shop/first"
    )
    assert await at.owner(copied) is None
    assert await at.ownership.application_for(copied, LookupLimit()) is APPLICATION, (
        "of what is not there yet"
    )


async def test_a_circle_ends(at: Scene) -> None:
    at.api.add("one", owner="two")
    assert await at.owner(at.api.add("two", owner="one")) is None
    assert len(at.api.asked) <= DEPTH


async def test_an_owner_is_asked_for_once_in_a_while_and_by_its_uid(at: Scene) -> None:
    last = at.chain(3)
    assert await at.owner(last) is APPLICATION
    asked = len(at.api.asked)
    assert await at.owner(at.api.add("sister", owner="link-2")) is APPLICATION
    assert len(at.api.asked) == asked, "its owner is known"
    at.applications.clear()
    assert await at.owner(last) is None, "an Application that is gone owns nothing, whatever is remembered"
    forged = at.api.add("forged", owner="link-2")
    forged["metadata"]["ownerReferences"][0]["uid"] = "another"
    assert await at.owner(forged) is None
    at.now += ownership.OWNED_SECONDS
    await at.owner(last)
    assert len(at.api.asked) > asked + 1, "and looked at again"


async def test_one_request_asks_for_so_many_owners_and_no_more(at: Scene) -> None:
    many = at.api.add("many")
    many["metadata"]["ownerReferences"] = [reference(f"absent-{number}") for number in range(1000)]
    assert await at.owner(many) is None
    assert len(at.api.asked) <= 1 + ownership.OWNERS
    at.api.asked.clear()
    with pytest.raises(LookupLimitError):
        await at.owner(at.chain(4), lookups=1)
    assert len(at.api.asked) == 1
    assert await at.owner(at.chain(4)) is APPLICATION, "what was not found out is not remembered as nobody's"


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize("path", [KIND, f"{KIND}/namespaces/shop/links/link-1"])
async def test_an_api_server_in_trouble_does_not_make_an_object_nobodys(
    at: Scene, path: str, status: int
) -> None:
    thing = at.chain(2)
    at.api.troubled[path] = status
    with pytest.raises(RefusedRequestError, match=f"answered {status}") as refused:
        await at.owner(thing)
    assert refused.value.status == 503
    at.api.troubled.clear()
    assert await at.owner(thing) is APPLICATION, "at once: nothing of it is remembered"
    sister = at.api.add("sister", owner="link-1")
    references = sister["metadata"]["ownerReferences"]
    references.insert(0, {**reference("gone"), "apiVersion": "broken.example.org/v1"})
    at.api.troubled["/apis/broken.example.org/v1"] = status
    assert await at.owner(sister) is APPLICATION, "by another owner"


async def test_an_owner_that_may_not_be_read_is_none(at: Scene) -> None:
    thing = at.chain(2)
    at.api.troubled[f"{KIND}/namespaces/shop/links/link-1"] = 403
    assert await at.owner(thing) is None


async def test_what_is_remembered_is_bounded(at: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ownership, "REMEMBERED", 10)
    for number in range(50):
        await at.owner(at.api.add(f"thing-{number}", mark="shop"))
    assert len(at.ownership._known) == 10


async def test_of_many_who_ask_for_a_document_at_once_a_few_read_it(at: Scene) -> None:
    answers = await asyncio.gather(*(at.discovery.document(KIND, accept="*/*") for _ in range(50)))
    assert (len(at.api.asked), {answer.status for answer in answers}) == (discovery.AT_ONCE, {200})
    await at.discovery.document(KIND, accept="*/*")
    assert len(at.api.asked) == discovery.AT_ONCE
    at.now += discovery.REMEMBERED_SECONDS
    await at.discovery.document(KIND, accept="*/*")
    assert len(at.api.asked) == discovery.AT_ONCE + 1


async def test_documents_are_held_within_a_bound(at: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "MAX_BYTES", 500)
    for number in range(100):
        await at.discovery.document(KIND, accept=f"application/json;q={number}")
    assert at.discovery._bytes <= 500
    assert sum(len(held.answer.body) for held in at.discovery._held.values()) == at.discovery._bytes
