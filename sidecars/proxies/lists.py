"""Lists of live objects: a page at a time, and of each page what belongs to Applications of this agent."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from argocd.reading import mapping, sequence, text
from kube.live.raw import RawAnswer, RawApi
from kube.store import Object
from sidecars.proxies.api_paths import ApiPath
from sidecars.proxies.own_applications import OwnApplications
from sidecars.proxies.ownership import LookupLimit, LookupLimitError, Ownership, decoded_object
from sidecars.proxies.refusals import RefusedRequestError
from sidecars.proxies.statuses import JSON
from sidecars.wire.proxy_payloads import ResourceRequest

PAGE = 500
MAX_PAGE_BYTES = 10 << 20
# A page of that size takes ten times as much memory while its items are looked at.
AT_ONCE = 4

_PARAMETERS = ("labelSelector", "fieldSelector", "continue", "resourceVersion", "resourceVersionMatch")
_OF_THE_FIRST = ("resourceVersion", "resourceVersionMatch")
"""An API server takes them with no token, which is of one version already."""
_OK = 200
_EVENTS = {"": "involvedObject", "events.k8s.io": "regarding"}
"""Where an Event of a group says what it is about."""


@dataclass
class _Sorted:
    owned: list[Any] = field(default_factory=list)
    others_accounts: bool = False
    """Some belong to Applications of ours whose projects name another account."""
    looked_at: int = 0
    """Fewer than there are where that took too many questions."""


@dataclass(frozen=True, slots=True)
class _Page:
    answer: RawAnswer
    query: dict[str, str]
    found: Object | None = None
    """None where the API server's answer is no list."""
    items: _Sorted = field(default_factory=_Sorted)

    @property
    def token(self) -> str:
        """Of the next one."""
        return text(self.found, "metadata", "continue")


class ListedObjects:
    def __init__(self, api: RawApi, *, ownership: Ownership, applications: OwnApplications) -> None:
        self._api = api
        self.places = asyncio.Semaphore(AT_ONCE)
        """Whoever asks for a page holds one."""
        self._ownership = ownership
        self._applications = applications

    async def page(self, path: ApiPath, request: ResourceRequest) -> RawAnswer:
        """As the API server answers, less the items of others. As an account means: of an Application of ours, with
        the right to list, and the items of those Applications. That one page has none of them does not say that it is
        the wrong account; that no page has any, and some have others', does.
        """
        account = request.impersonate_user
        query = _query(request.params or {})
        if account:
            if not self._applications.has_account(account):
                raise _other_accounts(path, account)
            # Whether the account may: what it sees is what was tested.
            allowed = await self._read(path, {**query, "limit": "1"}, impersonate=account)
            if allowed.status != _OK:
                return allowed
        page = await self._page(path, query, account=account)
        if page.found is None:
            return page.answer
        if account and not page.items.owned and not query.get("continue"):
            refusal = await self._refusal(path, page, account=account)
            if refusal is not None:
                return refusal
        if is_transformed(request.accept):
            return await self._transformed(
                path, page.query, request, found=page.found, owned=page.items.owned
            )
        return _answered({**page.found, "items": page.items.owned})

    async def _refusal(self, path: ApiPath, first: _Page, *, account: str) -> RawAnswer | None:
        """To whoever owns nothing on the first page: the pages behind it decide whether the account is a wrong one, as far
        as the request's deadline lets us look.
        """
        page, others = first, first.items.others_accounts
        while page.token:
            query = {**first.query, "continue": page.token, "limit": str(PAGE)}
            for key in _OF_THE_FIRST:
                query.pop(key, None)
            page = await self._page(path, query, account=account)
            if page.found is None:
                return page.answer
            if page.items.owned:
                return None
            others = others or page.items.others_accounts
        if others:
            raise _other_accounts(path, account)
        return None

    async def _page(self, path: ApiPath, query: dict[str, str], *, account: str) -> _Page:
        answer = await self._read(path, query)
        found = decoded_object(answer.body) if answer.status == _OK else None
        if found is None:
            return _Page(answer, query)
        items = await self._sorted(path, found, account=account)
        if items.looked_at == len(sequence(found, "items")):
            return _Page(answer, query, found, items)
        # A shorter page: what was looked at is remembered, and the rest comes with the next one.
        query = {**query, "limit": str(max(1, items.looked_at))}
        answer = await self._read(path, query)
        found = decoded_object(answer.body) if answer.status == _OK else None
        if found is None:
            return _Page(answer, query)
        items = await self._sorted(path, found, account=account)
        if items.looked_at < len(sequence(found, "items")) and items.looked_at:
            raise RefusedRequestError(f"{path.what} change while they are read: try again", status=503)
        return _Page(answer, query, found, items)

    async def _transformed(
        self,
        path: ApiPath,
        query: dict[str, str],
        request: ResourceRequest,
        *,
        found: Object,
        owned: list[Any],
    ) -> RawAnswer:
        """The same page in the form that the caller wants, which does not show whose an item is."""
        version = text(found, "metadata", "resourceVersion")
        if version and not query.get("continue"):
            query = {**query, "resourceVersion": version, "resourceVersionMatch": "Exact"}
        account = request.impersonate_user if owned else ""
        answer = await self._read(path, query, impersonate=account, accept=request.accept)
        shown = decoded_object(answer.body) if answer.status == _OK else None
        if shown is None:
            return answer
        identities = {_identity(item) for item in owned}
        if text(shown, "kind") == "Table":
            rows = [row for row in sequence(shown, "rows") if _identity(mapping(row, "object")) in identities]
            return _answered({**shown, "rows": rows}, content_type=answer.content_type)
        items = [item for item in sequence(shown, "items") if _identity(item) in identities]
        return _answered({**shown, "items": items}, content_type=answer.content_type)

    async def _read(
        self, path: ApiPath, query: dict[str, str], *, impersonate: str = "", accept: str = JSON
    ) -> RawAnswer:
        return await self._api.request(
            "GET", str(path), query=query, accept=accept, impersonate=impersonate, max_bytes=MAX_PAGE_BYTES
        )

    async def _sorted(self, path: ApiPath, found: Object, *, account: str) -> _Sorted:
        lookups = LookupLimit()
        kind = text(found, "kind").removesuffix("List")
        page = _Sorted()
        for item in sequence(found, "items"):
            try:
                application = await self._application_of(item, path, kind, lookups)
            except LookupLimitError:
                return page
            page.looked_at += 1
            if application is None:
                continue
            if account in {"", self._applications.account(application)}:
                page.owned.append(item)
            else:
                page.others_accounts = True
        return page

    async def _application_of(
        self, item: Any, path: ApiPath, kind: str, lookups: LookupLimit
    ) -> Object | None:
        if not isinstance(item, dict):
            return None
        if not path.namespace and not self._applications.serves(text(item, "metadata", "namespace")):
            return None
        about = _EVENTS.get(path.group) if path.resource == "events" else None
        if about is not None:
            return await self._ownership.application_of_reference(dict(mapping(item, about)), lookups)
        # The items of a built-in kind's list come without either.
        thing = {"apiVersion": path.api_version, "kind": kind, **item}
        return await self._ownership.application_of(thing, lookups)


