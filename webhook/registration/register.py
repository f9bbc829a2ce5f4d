"""Registration with the API server: put in, taken out, and its caBundle kept right.

The running server writes nothing but the caBundle, by a field manager of its own, and never makes a
configuration: so a GitOps tool can own the rest, and `unregister` stays undone by nobody.
"""

import asyncio
import base64
import binascii
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from argocd import names
from certs.key_pair import split_bundle
from kube import queries
from kube.cache import Cache
from kube.errors import ApiError, ConflictError, NotFoundError
from kube.projections import without_managed_fields
from kube.resources import LEASES, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from kube.store import Object, PatchKind, Resource, Store
from tiphys import logs
from webhook.registration.table import NAME, Registration, mutating, validating

CA_MANAGER = "tiphys-ca"
REGISTER_MANAGER = "tiphys-register"
LEADER_LEASE = "tiphys-webhook"
SECRET_NAME = "tiphys-webhook"  # noqa: S105 - the stem of two Secrets' names
REPLICA_LEASE_PREFIX = "tiphys-webhook-replica-"
UNREGISTERED = "tiphys.dev/unregistered"
"""Annotation of the leader's Lease: since when nobody repairs anything."""

RETRY_SECONDS = 1.0
"""Between attempts to write a caBundle; an overwritten one must be right again within five seconds."""

CONFIGURATIONS: tuple[tuple[Resource, Callable[[Registration], Object]], ...] = (
    (VALIDATING_WEBHOOKS, validating),
    (MUTATING_WEBHOOKS, mutating),
)

log = logs.get_logger()


@dataclass(frozen=True, slots=True)
class Removed:
    kind: str
    name: str
    owner: str
    """A GitOps tool or another manager that will put it back; empty where nobody is known to."""


async def register(store: Store, registration: Registration, *, bundle: bytes) -> list[str]:
    """Applies both configurations with the bundle in them, and lets the caBundle be repaired again.

    Call it when a server has answered with a certificate that the bundle verifies: an entry that fails closed
    and is not trusted blocks writes at once.
    """
    done = []
    await _mark(store, registration.home, unregistered=False)
    for resource, made in CONFIGURATIONS:
        body = made(registration)
        for entry in body["webhooks"]:
            entry["clientConfig"]["caBundle"] = base64.b64encode(bundle).decode()
        await store.patch(
            resource,
            body,
            name=NAME,
            kind=PatchKind.APPLY,
            field_manager=REGISTER_MANAGER,
            force=True,
        )
        done.append(f"{resource.kind} {NAME}")
    return done


async def unregister(store: Store, *, home: str) -> list[Removed]:
    """Takes the webhook out of the way; needs nothing else running. What is not there is no error.

    The Lease is marked first as far as that is possible: a home that is gone does not keep us from deleting.
    """
    with suppress(ApiError):
        await _mark(store, home, unregistered=True)
    removed = []
    for resource, _ in CONFIGURATIONS:
        try:
            held = await store.get(resource, name=NAME)
            await store.delete(resource, name=NAME)
        except NotFoundError:
            continue
        removed.append(Removed(kind=resource.kind, name=NAME, owner=_owner(held)))
    return removed


def _owner(configuration: Object) -> str:
    """Who else applies it: Argo CD leaves its tracking id, any other tool its field manager."""
    metadata = configuration["metadata"]
    if tracked := (metadata.get("annotations") or {}).get(names.TRACKING_ID):
        return f"Argo CD application {tracked.partition(':')[0]}"
    managers = {entry.get("manager", "") for entry in metadata.get("managedFields") or ()}
    others = sorted(managers - {CA_MANAGER, REGISTER_MANAGER, "tiphys", ""})
    return ", ".join(others)


async def _mark(store: Store, home: str, *, unregistered: bool) -> None:
    value = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if unregistered else None
    patch: Object = {"metadata": {"annotations": {UNREGISTERED: value}}}
    try:
        await store.patch(LEASES, patch, name=LEADER_LEASE, namespace=home, kind=PatchKind.MERGE)
    except NotFoundError:
        if unregistered:
            body = {"metadata": {"name": LEADER_LEASE, "namespace": home, **patch["metadata"]}, "spec": {}}
            await store.create(LEASES, body)


