"""Whose a live object is: its own tracking mark names an Application of this agent, or an owner of it leads to one."""

from collections.abc import Callable, Iterator
from urllib.parse import quote

import orjson

from argocd.kubernetes_names import is_dns_subdomain
from argocd.reading import sequence, text
from argocd.tracking.ids import instance_name
from kube.live.raw import RawApi
from kube.store import Object, Resource
from sidecars.proxies.discovery import ApiTroubleError, Discovery, check_answered
from sidecars.proxies.own_applications import OwnApplications
from sidecars.proxies.refusals import RefusedRequestError

DEPTH = 5
"""Objects in a chain, the first included: a Pod's is three."""
OWNERS = 16
LOOKUPS = 128
"""Owners that one request may ask the API server for; a list of five hundred Pods has some dozens."""

# An owner does not change sides often; what has none may be given one.
OWNED_SECONDS = 60.0
UNOWNED_SECONDS = 5.0
REMEMBERED = 16_384
MAX_OBJECT_BYTES = 4 << 20

_OK = 200
_CSV = ("operators.coreos.com", "ClusterServiceVersion")


class LookupLimitError(RefusedRequestError):
    """Whose an object is was not found out: neither that it is ours nor that it is not."""


class LookupLimit:
    """Of one request."""

    def __init__(self, left: int = LOOKUPS) -> None:
        self._left = left

    def take(self) -> None:
        if not self._left:
            raise LookupLimitError(
                f"whose this is takes more than {LOOKUPS} looks at owners of owners: not shown"
            )
        self._left -= 1


class Ownership:
    """What is found out about an owner is remembered by its uid, for a while and for so many."""

    def __init__(
        self,
        api: RawApi,
        *,
        discovery: Discovery,
        applications: OwnApplications,
        namespace: str,
        clock: Callable[[], float],
    ) -> None:
        self._api = api
        self._discovery = discovery
        self._applications = applications
        self._namespace = namespace
        self._clock = clock
        self._known: dict[str, tuple[float, str]] = {}

    async def application_of(self, thing: Object, lookups: LookupLimit) -> Object | None:
        """The Application that owns a live object; None where none of ours does. Raises LookupLimitError or
        ApiTroubleError, as the others do, and remembers nothing then.
        """
        found = await self._walk(thing, lookups, depth=1, alive=True)
        if uid := text(thing, "metadata", "uid"):
            self._remember(uid, found)  # for its Events, also when it is gone
        return found

    async def application_for(self, body: Object, lookups: LookupLimit) -> Object | None:
        """The Application that an object which shall be created belongs to."""
        return await self._walk(body, lookups, depth=1, alive=False)

    async def application_of_reference(self, reference: Object, lookups: LookupLimit) -> Object | None:
        """Of an object that an Event or an owner reference names, also where it is gone since we saw it."""
        return await self._of_owner(reference, text(reference, "namespace"), lookups, depth=1)

    async def _walk(self, thing: Object, lookups: LookupLimit, *, depth: int, alive: bool) -> Object | None:
        found = self._applications.tracked(thing) if alive else self._applications.claimed(thing)
        if found is not None or depth >= DEPTH:
            return found
        namespace = text(thing, "metadata", "namespace")
        trouble: ApiTroubleError | None = None
        for reference in _owners(thing):
            try:
                found = await self._of_owner(reference, namespace, lookups, depth=depth + 1)
            except ApiTroubleError as error:
                trouble = error  # another owner may be ours
            else:
                if found is not None:
                    return found
        if trouble is not None:
            raise trouble
        return None

    async def _of_owner(
        self, reference: Object, namespace: str, lookups: LookupLimit, *, depth: int
    ) -> Object | None:
        uid = text(reference, "uid")
        known = self._known.get(uid) if uid else None
        if known is not None and self._clock() < known[0]:
            return self._applications.called(known[1])
        lookups.take()
        owner = await self._get(reference, namespace)
        if owner is None:
            return None
        found = await self._walk(owner, lookups, depth=depth, alive=True)
        self._remember(text(owner, "metadata", "uid"), found)
        return found

    async def _get(self, reference: Object, namespace: str) -> Object | None:
        api_version, kind, name = (text(reference, key) for key in ("apiVersion", "kind", "name"))
        if not (api_version and kind and name) or not _is_api_version(api_version):
            return None
        resource = await self._discovery.by_kind(api_version, kind)
        if resource is None or (resource.namespaced and not namespace):
            return None
        path = object_path(resource, name=name, namespace=namespace)
        answer = await self._api.request("GET", path, max_bytes=MAX_OBJECT_BYTES)
        check_answered(answer, path)
        if answer.status != _OK:
            return None
        owner = decoded_object(answer.body)
        uid = text(reference, "uid")
        # By its name alone somebody else's object could be meant.
        return owner if owner is not None and uid in {"", text(owner, "metadata", "uid")} else None

    def _remember(self, uid: str, application: Object | None) -> None:
        instance = ""
        if application is not None:
            instance = instance_name(
                text(application, "metadata", "name"),
                namespace=text(application, "metadata", "namespace"),
                argocd_namespace=self._namespace,
            )
        self._known.pop(uid, None)
        seconds = OWNED_SECONDS if instance else UNOWNED_SECONDS
        self._known[uid] = self._clock() + seconds, instance
        if len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]


def decoded_object(body: bytes) -> Object | None:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("metadata", {}), dict) else None


def object_path(resource: Resource, *, name: str, namespace: str) -> str:
    parts = ["/apis", resource.group] if resource.group else ["/api"]
    parts.append(resource.version)
    if resource.namespaced:
        parts += ["namespaces", quote(namespace, safe="")]
    return "/".join([*parts, resource.plural, quote(name, safe="")])


def _owners(thing: Object) -> Iterator[Object]:
    for reference in sequence(thing, "metadata", "ownerReferences")[:OWNERS]:
        if isinstance(reference, dict):
            yield reference
    # The Operator Lifecycle Manager's operators belong to their group without saying so.
    group, _, version = text(thing, "apiVersion").rpartition("/")
    name = text(thing, "metadata", "annotations", "olm.operatorGroup")
    if (group, text(thing, "kind")) == _CSV and name and version:
        yield {"apiVersion": f"{group}/v1", "kind": "OperatorGroup", "name": name}


def _is_api_version(text: str) -> bool:
    group, _, version = text.rpartition("/")
    return is_dns_subdomain(version) and (not group or is_dns_subdomain(group))
