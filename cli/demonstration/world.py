"""The three clusters of the demonstration, and what happens on them told in lines."""

import asyncio
import contextlib
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import click
import yaml

from argocd import names
from kube.embedded import EmbeddedStore
from kube.errors import ApiError
from kube.resources import APP_PROJECTS, APPLICATIONS, CONFIG_MAPS, PODS
from kube.store import EventKind, Identity, Object, Resource
from tiphys.errors import SurroundingsError

ARGOCD, HOME, TEAM = names.DEFAULT_NAMESPACE, names.TIPHYS_NAMESPACE, "team-web"
MANAGED, AUTONOMOUS = "prod", "edge"
ARRIVE_SECONDS = 30.0
DEVELOPER = Identity("dora", ("developers", "system:authenticated"))
KINDS = {resource.kind.lower(): resource for resource in (APP_PROJECTS, APPLICATIONS, CONFIG_MAPS, PODS)}


class World:
    """Warnings of the control plane's admission are kept until they are told."""

    def __init__(self) -> None:
        self.control_plane = EmbeddedStore(namespaces=[ARGOCD, HOME, TEAM, MANAGED, AUTONOMOUS])
        self.managed = EmbeddedStore(namespaces=[ARGOCD])
        self.autonomous = EmbeddedStore(namespaces=[ARGOCD])
        self.warnings: list[str] = []
        self.control_plane.hooks.on_warning = self.warnings.append

    @property
    def clusters(self) -> dict[str, EmbeddedStore]:
        return {"control-plane": self.control_plane, MANAGED: self.managed, AUTONOMOUS: self.autonomous}

    async def write(
        self, cluster: str, thing: Object, *, user: Identity = DEVELOPER
    ) -> tuple[Object | None, list[str]]:
        """As `kubectl apply` would: what was stored, or None; and what the API server said."""
        resource = KINDS[thing["kind"].lower()]
        store = self.clusters[cluster].as_user(user)
        self.warnings.clear()
        said: list[str] = []
        stored: Object | None = None
        metadata = thing["metadata"]
        namespace = metadata.get("namespace") or ARGOCD
        try:
            stored = await _apply(store, resource, thing, namespace=namespace)
        except ApiError as error:
            said += str(error).splitlines()
        return stored, [*(f"Warning: {warning}" for warning in self.warnings), *said]


async def _apply(store: EmbeddedStore, resource: Resource, thing: Object, *, namespace: str) -> Object:
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
    store: EmbeddedStore,
    resource: Resource,
    name: str,
    *,
    namespace: str = ARGOCD,
    holds: Callable[[Object], Any] = bool,
) -> Object:
    """Watches until the object is there and as it should be."""
    with contextlib.suppress(TimeoutError):
        async with (
            asyncio.timeout(ARRIVE_SECONDS),
            aclosing(store.watch(resource, namespace=namespace, resource_version="0")) as events,
        ):
            async for event in events:
                kind, thing = event.kind, event.object
                if kind not in {EventKind.ADDED, EventKind.MODIFIED} or thing["metadata"]["name"] != name:
                    continue
                if holds(thing):
                    return thing
    raise SurroundingsError(f"{resource.kind} {name} did not arrive within {ARRIVE_SECONDS:g} s")


def project(name: str, *, labels: dict[str, str] | None = None, **spec: Any) -> Object:
    return {
        "apiVersion": APP_PROJECTS.api_version,
        "kind": APP_PROJECTS.kind,
        "metadata": {"name": name, "namespace": ARGOCD, **({"labels": labels} if labels else {})},
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
    """As YAML, indented below the line that introduced it."""
    tell(yaml.safe_dump(thing, sort_keys=False).rstrip().splitlines())


def tell(lines: list[str]) -> None:
    for line in lines:
        click.echo(f"      {line}" if line else "")
