"""The agent's side of the resource proxy: objects of its own Applications, read and changed as the project permits.

Every request is tested here, whoever sent it: the object must belong to an Application of this agent, and an account
to act as must be the one that its project names.
"""

from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import replace

from argocd.reading import mapping, text
from kube.errors import ApiError
from kube.live.raw import AnswerTooLargeError, RawAnswer, RawApi
from kube.store import Object
from sidecars.metrics import argocd_agent
from sidecars.proxies.api_paths import REFUSED_SUBRESOURCES, ApiPath, PathError, parse_path, path_of
from sidecars.proxies.discovery import Discovery
from sidecars.proxies.dispatcher import RequestHandler
from sidecars.proxies.lists import ListedObjects, is_transformed
from sidecars.proxies.own_applications import OwnApplications
from sidecars.proxies.ownership import LookupLimit, Ownership, decoded_object
from sidecars.proxies.preconditions import APPLY, JSON_PATCH, bound, bound_to_nothing, check_unchanged
from sidecars.proxies.refusals import RefusedRequestError
from sidecars.proxies.statuses import JSON, is_error, status_json
from sidecars.wire import payloads
from sidecars.wire.errors import MalformedError
from sidecars.wire.events import Event
from sidecars.wire.json_objects import read_struct
from sidecars.wire.proxy_payloads import ResourceRequest, ResourceResponse
from tiphys import logs

MAX_ANSWER_BYTES = 10 << 20
"""In a message of 16 MiB, as a string of JSON."""

READS = frozenset({"GET"})
WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
MERGE = "application/merge-patch+json"
PATCHES = frozenset({APPLY, MERGE, JSON_PATCH, "application/strategic-merge-patch+json"})

_WRITE_PARAMETERS = frozenset(
    {
        "dryRun",
        "fieldManager",
        "fieldValidation",
        "force",
        "gracePeriodSeconds",
        "orphanDependents",
        "pretty",
        "propagationPolicy",
        "timeout",
    }
)
_GET_PARAMETERS = frozenset({"resourceVersion"})
_IGNORED = frozenset({"pretty", "timeout"})
_OK, _NOT_FOUND, _INVALID = 200, 404, 422
_SUCCESS = range(200, 300)

log = logs.get_logger()


