"""What the agent's API server says about itself, remembered for a moment: a page of Argo CD asks for it again and again."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import orjson

from argocd.reading import sequence, text, value
from kube.live.raw import RawAnswer, RawApi
from kube.store import Resource
from sidecars.proxies.refusals import RefusedRequestError

# A kind that was just defined is found after this.
REMEMBERED_SECONDS = 10.0
# A cluster with many operators has a hundred group versions.
MAX_DOCUMENTS = 256
MAX_BYTES = 32 << 20
# The OpenAPI document of such a cluster has 8 MB.
MAX_DOCUMENT_BYTES = 12 << 20
# Of such documents, in memory while they come.
AT_ONCE = 4

_OK, _TOO_MANY, _TROUBLE = 200, 429, 500


class ApiTroubleError(RefusedRequestError):
    """What was asked for is neither there nor not there: asked again, the API server may say."""


@dataclass(frozen=True, slots=True)
class _Held:
    since: float
    answer: RawAnswer


class Discovery:
    def __init__(self, api: RawApi, *, clock: Callable[[], float]) -> None:
        self._api = api
        self._clock = clock
        self._held: dict[tuple[str, str], _Held] = {}
        self._bytes = 0
        self._reading = asyncio.Semaphore(AT_ONCE)
        self._kinds: dict[str, tuple[float, tuple[Resource, ...]]] = {}

    async def document(self, path: str, *, accept: str) -> RawAnswer:
        """As the API server has it. Only what it has is remembered."""
        key = path, accept
        if (found := self._remembered(key)) is not None:
            return found
        async with self._reading:
            if (found := self._remembered(key)) is not None:  # somebody else has asked for it
                return found
            answer = await self._api.request("GET", path, accept=accept, max_bytes=MAX_DOCUMENT_BYTES)
            if answer.status == _OK:
                self._keep(key, answer)
            return answer

    async def by_kind(self, api_version: str, kind: str) -> Resource | None:
        return next((found for found in await self._resources(api_version) if found.kind == kind), None)

    async def by_plural(self, api_version: str, plural: str) -> Resource | None:
        return next((found for found in await self._resources(api_version) if found.plural == plural), None)

    async def _resources(self, api_version: str) -> tuple[Resource, ...]:
        known = self._kinds.get(api_version)
        if known is not None and self._clock() - known[0] < REMEMBERED_SECONDS:
            return known[1]
        group, _, version = api_version.rpartition("/")
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        answer = await self.document(path, accept="application/json")
        check_answered(answer, path)
        found = _resources(answer.body, group=group, version=version) if answer.status == _OK else ()
        if len(self._kinds) >= MAX_DOCUMENTS:
            self._kinds.clear()
        self._kinds[api_version] = self._clock(), found
        return found

    def _remembered(self, key: tuple[str, str]) -> RawAnswer | None:
        held = self._held.get(key)
        return held.answer if held is not None and self._clock() - held.since < REMEMBERED_SECONDS else None

    def _keep(self, key: tuple[str, str], answer: RawAnswer) -> None:
        former = self._held.pop(key, None)
        if former is not None:
            self._bytes -= len(former.answer.body)
        self._held[key] = _Held(self._clock(), answer)
        self._bytes += len(answer.body)
        while len(self._held) > MAX_DOCUMENTS or self._bytes > MAX_BYTES:
            oldest = self._held.pop(next(iter(self._held)))
            self._bytes -= len(oldest.answer.body)


def check_answered(answer: RawAnswer, path: str) -> None:
    """Raises ApiTroubleError."""
    if answer.status == _TOO_MANY or answer.status >= _TROUBLE:
        raise ApiTroubleError(f"the API server answered {answer.status} to {path}: try again", status=503)


def _resources(body: bytes, *, group: str, version: str) -> tuple[Resource, ...]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ()
    return tuple(
        Resource(group, version, text(each, "name"), text(each, "kind"), value(each, "namespaced") is True)
        for each in sequence(document, "resources")
        if "/" not in text(each, "name")
    )
