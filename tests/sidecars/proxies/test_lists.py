"""Pages of live objects: complete, of a bounded size, and in the form that was asked for. With a real API server:
tests/cluster/test_live_resources.py.
"""

from typing import Any

import orjson
import pytest

from kube.live.raw import RawAnswer
from kube.store import Object
from sidecars.proxies import ownership
from sidecars.proxies.api_paths import parse_path
from sidecars.proxies.lists import PAGE, ListedObjects
from sidecars.proxies.refusals import RefusedRequestError
from sidecars.proxies.statuses import status_json
from sidecars.wire.proxy_payloads import ResourceRequest
from tests.sidecars.proxies.test_ownership import Api, Scene, reference

PATH = "/apis/chain.example.org/v1/namespaces/shop/links"
JSON = "application/json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
DEPLOYER = "system:serviceaccount:shop:deployer"
OTHER = "system:serviceaccount:shop:other"


class Listing(Api):
    """Lists what is in `listed`, in pages, as an API server does."""

    def __init__(self) -> None:
        super().__init__()
        self.listed: list[Object] = []
        self.queries: list[dict[str, str]] = []
        self.may_list: set[str] = set()

    async def request(self, method: str, path: str, **how: Any) -> RawAnswer:
        if path != PATH:
            return await super().request(method, path, **how)
        query, account = how["query"], how["impersonate"]
        self.queries.append(query)
        if account and account not in self.may_list:
            return RawAnswer(403, "application/json", status_json(403, f'User "{account}" cannot list'))
        start, limit = int(query.get("continue", "0")), int(query["limit"])
        end = start + limit
        metadata: dict[str, Any] = {"resourceVersion": "7"}
        if end < len(self.listed):
            metadata |= {"continue": str(end), "remainingItemCount": len(self.listed) - end}
        items = self.listed[start:end]
        page: dict[str, Any] = {"kind": "LinkList", "metadata": metadata, "items": items}
        if "as=Table" in how["accept"]:
            rows = [{"cells": [item["metadata"]["name"]], "object": item} for item in items]
            page = {"kind": "Table", "metadata": metadata, "rows": rows}
        return RawAnswer(200, "application/json", orjson.dumps(page))


class ListScene(Scene):
    def __init__(self) -> None:
        super().__init__(Listing())
        self.api: Listing
        api: Any = self.api
        self.lists = ListedObjects(api, ownership=self.ownership, applications=self.own)

    def add(self, name: str, **how: str) -> Object:
        made = self.api.add(name, **how)
        self.api.listed.append(made)
        return made

    def add_application(self, name: str, *, account: str) -> None:
        """In a project of its own."""
        entry = {"server": "*", "namespace": "*", "defaultServiceAccount": account}
        self.projects[name] = {"metadata": {"name": name}, "spec": {"destinationServiceAccounts": [entry]}}
        spec = {"project": name, "destination": {"namespace": "shop"}}
        self.applications["argocd", name] = {
            "metadata": {"name": name, "namespace": "argocd"},
            "spec": spec,
        }

    async def page(self, *, accept: str = JSON, account: str = "", **params: str) -> Any:
        request = ResourceRequest(params=params, accept=accept, impersonate_user=account)
        answer = await self.lists.page(parse_path(PATH), request)
        found = orjson.loads(answer.body)
        if answer.status != 200:
            raise RefusedRequestError(found["message"], status=answer.status)
        return found

    async def every(self, **params: str) -> tuple[list[str], int]:
        """The names of all pages, and how many pages there were."""
        found, pages, token = [], 0, ""
        while pages < 100:
            page = await self.page(**params, **({"continue": token} if token else {}))
            found += [item["metadata"]["name"] for item in page["items"]]
            pages += 1
            token = page["metadata"].get("continue", "")
            if not token:
                return found, pages
        raise AssertionError("no end")


@pytest.fixture
def at() -> ListScene:
    return ListScene()