class ResourceHandler(RequestHandler):
    def __init__(
        self, api: RawApi, *, discovery: Discovery, ownership: Ownership, applications: OwnApplications
    ) -> None:
        self._api = api
        self._discovery = discovery
        self._ownership = ownership
        self._applications = applications
        self._lists = ListedObjects(api, ownership=ownership, applications=applications)

    def mutates(self, event: Event) -> bool:
        return event.type not in READS

    def place(self, event: Event) -> AbstractAsyncContextManager[object]:
        """A list takes one of few; see the dispatcher's."""
        if event.type in READS:
            with suppress(PathError):  # said by `handle`
                path = _path(payloads.read(ResourceRequest, event.payload))
                if not (path.document or path.name):
                    return self._lists.places
        return nullcontext()

    def refusal(self, event: Event, *, status: int, message: str) -> bytes | None:
        argocd_agent.AGENT_RESOURCE_ERRORS.inc()
        body = status_json(status, message)
        return payloads.write(ResourceResponse(uuid=event.event_id, status=status, resource=body.decode()))

    async def handle(self, event: Event) -> bytes | None:
        argocd_agent.AGENT_RESOURCE_REQUESTS.inc()
        request = payloads.read(ResourceRequest, event.payload)
        status = 0
        try:
            answer = await self._answer(event.type, request)
            status = answer.status
        except (RefusedRequestError, PathError) as error:
            status = getattr(error, "status", 400)
            return self.refusal(event, status=status, message=str(error))
        except ApiError as error:
            if not isinstance(error, AnswerTooLargeError):
                log.warning("the API server did not answer", **{logs.ERROR: str(error)})
            status = error.code
            return self.refusal(event, status=status, message=str(error))
        finally:
            if self.mutates(event):
                _audit(event.type, request, status)
        if is_error(answer.status):
            argocd_agent.AGENT_RESOURCE_ERRORS.inc()
        return payloads.write(_response(event, request, answer))

    async def _answer(self, method: str, request: ResourceRequest) -> RawAnswer:
        if method not in READS | WRITES or request.method not in {"", method}:
            raise RefusedRequestError(f"{method[:16]} is not served here", status=405)
        path = _path(request)
        if not (request.accept.isascii() and request.accept.isprintable()):
            raise RefusedRequestError("Accept is no header", status=400)
        if path.document:
            if method not in READS:
                raise RefusedRequestError(f"{path.document} can be read, no more", status=405)
            return await self._discovery.document(path.document, accept=request.accept or JSON)
        self._check(path, request)
        request = replace(request, accept=_json_forms(request.accept))
        if method == "GET" and not path.name:
            return await self._lists.page(path, request)
        if method == "GET":
            return await self._get(path, request)
        if method == "POST" and not path.name:
            return await self._create(path, request)
        if not path.name or (method == "POST" and not path.subresource):
            raise RefusedRequestError(f"{method} of {path.what}: name one object", status=405)
        return await self._change(method, path, request)

    def _check(self, path: ApiPath, request: ResourceRequest) -> None:
        params = request.params or {}
        if params.get("watch", "false") not in {"", "0", "false"} or path.resource == "watch":
            raise RefusedRequestError("watches are not served: list again", status=501)
        namespace = path.name if path.resource == "namespaces" and not path.group else path.namespace
        if not self._applications.serves(namespace):
            where = f"the namespace {namespace}" if namespace else "objects without a namespace"
            raise RefusedRequestError(f"this agent shows nothing of {where}: see --resource-proxy-namespaces")
        if path.subresource in REFUSED_SUBRESOURCES:
            raise RefusedRequestError(f"{path.subresource} is not served by the resource proxy")

    async def _get(self, path: ApiPath, request: ResourceRequest) -> RawAnswer:
        query = {key: each for key, each in (request.params or {}).items() if key in _GET_PARAMETERS}
        answer = await self._api.request("GET", str(path.parent), query=query, max_bytes=MAX_ANSWER_BYTES)
        if answer.status != _OK:
            return answer
        there, owner = await self._tested(answer, path)
        account = self._account(owner, path, request)
        if not path.subresource and not account and not is_transformed(request.accept):
            return answer
        shown = await self._api.request(
            "GET",
            str(path),
            query=query,
            accept=request.accept,
            impersonate=account,
            max_bytes=MAX_ANSWER_BYTES,
        )
        check_unchanged(there, shown.body)
        return shown

    async def _change(self, method: str, path: ApiPath, request: ResourceRequest) -> RawAnswer:
        content_type, body = _content(method, request)
        answer = await self._api.request("GET", str(path.parent), max_bytes=MAX_ANSWER_BYTES)
        if answer.status == _NOT_FOUND and content_type == APPLY and not path.subresource:
            return await self._create(path, request, method="PATCH", content_type=APPLY)
        if answer.status != _OK:
            return answer
        there, owner = await self._tested(answer, path)
        account = self._account(owner, path, request)
        body = bound(method, body, there, content_type=content_type, subresource=path.subresource)
        written = await self._write(
            method, path, request, body=body, content_type=content_type, account=account
        )
        if written.status == _INVALID:
            # An API server says of a uid in a patch that it cannot be changed, where it means a conflict.
            now = await self._api.request("GET", str(path.parent), max_bytes=MAX_ANSWER_BYTES)
            check_unchanged(there, now.body)
        return written

    async def _create(
        self, path: ApiPath, request: ResourceRequest, *, method: str = "POST", content_type: str = JSON
    ) -> RawAnswer:
        if method == "POST":
            content_type, _ = _content(method, request)
        # What applies YAML that is no JSON says so too late: clients of Go send JSON.
        try:
            body = read_struct(request.body or b"", keys=("apiVersion", "kind", "metadata"))
        except MalformedError as error:
            raise RefusedRequestError(f"the body is no object in JSON: {error}", status=400) from error
        resource = await self._discovery.by_plural(path.api_version, path.resource)
        if resource is None:
            raise RefusedRequestError(f"the API server has no {path.what}", status=404)
        metadata = mapping(body, "metadata")
        thing: Object = {
            **body,
            "apiVersion": path.api_version,
            "kind": resource.kind,
            "metadata": {**metadata, "namespace": path.namespace},
        }
        for key, told in (("apiVersion", path.api_version), ("kind", resource.kind)):
            if text(body, key) not in {"", told}:
                raise RefusedRequestError(
                    f"the body's {key} is {text(body, key)[:64]}, the path's {told}", status=400
                )
        if text(metadata, "namespace") not in {"", path.namespace}:
            raise RefusedRequestError("the body's namespace is not the path's", status=400)
        owner = await self._ownership.application_for(thing, LookupLimit())
        if owner is None:
            raise RefusedRequestError(
                f"{path.what}: no tracking mark and no owner of it leads to an Application of this agent"
            )
        name = path.name or text(metadata, "name")
        if not (name or resource.namespaced):
            raise RefusedRequestError(f"{path.what}: projects permit them by name, and this one has none")
        problem = self._applications.objection(
            owner,
            group=path.group,
            kind=resource.kind,
            name=name,
            namespace=path.namespace,
            namespaced=resource.namespaced,
        )
        if problem:
            raise RefusedRequestError(f"Application {text(owner, 'metadata', 'name')}: {problem}")
        account = self._account(owner, path, request)
        written = bound_to_nothing(body) if content_type == APPLY else request.body
        return await self._write(
            method, path, request, body=written, content_type=content_type, account=account
        )

    async def _write(
        self,
        method: str,
        path: ApiPath,
        request: ResourceRequest,
        *,
        body: bytes | None,
        content_type: str,
        account: str,
    ) -> RawAnswer:
        params = request.params or {}
        if unknown := sorted(set(params) - _WRITE_PARAMETERS):
            raise RefusedRequestError(f"the parameter {unknown[0][:64]} is not served", status=400)
        return await self._api.request(
            method,
            str(path),
            query={key: each for key, each in params.items() if key not in _IGNORED},
            body=body or None,
            content_type=content_type if body else "",
            accept=request.accept,
            impersonate=account,
            max_bytes=MAX_ANSWER_BYTES,
        )

    async def _tested(self, answer: RawAnswer, path: ApiPath) -> tuple[Object, Object]:
        """The object and the Application that it belongs to."""
        thing = decoded_object(answer.body)
        owner = None if thing is None else await self._ownership.application_of(thing, LookupLimit())
        if thing is None or owner is None:
            raise RefusedRequestError(
                f"{path.parent.what}: no tracking mark and no owner of it leads to an Application of this agent"
            )
        return thing, owner

    def _account(self, owner: Object, path: ApiPath, request: ResourceRequest) -> str:
        asked = request.impersonate_user
        if asked and asked != self._applications.account(owner):
            name = text(owner, "metadata", "name")
            raise RefusedRequestError(
                f"{path.what}: the project of Application {name} names another account than {asked[:200]} here,"
                " or none: see spec.destinationServiceAccounts"
            )
        return asked


