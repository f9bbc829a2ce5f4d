"""The store on a real API server."""

import random as randomness
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import aiohttp

from kube.errors import BadRequestError, NotFoundError, UnavailableError
from kube.live.answers import error_of_status
from kube.live.connection import Connection, Repeat
from kube.live.credentials import Access, find_access
from kube.live.raw import RawApi
from kube.requests import (
    address_of,
    check_scope,
    check_segment,
    decode,
    encode,
    typed,
    typed_for_apply,
    typed_for_creation,
)
from kube.store import Identity, JsonPatch, ListPage, Object, PatchKind, Resource, WatchEvent, WatchEventKind

# etcd takes no object above 1.5 MiB; a line that is longer than this is no event.
_LONGEST_LINE = 64 * 1024 * 1024
_INTERNAL_ERROR = 500
# Bookmarks come about every minute: twice that without a byte is a watch that has died.
WATCH_IDLE_SECONDS = 120.0
# The server ends a watch after this long, so that load spreads again after a rollout. As other clients do.
_WATCH_SECONDS = (300, 600)
_METADATA = "application/json;g=meta.k8s.io;v=v1;as="
_METADATA_OF_LIST = {"Accept": f"{_METADATA}PartialObjectMetadataList"}
_METADATA_OF_EACH = {"Accept": f"{_METADATA}PartialObjectMetadata"}


