"""What a cluster holds, listed in pages, so that memory does not grow with it."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from argocd import names
from argocd.engine.directory import Directory, Shelf
from argocd.engine.summaries import summarize_secret
from argocd.judging.configuration import Configuration
from checks.known_objects import KnownObjects
from kube import queries
from kube.errors import ForbiddenError, NotFoundError
from kube.resources import APP_PROJECTS, APPLICATIONS, CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS
from kube.store import Object, Resource, Store

PAGE = 200
"""Objects of a request: an Application with its status has up to 40 KB, so a page has some megabytes."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Lists what it may: all namespaces, else Argo CD's own. `notes` hears what is not seen."""

    store: Store
    argocd_namespace: str
    notes: list[str]

    def pages(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        metadata_only: bool = False,
    ) -> AsyncGenerator[list[Object], None]:
        return queries.pages(
            self.store,
            resource,
            namespace=namespace,
            label_selector=label_selector,
            limit=PAGE,
            metadata_only=metadata_only,
        )

    async def everywhere(
        self, resource: Resource, *, label_selector: str = ""
    ) -> AsyncGenerator[list[Object], None]:
        """All namespaces, or Argo CD's where the others are not for us to see."""
        try:
            async with aclosing(self.pages(resource, label_selector=label_selector)) as pages:
                async for items in pages:
                    yield items
        except ForbiddenError:
            self.notes.append(
                f"{resource.plural} are only seen in {self.argocd_namespace}: no right to list all"
            )
        else:
            return
        namespace = self.argocd_namespace
        async with aclosing(
            self.pages(resource, namespace=namespace, label_selector=label_selector)
        ) as pages:
            async for items in pages:
                yield items


async def survey(
    store: Store,
    configuration: Configuration,
    *,
    applications: bool = True,
    seen: Callable[[int], None] = lambda _: None,
) -> KnownObjects:
    """The neighbours that a cluster holds: summaries, and never a secret's data."""
    namespace = configuration.argocd.namespace
    known = KnownObjects(Directory(argocd_namespace=namespace))
    listing = Listing(store, namespace, known.notes)
    known.settings = await queries.find(store, CONFIG_MAPS, name=names.ARGOCD_CM, namespace=namespace)
    known.parameters = await queries.find(
        store, CONFIG_MAPS, name=names.ARGOCD_CMD_PARAMS_CM, namespace=namespace
    )
    directory = known.directory

    def put_secret(secret: Mapping[str, Any]) -> None:
        directory.put_secret(summarize_secret(secret))

    shelves: list[tuple[Shelf, AsyncIterator[list[Object]], Callable[[Object], None]]] = [
        (Shelf.PROJECTS, listing.pages(APP_PROJECTS, namespace=namespace), directory.put_project),
        (
            Shelf.SECRETS,
            listing.pages(SECRETS, namespace=namespace, label_selector=names.SECRET_TYPE),
            put_secret,
        ),
        (
            Shelf.SECRET_NAMES,
            listing.pages(SECRETS, namespace=namespace, metadata_only=True),
            directory.put_secret_name,
        ),
        (
            Shelf.CONFIG_MAP_NAMES,
            listing.pages(CONFIG_MAPS, namespace=namespace, metadata_only=True),
            directory.put_config_map_name,
        ),
        (Shelf.ACCOUNTS, listing.everywhere(SERVICE_ACCOUNTS), directory.put_account),
    ]
    if applications:
        shelves.append((Shelf.APPLICATIONS, listing.everywhere(APPLICATIONS), directory.put_application))
    for shelf, pages, keep in shelves:
        try:
            async for items in pages:
                for item in items:
                    keep(item)
                seen(len(items))
        except (ForbiddenError, NotFoundError) as error:
            known.notes.append(f"{shelf} are not seen, so rules about them keep silent: {error}")
        else:
            directory.know(shelf)
    return known
