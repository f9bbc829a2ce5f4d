"""Moving the objects of all Applications to another tracking method, before Argo CD's setting changes.

What has been done is on the objects themselves: an object that is ready needs nothing, so a run that was
interrupted is simply started again, and the way back is the same way.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import NoReturn, Protocol

from argocd import names, reading
from argocd.engine.directory import Directory, Shelf
from argocd.engine.sections import ConfigurationProblem
from argocd.judging.case import Surroundings
from argocd.judging.configuration import Configuration
from argocd.settings.argocd_cm import TrackingMethod, read_settings
from argocd.tracking.marks import TrackingMarks
from argocd.tracking.migration import Migration, Risk, migrate
from argocd.tracking.owners import is_deployed_here
from kube import queries
from kube.errors import ConflictError
from kube.resources import APPLICATIONS, CONFIG_MAPS, SECRETS
from kube.store import Object, PatchKind, Resource, Store
from tiphys.errors import SurroundingsError
from webhook.admission.cluster_state import Scope
from webhook.admission.configuration_map import find_configuration

SIDE_BY_SIDE = 8
"""Objects read and written at once: enough to hide the way to the API server, far from its limits."""

ATTEMPTS = 3
"""An object that somebody else writes at the same moment is read again this often."""


class MigrationStore(Store, Protocol):
    async def discover(self, *, group: str, version: str) -> dict[str, Resource]: ...


@dataclass(frozen=True, slots=True)
class Listed:
    """An object as an Application's status lists it."""

    application: str
    group: str
    version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        where = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {where}{self.name} of {self.application}"


@dataclass(frozen=True, slots=True)
class Moved:
    """`trouble` is empty where the object is or would be ready for the new method."""

    listed: Listed
    prepared: bool = False
    trouble: str = ""


@dataclass(slots=True)
class Move:
    """What was found and done so far."""

    before: TrackingMethod
    after: TrackingMethod
    ready: int = 0
    prepared: int = 0
    troubles: list[str] = field(default_factory=list)
    switched: bool = False


