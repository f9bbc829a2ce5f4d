"""The four clusters of the demonstration, and what happens on them told in lines."""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any

import click
import yaml

from argocd import names
from argocd.reading import value
from demo.fence import FenceAdmission
from kube.embedded import EmbeddedStore
from kube.errors import ApiError
from kube.resources import APP_PROJECTS, APPLICATIONS, CONFIG_MAPS, PODS
from kube.store import Identity, Object, Resource, Store, WatchEventKind
from tiphys.errors import SurroundingsError

ARGOCD, TIPHYS, TEAM = names.DEFAULT_NAMESPACE, names.TIPHYS_NAMESPACE, "team-web"
CONTROL_PLANE, SECOND_REGION, MANAGED, AUTONOMOUS = "control-plane", "control-plane-2", "prod", "edge"
NAMESPACES_OF = {
    CONTROL_PLANE: (ARGOCD, TIPHYS, TEAM, MANAGED, AUTONOMOUS),
    SECOND_REGION: (ARGOCD, TIPHYS, MANAGED, AUTONOMOUS),
    MANAGED: (ARGOCD,),
    AUTONOMOUS: (ARGOCD,),
}
ARRIVE_SECONDS = 30.0
DEVELOPER = Identity("dora", ("developers", "system:authenticated"))
CONTROLLER = Identity(f"system:serviceaccount:{ARGOCD}:argocd-application-controller", ())
KINDS = {resource.kind.lower(): resource for resource in (APP_PROJECTS, APPLICATIONS, CONFIG_MAPS, PODS)}


class DemoClusters(ABC):
    """Warnings of an API server are kept until they are told; others write at the same time and have their own."""

    def __init__(self, stores: Mapping[str, Store]) -> None:
        self.stores = stores
        """Each as its administrator."""
        self._writer = ""
        self._warnings: list[str] = []

    def warned(self, user: str, warning: str) -> None:
        if user == self._writer:
            self._warnings.append(warning)

    @abstractmethod
    async def as_user(self, cluster: str, user: Identity) -> Store:
        """The cluster as somebody sees it; closed with the others."""

    async def write(
        self, cluster: str, thing: Object, *, user: Identity = DEVELOPER
    ) -> tuple[Object | None, list[str]]:
        """As `kubectl apply` would: what was stored, or None; and what the API server said."""
        resource = KINDS[thing["kind"].lower()]
        store = await self.as_user(cluster, user)
        self._writer = user.user
        self._warnings.clear()
        said: list[str] = []
        stored: Object | None = None
        metadata = thing["metadata"]
        namespace = metadata.get("namespace") or ARGOCD
        try:
            stored = await _apply(store, resource, thing, namespace=namespace)
        except ApiError as error:
            said += str(error).splitlines()
        return stored, [*(f"Warning: {warning}" for warning in self._warnings), *said]


class EmbeddedClusters(DemoClusters):
    """In this process."""

    def __init__(self) -> None:
        self._embedded = {
            cluster: EmbeddedStore(namespaces=list(namespaces))
            for cluster, namespaces in NAMESPACES_OF.items()
        }
        for cluster in (CONTROL_PLANE, SECOND_REGION):
            store = self._embedded[cluster]
            store.hooks.admission = FenceAdmission(store)
        super().__init__(self._embedded)

    @property
    def control_plane(self) -> EmbeddedStore:
        return self._embedded[CONTROL_PLANE]

    async def as_user(self, cluster: str, user: Identity) -> EmbeddedStore:
        return self._embedded[cluster].as_user(user)


async def _apply(store: Store, resource: Resource, thing: Object, *, namespace: str) -> Object:
    name = thing["metadata"]["name"]
    there: Object | None = None
    with contextlib.suppress(ApiError):
        there = await store.get(resource, name=name, namespace=namespace)
    if there is None:
        return await store.create(resource, thing, namespace=namespace)
    metadata = {**there["metadata"]}
    for section in ("labels", "annotations"):
        wanted = {**(metadata.get(section) or {}), **(thing["metadata"].get(section) or {})}
        if wanted:
            metadata[section] = wanted
    return await store.replace(resource, {**there, **thing, "metadata": metadata})


async def arrived(
    store: Store,
    resource: Resource,
    name: str,
    *,
    namespace: str = ARGOCD,
    holds: Callable[[Object], Any] = bool,
    seconds: float = ARRIVE_SECONDS,
) -> Object:
    """Watches until the object is there and as it should be."""
    with contextlib.suppress(TimeoutError):
        async with (
            asyncio.timeout(seconds),
            aclosing(store.watch(resource, namespace=namespace, resource_version="0")) as events,
        ):
            async for event in events:
                kind, thing = event.kind, event.object
                if (
                    kind not in {WatchEventKind.ADDED, WatchEventKind.MODIFIED}
                    or thing["metadata"]["name"] != name
                ):
                    continue
                if holds(thing):
                    return thing
    raise SurroundingsError(f"{resource.kind} {name} did not arrive within {seconds:g} s")


def project(name: str, *, labels: dict[str, str] | None = None, **spec: Any) -> Object:
    return {
        "apiVersion": APP_PROJECTS.api_version,
        "kind": APP_PROJECTS.kind,
        "metadata": {"name": name, "namespace": ARGOCD, **({"labels": labels} if labels else {})},
        "spec": spec,
    }


def application(name: str, *, namespace: str, **spec: Any) -> Object:
    return {
        "apiVersion": APPLICATIONS.api_version,
        "kind": APPLICATIONS.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def config_map(
    name: str, *, namespace: str, data: dict[str, str], annotations: dict[str, str] | None = None
) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": namespace,
            **({"annotations": annotations} if annotations else {}),
        },
        "data": data,
    }


def show(thing: Any) -> None:
    """As YAML, indented below the line that introduced it; sorted, as API servers answer."""
    tell(yaml.safe_dump(thing).rstrip().splitlines())


def tell(lines: list[str]) -> None:
    for line in lines:
        click.echo(f"      {line}" if line else "")


def tell_stored(thing: Object, cluster: str) -> None:
    """By its description where it has one: that is what the story changes."""
    description = value(thing, "spec", "description")
    what = f", description: {description}" if description else ""
    tell([f"{thing['kind'].lower()} {thing['metadata']['name']}: stored on {cluster}{what}"])