def _other_accounts(path: ApiPath, account: str) -> RefusedRequestError:
    return RefusedRequestError(
        f"{path.what}: the projects of their Applications name other accounts than {account[:200]} here, or none:"
        " see spec.destinationServiceAccounts"
    )


def is_transformed(accept: str) -> bool:
    """Whether an Accept wants objects as something else: a Table, or their metadata alone."""
    return any(
        word.strip().lower().startswith("as=") for part in accept.split(",") for word in part.split(";")
    )


def _query(params: Mapping[str, str]) -> dict[str, str]:
    query = {key: params[key] for key in _PARAMETERS if params.get(key)}
    if query.get("resourceVersion") == "0":
        # For that an API server knows no pages. Any version will do, so the newest does.
        query.pop("resourceVersion")
        query.pop("resourceVersionMatch", None)
    query["limit"] = str(_limit(params.get("limit", "")))
    return query


def _limit(told: str) -> int:
    if not told:
        return PAGE
    if not (told.isascii() and told.isdecimal() and len(told) < 10):  # noqa: PLR2004 - as many digits as anybody needs
        raise RefusedRequestError(f"limit {told[:32]} is no number", status=400)
    return min(int(told), PAGE) or PAGE


def _identity(item: Any) -> tuple[str, str, str]:
    """What some aggregated API lists has no uid."""
    namespace, name, uid = (text(item, "metadata", key) for key in ("namespace", "name", "uid"))
    return namespace, name, uid


def _answered(page: Object, *, content_type: str = JSON) -> RawAnswer:
    """Without the number of those who are left: they are not all ours."""
    metadata = {key: part for key, part in mapping(page, "metadata").items() if key != "remainingItemCount"}
    return RawAnswer(_OK, content_type, orjson.dumps({**page, "metadata": metadata}))