async def test_items_of_more_owners_than_are_looked_up_come_with_the_next_page(at: ListScene) -> None:
    for number in range(200):
        at.api.add(f"owner-{number}", mark="shop")
        at.add(f"item-{number}", owner=f"owner-{number}")
    page = await at.page()
    assert len(page["items"]) == ownership.LOOKUPS
    assert page["metadata"]["continue"] == str(ownership.LOOKUPS)
    at.ownership._known.clear()
    found, pages = await at.every()
    assert (found, pages) == ([f"item-{number}" for number in range(200)], 2)


async def test_an_item_whose_owners_have_no_end_is_left_out_and_holds_nobody_up(
    at: ListScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership.LookupLimit.__init__, "__defaults__", (4,))
    at.add("before", mark="shop")
    many = at.add("many")
    many["metadata"]["ownerReferences"] = [reference(f"absent-{number}") for number in range(8)]
    at.add("behind", mark="shop")
    found, pages = await at.every()
    assert (found, pages) == (["before", "behind"], 3)


@pytest.mark.parametrize(
    ("told", "asked"),
    [("", PAGE), ("0", PAGE), ("10", 10), ("500", PAGE), ("501", PAGE), ("999999999", PAGE)],
)
async def test_a_page_has_five_hundred_items_at_most(at: ListScene, told: str, asked: int) -> None:
    for number in range(700):
        at.add(f"item-{number}", mark="shop")
    page = await at.page(**({"limit": told} if told else {}))
    assert (len(page["items"]), at.api.queries[0]["limit"]) == (asked, str(asked))
    assert page["metadata"] == {"resourceVersion": "7", "continue": str(asked)}, (
        "not how many of others are left"
    )
    found, _ = await at.every(limit=told or "500")
    assert found == [f"item-{number}" for number in range(700)]


@pytest.mark.parametrize("told", ["-1", "1e3", "many", "9" * 10, "٣"])
async def test_a_limit_that_is_no_number_is_refused(at: ListScene, told: str) -> None:
    with pytest.raises(RefusedRequestError, match="is no number"):
        await at.page(limit=told)


async def test_any_version_is_the_newest_for_which_there_are_pages(at: ListScene) -> None:
    await at.page(resourceVersion="0", resourceVersionMatch="NotOlderThan")
    await at.page(resourceVersion="5", resourceVersionMatch="Exact")
    assert at.api.queries == [
        {"limit": "500"},
        {"limit": "500", "resourceVersion": "5", "resourceVersionMatch": "Exact"},
    ]


async def test_a_table_has_the_rows_of_the_same_items(at: ListScene) -> None:
    at.add("mine", mark="shop")
    at.add("others", mark="elsewhere")
    at.add("last", mark="shop")
    table = await at.page(accept=TABLE, limit="2")
    assert (table["kind"], [row["cells"] for row in table["rows"]]) == ("Table", [["mine"]])
    pinned = {"resourceVersion": "7", "resourceVersionMatch": "Exact"}
    assert at.api.queries == [{"limit": "2"}, {"limit": "2", **pinned}], "of the same moment"
    rest = await at.page(accept=TABLE, limit="2", **{"continue": table["metadata"]["continue"]})
    assert [row["cells"] for row in rest["rows"]] == [["last"]]
    assert "resourceVersion" not in at.api.queries[-1], "a token is of one moment already"


@pytest.mark.parametrize("limit", ["1", "2", "500"])
@pytest.mark.parametrize("accept", [JSON, TABLE])
async def test_a_wrong_account_is_refused_however_many_pages_there_are(
    at: ListScene, limit: str, accept: str
) -> None:
    at.add_application("priced", account="deployer")
    for number in range(3):
        at.add(f"item-{number}", mark="priced")
    for account in (OTHER, "system:admin"):
        with pytest.raises(RefusedRequestError, match=f"name other accounts than {account}") as refused:
            await at.page(limit=limit, accept=accept, account=account)
        assert refused.value.status == 403
    assert at.api.queries == [], "the API server is not asked on its behalf"