class LiveStore:
    """Retries what can be retried without doing anything twice; each call ends within its deadline."""

    def __init__(self, connection: Connection, *, watch_idle: float = WATCH_IDLE_SECONDS) -> None:
        self._connection = connection
        self._watch_idle = watch_idle
        self._random = randomness.Random()  # noqa: S311  spreads the ends of watches, keeps no secret

    @classmethod
    async def connect(
        cls,
        *,
        kubeconfig: str | Path | None = None,
        context: str | None = None,
        impersonate: Identity | None = None,
        concurrency: int = 64,
        deadline: float = 30.0,
        watch_idle: float = WATCH_IDLE_SECONDS,
        on_warning: Callable[[str], None] | None = None,
        random: randomness.Random | None = None,
    ) -> Self:
        """Reads the credentials; the first call opens the first connection.

        Raises `KubeconfigError`, in one line. `concurrency` bounds requests, not watches.
        """
        access = await find_access(kubeconfig=kubeconfig, context=context)
        return cls(
            Connection(
                access,
                impersonate=impersonate,
                concurrency=concurrency,
                deadline=deadline,
                on_warning=on_warning,
                random=random,
            ),
            watch_idle=watch_idle,
        )

    @property
    def url(self) -> str:
        return self._connection.url

    @property
    def access(self) -> Access:
        """Where the credentials come from, and the namespace that the kubeconfig or the pod names."""
        return self._connection.access

    @property
    def raw(self) -> RawApi:
        """The same connection for requests that somebody else has written."""
        return RawApi(self._connection)

    async def close(self) -> None:
        await self._connection.close()

    async def get(self, resource: Resource, *, name: str, namespace: str | None = None) -> Object:
        path = _path(resource, check_scope(resource, namespace), name)
        return _object(await self._connection.call("GET", path, repeat=Repeat.SAFE), resource)

    async def server_version(self) -> str:
        """Of the API server, such as v1.34.1."""
        answer = await self._connection.call("GET", "/version", repeat=Repeat.SAFE)
        return str(answer.get("gitVersion", "")) if isinstance(answer, dict) else ""

    async def discover(self, *, group: str, version: str) -> dict[str, Resource]:
        """The kinds that the API server has in a version of a group; none where it does not have that."""
        check_segment(version, what="the version")
        path = f"/apis/{check_segment(group, what='the group')}/{version}" if group else f"/api/{version}"
        try:
            answer = await self._connection.call("GET", path, repeat=Repeat.SAFE)
        except NotFoundError:
            return {}
        return {
            found["kind"]: Resource(
                group, version, found["name"], found["kind"], namespaced=found["namespaced"]
            )
            for found in answer.get("resources") or []
            if "/" not in found["name"]
        }

    async def account_token(self, account: str, *, namespace: str, audience: str, seconds: int) -> str:
        """A token of a ServiceAccount for one audience, good for so long."""
        path = "/".join(
            [
                "/api/v1/namespaces",
                quote(namespace, safe=""),
                "serviceaccounts",
                quote(account, safe=""),
                "token",
            ]
        )
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [audience], "expirationSeconds": seconds},
        }
        made = await self._connection.call("POST", path, body=encode(body), repeat=Repeat.IF_REFUSED)
        return str(made["status"]["token"])

    async def ask_service(
        self, service: str, path: str, *, namespace: str, headers: Mapping[str, str] | None = None
    ) -> Any:
        """A page of JSON that a Service has, through the API server; `service` is its name, a colon, a port."""
        parts = [
            "/api/v1/namespaces",
            quote(namespace, safe=""),
            "services",
            quote(service, safe=":"),
            "proxy",
        ]
        return await self._connection.call(
            "GET", "/".join(parts) + path, headers=headers, repeat=Repeat.IF_REFUSED
        )

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
        path = _path(resource, check_scope(resource, namespace, all_namespaces=True))
        query = _selectors(label_selector, field_selector)
        if limit:
            query["limit"] = str(limit)
        if continue_token:
            query["continue"] = continue_token
        headers = _METADATA_OF_LIST if metadata_only else None
        answer = await self._connection.call("GET", path, query=query, headers=headers, repeat=Repeat.SAFE)
        metadata = answer.get("metadata") or {}
        items = answer.get("items") or []
        for item in items:
            _name_kind(item, resource)
        return ListPage(items, metadata.get("resourceVersion", ""), metadata.get("continue", ""))

    async def count(self, resource: Resource, *, namespace: str | None = None) -> int | None:
        """How many there are, by a page of one; None where the server does not tell."""
        path = _path(resource, check_scope(resource, namespace, all_namespaces=True))
        answer = await self._connection.call("GET", path, query={"limit": "1"}, repeat=Repeat.SAFE)
        metadata, items = answer.get("metadata") or {}, answer.get("items") or []
        more = metadata.get("remainingItemCount", 0 if not metadata.get("continue") else None)
        return len(items) + more if isinstance(more, int) else None

    async def watch(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str,
        metadata_only: bool = False,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Ends when the server says so or says nothing for too long; a broken connection raises."""
        path = _path(resource, check_scope(resource, namespace, all_namespaces=True))
        query = _selectors(label_selector, field_selector) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self._random.randint(*_WATCH_SECONDS)),
        }
        if resource_version:
            query["resourceVersion"] = resource_version
        what = f"watch {path}"
        headers = _METADATA_OF_EACH if metadata_only else None
        async with self._connection.stream(
            path, query=query, headers=headers, idle=self._watch_idle
        ) as content:
            try:
                async with aclosing(_events(content, resource, what=what)) as events:
                    async for event in events:
                        yield event
            except TimeoutError:
                return
            except (aiohttp.ClientError, OSError) as error:
                self._connection.raise_unreachable(error, what=what)

    async def create(
        self,
        resource: Resource,
        body: Object,
        *,
        namespace: str | None = None,
        field_manager: str = "tiphys",
        dry_run: bool = False,
    ) -> Object:
        body, namespace = typed_for_creation(resource, body, namespace=namespace)
        answer = await self._connection.call(
            "POST",
            _path(resource, namespace),
            query=_options(field_manager, dry_run=dry_run),
            body=encode(body),
            # Twice would be two objects, or an AlreadyExistsError about our own.
            repeat=Repeat.IF_REFUSED,
        )
        return _object(answer, resource)

    async def replace(
        self,
        resource: Resource,
        body: Object,
        *,
        field_manager: str = "tiphys",
        dry_run: bool = False,
        subresource: str = "",
    ) -> Object:
        namespace, name = address_of(resource, body)
        answer = await self._connection.call(
            "PUT",
            _path(resource, namespace, name, subresource),
            query=_options(field_manager, dry_run=dry_run),
            body=encode(typed(resource, body)),
            # With a version the second time is a conflict at worst; without one it is the same again.
            repeat=Repeat.SAFE,
        )
        return _object(answer, resource)

    async def patch(
        self,
        resource: Resource,
        patch: Object | JsonPatch,
        *,
        name: str,
        namespace: str | None = None,
        kind: PatchKind,
        field_manager: str = "tiphys",
        force: bool = False,
        dry_run: bool = False,
        subresource: str = "",
    ) -> Object:
        namespace = check_scope(resource, namespace)
        query = _options(field_manager, dry_run=dry_run)
        if kind is PatchKind.APPLY:
            if not isinstance(patch, dict):
                raise BadRequestError("an apply configuration is a JSON object")
            patch = typed_for_apply(resource, patch, name=name, namespace=namespace)
            query["force"] = "true" if force else "false"
        answer = await self._connection.call(
            "PATCH",
            _path(resource, namespace, name, subresource),
            query=query,
            body=encode(patch),
            content_type=kind.value,
            # A JSON patch may append; the other two say what shall be.
            repeat=Repeat.IF_REFUSED if kind is PatchKind.JSON else Repeat.SAFE,
        )
        return _object(answer, resource)

    async def delete(
        self,
        resource: Resource,
        *,
        name: str,
        namespace: str | None = None,
        propagation: str = "",
        uid: str = "",
        resource_version: str = "",
        dry_run: bool = False,
    ) -> None:
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if propagation:
            options["propagationPolicy"] = propagation
        if dry_run:
            options["dryRun"] = ["All"]  # in the query it is ignored beside a body: the object would be gone
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        if any(preconditions.values()):
            options["preconditions"] = {key: value for key, value in preconditions.items() if value}
        await self._connection.call(
            "DELETE",
            _path(resource, check_scope(resource, namespace), name),
            body=encode(options),
            # By name alone the second time could meet a new object of that name.
            repeat=Repeat.SAFE if uid or resource_version else Repeat.IF_REFUSED,
        )


def _path(resource: Resource, namespace: str | None, name: str | None = None, subresource: str = "") -> str:
    parts = ["/apis", resource.group] if resource.group else ["/api"]
    parts.append(resource.version)
    if namespace:
        parts += ["namespaces", quote(namespace, safe="")]
    parts.append(resource.plural)
    if name is not None:
        parts.append(quote(check_segment(name, what="the name"), safe=""))
    if subresource:
        parts.append(quote(check_segment(subresource, what="the subresource"), safe=""))
    return "/".join(parts)


def _selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    query = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {key: value for key, value in query.items() if value}


def _options(field_manager: str, *, dry_run: bool) -> dict[str, str]:
    query = {"fieldManager": field_manager}
    if dry_run:
        query["dryRun"] = "All"
    return query


def _object(answer: Object, resource: Resource) -> Object:
    if not isinstance(answer, dict):
        raise UnavailableError(f"the API server answered with no object about {resource.plural}")
    return answer


def _name_kind(body: Object, resource: Resource) -> None:
    """The items of a built-in kind's list come without, and mere metadata as a kind of its own."""
    body["apiVersion"], body["kind"] = resource.api_version, resource.kind


async def _events(
    content: aiohttp.StreamReader, resource: Resource, *, what: str
) -> AsyncGenerator[WatchEvent, None]:
    """Splits chunks rather than asking the reader for lines: a burst comes as one chunk of many events."""
    pending = b""
    async for chunk in content.iter_any():
        *lines, rest = chunk.split(b"\n")
        if lines:
            lines[0] = pending + lines[0]
            pending = rest
        else:
            pending += rest
        if len(pending) > _LONGEST_LINE:
            raise UnavailableError(f"{what}: an event of more than {_LONGEST_LINE} bytes")
        for line in lines:
            if line:
                yield _event(line, resource, what=what)
    # What has no newline is half an event: the connection ended in it.


def _event(line: bytes, resource: Resource, *, what: str) -> WatchEvent:
    try:
        content = decode(line)
        kind, body = content["type"], content["object"]
        if kind == "ERROR":
            raise error_of_status(body, code=int(body.get("code", _INTERNAL_ERROR)), what=what)
        _name_kind(body, resource)
        return WatchEvent(WatchEventKind(kind), body)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnavailableError(f"{what}: a line that is no event") from error