class DisabledResources(ResourceHandler):
    """--enable-resource-proxy=false: said at once, not after somebody's patience."""

    def __init__(self) -> None:
        """Without anything to ask."""

    async def handle(self, event: Event) -> bytes | None:
        return self.refusal(
            event, status=403, message="this agent shows no live objects: --enable-resource-proxy"
        )


def _path(request: ResourceRequest) -> ApiPath:
    if request.path:
        return parse_path(request.path)
    return path_of(
        group=request.group,
        version=request.version,
        namespace=request.namespace,
        resource=request.resource,
        name=request.name,
        subresource=request.subresource,
    )


def _json_forms(accept: str) -> str:
    """What of an Accept is JSON: objects as they are, Tables, metadata alone. Ownership is tested in JSON."""
    wanted = {part.strip(): part.partition(";")[0].strip().lower() for part in accept.split(",")}
    if forms := [part for part, kind in wanted.items() if kind == JSON]:
        return ", ".join(forms)
    if accept and not {"*/*", "application/*"} & set(wanted.values()):
        raise RefusedRequestError("objects are answered as JSON alone", status=406)
    return JSON


def _content(method: str, request: ResourceRequest) -> tuple[str, bytes | None]:
    """The type and the body of a write."""
    told = request.content_type.partition(";")[0].strip().lower()
    if method == "PATCH":
        found = told or (request.params or {}).pop("content-type", MERGE)
        if found not in PATCHES:
            raise RefusedRequestError(f"no such patch: {found[:64]}", status=415)
        return found, request.body
    if told not in {"", JSON}:
        raise RefusedRequestError(f"{method} takes {JSON}, not {told[:64]}", status=415)
    return JSON, request.body


def _audit(method: str, request: ResourceRequest, status: int) -> None:
    """Who wanted what, and how it ended; never what was in it. Code 0: given up, or the agent stops."""
    where = request.path or "/".join(
        filter(None, (request.group, request.resource, request.namespace, request.name, request.subresource))
    )
    log.info(
        "asked to change an object",
        **{logs.OPERATION: method[:16], logs.KEY: where[:512], logs.CODE: status},
        **{logs.USER: request.impersonate_user[:200] or "-"},
    )


def _response(event: Event, request: ResourceRequest, answer: RawAnswer) -> ResourceResponse:
    """argocd-agent's principal, which sends no path, knows 200 and empty answers."""
    status = answer.status
    if not request.path and status in _SUCCESS:
        status = _OK
    if answer.content_type.startswith(JSON):
        try:
            return ResourceResponse(
                uuid=event.event_id,
                status=status,
                resource=answer.body.decode(),
                content_type=answer.content_type if answer.content_type != JSON else "",
            )
        except UnicodeDecodeError:
            pass
    return ResourceResponse(
        uuid=event.event_id, status=status, content_type=answer.content_type, body=answer.body
    )
