"""Who may read what a sidecar tells of others: whoever is on its own loopback, and whoever the API server vouches for.

Others show a bearer token. It is asked about by TokenReview, for our audience alone, and its user by
SubjectAccessReview: he needs `get` on `fleet.tiphys.dev`, a resource that exists in roles only. The API server's proxy
takes the caller's own credentials off a request, so a header of ours may carry the token instead.
"""

import asyncio
from collections.abc import Mapping

from argocd import names
from argocd.reading import mapping, sequence, text, value
from kube.errors import ApiError
from kube.resources import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS
from kube.store import Object, Store
from tiphys import logs
from tiphys.http_server import HttpPage, HttpRefusal
from tiphys.loopback import is_loopback, names_loopback

# Tokens of API servers have 1 to 2 KiB.
MAX_TOKEN_LENGTH = 8 * 1024
# Each costs the API server two questions; operators ask now and then.
SIDE_BY_SIDE = 4
REVIEW_SECONDS = 4.0

_ANONYMOUS = HttpPage(
    b"a token is needed: kubectl port-forward, or a bearer token for tiphys-principal\n", status=401
)
_NOT_ALLOWED = HttpPage(b"not allowed\n", status=403)
_BUSY = HttpPage(b"too many questions at once\n", status=429)
_UNKNOWN = HttpPage(b"the API server does not say who you are\n", status=503)

log = logs.get_logger()


class PageAccess(HttpRefusal):
    def __init__(self, store: Store, *, namespace: str) -> None:
        self._store = store
        self._namespace = namespace
        self._under_way = 0

    async def refusal(self, *, address: str, headers: Mapping[str, str]) -> HttpPage | None:
        if is_loopback(address) and names_loopback(headers.get("Host", "")):
            return None
        token = headers.get(names.PAGE_TOKEN_HEADER, "") or _bearer(headers.get("Authorization", ""))
        if not 0 < len(token) <= MAX_TOKEN_LENGTH:
            return _ANONYMOUS
        if self._under_way >= SIDE_BY_SIDE:
            return _BUSY
        self._under_way += 1
        try:
            async with asyncio.timeout(REVIEW_SECONDS):
                return await self._judged(token)
        except (ApiError, TimeoutError) as error:
            log.warning("a caller's token was not reviewed", **{logs.ERROR: logs.describe(error)})
            return _UNKNOWN
        finally:
            self._under_way -= 1

    async def _judged(self, token: str) -> HttpPage | None:
        body: Object = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [names.PAGE_AUDIENCE]},
        }
        told = await self._store.create(TOKEN_REVIEWS, body)
        known = value(told, "status", "authenticated") is True
        # An API server that knows no audiences answers for its own: that token was not meant for us.
        if not known or names.PAGE_AUDIENCE not in sequence(told, "status", "audiences"):
            return _ANONYMOUS
        return None if await self._may_read(mapping(told, "status", "user")) else _NOT_ALLOWED

    async def _may_read(self, user: Mapping[str, object]) -> bool:
        attributes = {
            "verb": "get",
            "group": names.FLEET_GROUP,
            "resource": names.FLEET_RESOURCE,
            "namespace": self._namespace,
        }
        body: Object = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": text(user, "username"),
                "uid": text(user, "uid"),
                "groups": list(sequence(user, "groups")),
                "resourceAttributes": attributes,
            },
        }
        return value(await self._store.create(SUBJECT_ACCESS_REVIEWS, body), "status", "allowed") is True


def _bearer(authorization: str) -> str:
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