async def is_unregistered(store: Store, *, home: str) -> bool:
    lease = await queries.find(store, LEASES, name=LEADER_LEASE, namespace=home)
    return lease is not None and UNREGISTERED in (lease["metadata"].get("annotations") or {})


def bundles_of(configuration: Object) -> list[bytes]:
    """What each of our entries trusts; nothing decodable counts as nothing."""
    found = []
    for entry in configuration.get("webhooks") or ():
        try:
            found.append(base64.b64decode(entry["clientConfig"].get("caBundle") or ""))
        except (binascii.Error, KeyError, ValueError):
            found.append(b"")
    return found


class Upkeep:
    """The leader's care for the caBundle of whatever is registered. `run` belongs into a task group."""

    def __init__(self, store: Store, *, home: str, written: Callable[[], None] = lambda: None) -> None:
        """`written` is called when a caBundle was: whoever waits for clients' trust may look again."""
        self._store = store
        self._home = home
        self._written = written
        self._bundle = b""
        self._woken = asyncio.Event()
        self.error = ""
        """The last failure to write, empty after a success."""
        self._caches: dict[Resource, Cache[Object]] = {
            resource: Cache(
                store,
                resource,
                projection=without_managed_fields,
                field_selector=f"metadata.name={NAME}",
            )
            for resource, _ in CONFIGURATIONS
        }
        for cache in self._caches.values():
            cache.subscribe(lambda _old, _new: self._woken.set())

    def want(self, bundle: bytes) -> None:
        self._bundle = bundle
        self._woken.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for cache in self._caches.values():
                group.create_task(cache.run())
            while True:
                await self._woken.wait()
                self._woken.clear()
                try:
                    await self._repair()
                    self.error = ""
                except ApiError as error:
                    self.error = f"cannot be written: {error}"
                    await asyncio.sleep(RETRY_SECONDS)
                    self._woken.set()

    @property
    def errors(self) -> dict[str, str]:
        """What is in the way of the repair, by what it concerns; empty texts where nothing is."""
        watches = {
            f"watch of {resource.kind}": cache.health.error for resource, cache in self._caches.items()
        }
        return {"caBundle": self.error, **watches}

    async def published(self, certificate: bytes) -> bool:
        """Whether every entry that is registered trusts this authority; true where nothing is registered."""
        wanted = set(split_bundle(certificate))
        for resource, _ in CONFIGURATIONS:
            held = await queries.find(self._store, resource, name=NAME) or {}
            if not all(wanted <= set(split_bundle(bundle)) for bundle in bundles_of(held)):
                return False
        return True

    async def _repair(self) -> None:
        if not self._bundle:
            return
        stale = {
            resource: held
            for resource, cache in self._caches.items()
            if (held := cache.get(NAME)) is not None
            and any(found != self._bundle for found in bundles_of(held))
        }
        if not stale or await is_unregistered(self._store, home=self._home):
            return
        for resource, held in stale.items():
            with suppress(NotFoundError, ConflictError):  # the watch tells what it is now
                await self._write(resource, held)

    async def _write(self, resource: Resource, held: Object) -> None:
        encoded = base64.b64encode(self._bundle).decode()
        patch: list[dict[str, Any]] = []
        for index, (entry, found) in enumerate(zip(held["webhooks"], bundles_of(held), strict=True)):
            if found != self._bundle:
                patch += [
                    {"op": "test", "path": f"/webhooks/{index}/name", "value": entry["name"]},
                    {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": encoded},
                ]
        await self._store.patch(resource, patch, name=NAME, kind=PatchKind.JSON, field_manager=CA_MANAGER)
        log.info("wrote the caBundle", **{logs.KIND: resource.kind, logs.NAME: NAME})
        self._written()