class MethodMigration:
    """One move of one Argo CD; `really` is False for a dry run, which writes nothing."""

    def __init__(
        self,
        store: MigrationStore,
        scope: Scope,
        *,
        to: TrackingMethod,
        really: bool,
        told: Callable[[Moved], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._scope = scope
        self._to = to
        self._really = really
        self._told = told
        self._kinds: dict[tuple[str, str], dict[str, Resource]] = {}

    async def run(self) -> Move:
        """Every listed object, then argocd-cm, but that only if none of them is in trouble."""
        surroundings, held = await self._surroundings()
        move = Move(before=surroundings.settings.tracking_method, after=self._to)
        running: set[asyncio.Task[Moved]] = set()
        try:
            async for listed in self._listed(surroundings):
                if len(running) >= SIDE_BY_SIDE:
                    running = self._collect(
                        move, *await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                    )
                running.add(asyncio.create_task(self._one(listed, surroundings)))
            if running:
                running = self._collect(move, *await asyncio.wait(running))
        finally:
            # The first error ends the move; those of the others would be printed with their tracebacks.
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        if self._really and not move.troubles and move.before is not move.after:
            await self._switch(held)
            move.switched = True
        return move

    def _collect(
        self, move: Move, done: set["asyncio.Task[Moved]"], pending: set["asyncio.Task[Moved]"]
    ) -> set["asyncio.Task[Moved]"]:
        for task in done:
            moved = task.result()
            if moved.trouble:
                move.troubles.append(f"{moved.listed} {moved.trouble}")
            elif moved.prepared:
                move.prepared += 1
            else:
                move.ready += 1
            self._told(moved)
        return pending

    async def _surroundings(self) -> tuple[Surroundings, Object]:
        scope = self._scope
        configuration = await _configuration(self._store, scope)
        held = await queries.find(
            self._store, CONFIG_MAPS, name=names.ARGOCD_CM, namespace=scope.argocd_namespace
        )
        if held is None:
            raise SurroundingsError(
                f"there is no ConfigMap {names.ARGOCD_CM} in {scope.argocd_namespace}:"
                " is that Argo CD's namespace (--argocd-namespace)?"
            )
        directory = Directory(argocd_namespace=scope.argocd_namespace, known=[Shelf.SECRETS])
        page = await self._store.list(
            SECRETS,
            namespace=scope.argocd_namespace,
            label_selector=f"{names.SECRET_TYPE}={names.SECRET_TYPE_CLUSTER}",
        )
        for secret in page.items:
            directory.put_secret(secret)
        settings = read_settings(held, configuration=configuration)
        return Surroundings(settings=settings, configuration=configuration, neighbours=directory), held

    async def _listed(self, surroundings: Surroundings) -> AsyncIterator[Listed]:
        for namespace in (self._scope.argocd_namespace, *self._scope.application_namespaces):
            async with aclosing(queries.pages(self._store, APPLICATIONS, namespace=namespace)) as pages:
                async for page in pages:
                    for application in page:
                        if is_deployed_here(application, surroundings):
                            for listed in _resources(application):
                                yield listed

    async def _one(self, listed: Listed, surroundings: Surroundings) -> Moved:
        resource = (await self._discovered(listed)).get(listed.kind)
        if resource is None:
            return Moved(listed, trouble="is of a kind that this API server does not have")
        namespace = listed.namespace if resource.namespaced else None
        for _ in range(ATTEMPTS):
            thing = await queries.find(self._store, resource, name=listed.name, namespace=namespace)
            if thing is None:
                return Moved(listed)  # deleted since it was listed
            migration = self._migration(thing, listed, surroundings)
            if migration.risk is not Risk.NONE:
                return Moved(listed, trouble=migration.risk.value)
            if migration.prepare == TrackingMarks():
                return Moved(listed)
            if not self._really:
                return Moved(listed, prepared=True)
            try:
                await self._mark(resource, thing, migration.prepare, namespace=namespace)
            except ConflictError:
                continue
            return Moved(listed, prepared=True)
        return Moved(listed, trouble="is written by somebody else all the time; start again later")

    def _migration(self, thing: Object, listed: Listed, surroundings: Surroundings) -> Migration:
        return migrate(
            thing,
            before=surroundings.settings,
            after=replace(surroundings.settings, tracking_method=self._to),
            version=surroundings.configuration.argocd.version,
            destination_namespace=listed.namespace,
        )

    async def _mark(
        self, resource: Resource, thing: Object, marks: TrackingMarks, *, namespace: str | None
    ) -> None:
        metadata = {
            "resourceVersion": thing["metadata"]["resourceVersion"],
            "labels": dict(marks.labels),
            "annotations": dict(marks.annotations),
        }
        await self._store.patch(
            resource,
            {"metadata": metadata},
            name=thing["metadata"]["name"],
            namespace=namespace,
            kind=PatchKind.MERGE,
        )

    async def _discovered(self, listed: Listed) -> dict[str, Resource]:
        key = (listed.group, listed.version)
        if key not in self._kinds:
            self._kinds[key] = await self._store.discover(group=listed.group, version=listed.version)
        return self._kinds[key]

    async def _switch(self, held: Object) -> None:
        """Last, and only over the argocd-cm that the move was worked out for."""
        patch = {
            "metadata": {"resourceVersion": held["metadata"]["resourceVersion"]},
            "data": {names.TRACKING_METHOD_KEY: self._to.value},
        }
        try:
            await self._store.patch(
                CONFIG_MAPS,
                patch,
                name=names.ARGOCD_CM,
                namespace=self._scope.argocd_namespace,
                kind=PatchKind.MERGE,
            )
        except ConflictError as error:
            raise SurroundingsError(
                f"{names.ARGOCD_CM} changed meanwhile; all objects are prepared, start again to switch"
            ) from error


def _resources(application: Object) -> Iterator[Listed]:
    metadata, default = application["metadata"], reading.text(application, "spec", "destination", "namespace")
    for resource in reading.sequence(application, "status", "resources"):
        if reading.value(resource, "requiresPruning") is not True:
            yield Listed(
                application=f"{metadata['namespace']}/{metadata['name']}",
                group=reading.text(resource, "group"),
                version=reading.text(resource, "version"),
                kind=reading.text(resource, "kind"),
                namespace=reading.text(resource, "namespace") or default,
                name=reading.text(resource, "name"),
            )


async def _configuration(store: Store, scope: Scope) -> Configuration:
    def refuse(_: Configuration, problems: Sequence[ConfigurationProblem]) -> NoReturn:
        raise SurroundingsError(f"ConfigMap {scope.home}/{names.TIPHYS_CONFIG_MAP}: {problems[0]}")

    configuration = await find_configuration(store, home=scope.home, broken=refuse)
    argocd = replace(configuration.argocd, namespace=scope.argocd_namespace)
    return replace(configuration, argocd=argocd)