@pytest.mark.parametrize("limit", ["1", "2", "500"])
@pytest.mark.parametrize("accept", [JSON, TABLE])
async def test_an_account_without_rights_is_refused_however_few_of_a_page_are_its_own(
    at: ListScene, limit: str, accept: str
) -> None:
    at.add_application("priced", account="deployer")
    at.add_application("others", account="other")
    at.add("item-0", mark="others")
    for number in range(1, 3):
        at.add(f"item-{number}", mark="priced")
    with pytest.raises(RefusedRequestError, match=f'User "{DEPLOYER}" cannot list') as refused:
        await at.page(limit=limit, accept=accept, account=DEPLOYER)
    assert refused.value.status == 403


async def test_an_account_gets_its_items_of_every_page_also_behind_pages_of_others(at: ListScene) -> None:
    at.add_application("priced", account="deployer")
    at.add_application("others", account="other")
    at.api.may_list = {DEPLOYER, OTHER}
    for number in range(6):
        at.add(f"item-{number}", mark="others" if number < 4 else "priced")
    assert await at.every(limit="2", account=DEPLOYER) == (["item-4", "item-5"], 3)
    assert await at.every(limit="2", account=OTHER) == ([f"item-{number}" for number in range(4)], 3)


@pytest.mark.parametrize("limit", ["1", "2", "500"])
@pytest.mark.parametrize("accept", [JSON, TABLE])
async def test_an_account_none_of_whose_items_are_listed_is_refused_however_many_pages_there_are(
    at: ListScene, limit: str, accept: str
) -> None:
    at.add_application("priced", account="deployer")
    at.add_application("others", account="other")
    at.api.may_list = {DEPLOYER, OTHER}
    at.add("nobodys")
    for number in range(3):
        at.add(f"item-{number}", mark="others")
    with pytest.raises(RefusedRequestError, match=f"name other accounts than {DEPLOYER}") as refused:
        await at.page(limit=limit, accept=accept, account=DEPLOYER)
    assert refused.value.status == 403
    assert await at.every(account=OTHER) == ([f"item-{number}" for number in range(3)], 1)


async def test_what_is_behind_the_first_page_is_looked_at_in_large_pages_until_one_item_is_the_accounts(
    at: ListScene,
) -> None:
    at.add_application("priced", account="deployer")
    at.add_application("others", account="other")
    at.api.may_list = {DEPLOYER}
    for number in range(3 * PAGE):
        at.add(f"item-{number}", mark="priced" if number == PAGE + 1 else "others")
    page = await at.page(limit="1", account=DEPLOYER)
    assert (page["items"], page["metadata"]["continue"]) == ([], "1"), "the page that was asked for"
    asked = [(query.get("continue"), query["limit"]) for query in at.api.queries]
    assert asked == [(None, "1"), (None, "1"), ("1", "500"), ("501", "500")]


async def test_nothing_is_refused_where_nothing_is_another_accounts(at: ListScene) -> None:
    at.add_application("priced", account="deployer")
    at.api.may_list = {DEPLOYER}
    for number in range(3):
        at.add(f"nobodys-{number}")
    assert await at.every(limit="1", account=DEPLOYER) == ([], 3)


async def test_owners_without_end_behind_the_first_page_do_not_hold_the_answer_up(
    at: ListScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership.LookupLimit.__init__, "__defaults__", (4,))
    at.add_application("priced", account="deployer")
    at.add_application("others", account="other")
    at.api.may_list = {DEPLOYER}
    at.add("item-0", mark="others")
    at.add("many")["metadata"]["ownerReferences"] = [reference(f"absent-{number}") for number in range(8)]
    at.add("item-1", mark="others")
    with pytest.raises(RefusedRequestError, match=f"name other accounts than {DEPLOYER}"):
        await at.page(limit="1", account=DEPLOYER)
