"""Lists of live objects: a page at a time, and of each page what belongs to Applications of this agent."""

from typing import Any

import orjson

from argocd.reading import mapping, sequence, text
from kube.live.raw import RawAnswer, RawApi
from kube.store import Object
from sidecars.proxies.api_paths import ApiPath
from sidecars.proxies.own_applications import OwnApplications
from sidecars.proxies.ownership import LookupLimit, Ownership, decoded_object
from sidecars.proxies.refusals import RefusedRequestError
from sidecars.proxies.statuses import JSON
from sidecars.wire.proxy_payloads import ResourceRequest

PAGE = 500
MAX_PAGE_BYTES = 10 << 20

_PARAMETERS = ("labelSelector", "fieldSelector", "continue", "resourceVersion", "resourceVersionMatch")
_OK = 200
_EVENTS = {"": "involvedObject", "events.k8s.io": "regarding"}
"""Where an Event of a group says what it is about."""


class ListedObjects:
    def __init__(self, api: RawApi, *, ownership: Ownership, applications: OwnApplications) -> None:
        self._api = api
        self._ownership = ownership
        self._applications = applications

    async def page(self, path: ApiPath, request: ResourceRequest) -> RawAnswer:
        """As the API server answers, less the items of others. An account is acted as only where one of the items
        that are left belongs to it; there are none of another's.
        """
        params = request.params or {}
        query = {key: params[key] for key in _PARAMETERS if params.get(key)}
        query["limit"] = str(_limit(params.get("limit", "")))
        answer = await self._api.request("GET", str(path), query=query, max_bytes=MAX_PAGE_BYTES)
        found = decoded_object(answer.body) if answer.status == _OK else None
        if found is None:
            return answer
        items = await self._owned(path, found, account=request.impersonate_user)
        if items and request.impersonate_user:
            # Whether the account may: what it sees is what was tested.
            query["limit"] = "1"
            allowed = await self._api.request(
                "GET", str(path), query=query, impersonate=request.impersonate_user, max_bytes=MAX_PAGE_BYTES
            )
            if allowed.status != _OK:
                return allowed
        metadata = {
            key: part for key, part in mapping(found, "metadata").items() if key != "remainingItemCount"
        }
        return RawAnswer(_OK, JSON, orjson.dumps({**found, "metadata": metadata, "items": items}))

    async def _owned(self, path: ApiPath, found: Object, *, account: str) -> list[Any]:
        lookups = LookupLimit()
        kind = text(found, "kind").removesuffix("List")
        owned = []
        for item in sequence(found, "items"):
            if not isinstance(item, dict):
                continue
            namespace = text(item, "metadata", "namespace")
            if not path.namespace and not self._applications.serves(namespace):
                continue
            about = _EVENTS.get(path.group) if path.resource == "events" else None
            if about is not None:
                application = await self._ownership.application_of_reference(
                    dict(mapping(item, about)), lookups
                )
            else:
                # The items of a built-in kind's list come without either.
                thing = {"apiVersion": path.api_version, "kind": kind, **item}
                application = await self._ownership.application_of(thing, lookups)
            if application is not None and account in {"", self._applications.account(application)}:
                owned.append(item)
        return owned


def _limit(told: str) -> int:
    if not told:
        return PAGE
    if not (told.isascii() and told.isdecimal() and len(told) < 10):  # noqa: PLR2004 - as many digits as anybody needs
        raise RefusedRequestError(f"limit {told[:32]} is no number", status=400)
    return min(int(told), PAGE) or PAGE
