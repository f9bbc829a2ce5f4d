"""Judges what is in a cluster already, page by page.

A page is judged by the rules about single objects while it is here, and then only what neighbours ask for is
kept. Rules about neighbours are asked when all neighbours are known.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

from argocd import names, reading
from argocd.engine.directory import Shelf
from argocd.engine.judge import judge
from argocd.engine.summaries import summarize_application
from argocd.judging.case import Case, Kind, Rule, Surroundings, kind_of
from argocd.judging.configuration import Configuration
from argocd.rules.catalogue import CATALOGUE
from argocd.tracking.marks import application_of
from checks.findings import CheckResult, name_of, placed
from checks.known_objects import KnownObjects
from checks.manifests import Place, Unreadable
from checks.survey import Listing, survey
from kube import queries
from kube.errors import ForbiddenError, NotFoundError
from kube.projections import shared
from kube.resources import APP_PROJECTS, APPLICATION_SETS, APPLICATIONS, CONFIG_MAPS, SECRETS
from kube.store import Object, Resource, Store

ALONE: Sequence[Rule] = tuple(rule for rule in CATALOGUE if not rule.neighbours)
TOGETHER: Sequence[Rule] = tuple(rule for rule in CATALOGUE if rule.neighbours)


@dataclass(frozen=True, slots=True)
class ScannedObject:
    """What a finding is about, for summaries and reports."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    owner: str


@dataclass(slots=True)
class Scanned:
    """`subjects` has one entry for each finding, in the same order. `complete`: everything could be listed."""

    result: CheckResult
    subjects: list[ScannedObject] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    complete: bool = True


class Scan:
    def __init__(
        self,
        store: Store,
        configuration: Configuration,
        *,
        today: date,
        kinds: Sequence[Resource] = (),
        seen: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`kinds` are judged besides Argo CD's own; `seen` hears how many objects came."""
        self._store = store
        self._configuration = configuration
        self._today = today
        self._kinds = kinds
        self._seen = seen
        self._scanned = Scanned(CheckResult([], []))

    async def run(self) -> Scanned:
        known = await survey(self._store, self._configuration, applications=False)
        self._scanned.notes = known.notes
        surroundings = known.surroundings(self._configuration)
        listing = Listing(self._store, self._configuration.argocd.namespace, known.notes)
        namespace = self._configuration.argocd.namespace
        policies = await queries.find(
            self._store, CONFIG_MAPS, name=names.ARGOCD_RBAC_CM, namespace=namespace
        )
        for settings in (known.settings, policies, known.parameters):
            if settings is not None:
                self._judge(settings, surroundings, CATALOGUE)
        await self._applications(listing, known, surroundings)
        for resource, pages in self._others(listing):
            await self._all(resource, pages, surroundings)
        self._scanned.complete = not (known.notes or self._scanned.result.unreadable)
        if known.settings is None:
            known.notes.append(
                f"there is no {names.ARGOCD_CM} in {namespace}, so its defaults are meant:"
                " --argocd-namespace says where Argo CD is"
            )
        return self._scanned

    def _others(self, listing: Listing) -> Iterable[tuple[Resource, AsyncIterator[list[Object]]]]:
        yield APP_PROJECTS, listing.everywhere(APP_PROJECTS)
        yield APPLICATION_SETS, listing.everywhere(APPLICATION_SETS)
        yield SECRETS, listing.everywhere(SECRETS, label_selector=names.SECRET_TYPE)
        for resource in self._kinds:
            yield resource, listing.everywhere(resource)

    async def _applications(self, listing: Listing, known: KnownObjects, surroundings: Surroundings) -> None:
        kept: list[Object] = []
        keep = shared(_neighbour)

        async def pages() -> AsyncIterator[list[Object]]:
            async for items in listing.everywhere(APPLICATIONS):
                for item in items:
                    summary = keep(item)
                    kept.append(summary)
                    known.directory.put_application(summary)
                yield items

        if await self._all(APPLICATIONS, pages(), surroundings, rules=ALONE):
            known.directory.know(Shelf.APPLICATIONS)
        for summary in kept:
            self._judge(summary, surroundings, TOGETHER, count=False)

    async def _all(
        self,
        resource: Resource,
        pages: AsyncIterator[list[Object]],
        surroundings: Surroundings,
        rules: Sequence[Rule] = CATALOGUE,
    ) -> bool:
        try:
            async for items in pages:
                for item in items:
                    if (
                        resource not in self._kinds or kind_of(item) is Kind.ANY
                    ):  # others are judged as what they are
                        self._judge(item, surroundings, rules)
                self._seen(len(items))
        except NotFoundError:
            return True  # a cluster without that kind has none of it
        except ForbiddenError as error:
            self._scanned.result.unreadable.append(Unreadable(Place(resource.plural, 0, 0), str(error)))
            return False
        return True

    def _judge(
        self,
        thing: Mapping[str, Any],
        surroundings: Surroundings,
        rules: Sequence[Rule],
        *,
        count: bool = True,
    ) -> None:
        result = self._scanned.result
        result.objects += count
        case = Case(kind=kind_of(thing), object=thing, surroundings=surroundings)
        judgements = judge(case, today=self._today, rules=rules)
        if judgements:
            subject = subject_of(thing, surroundings)
            place = Place(f"{subject.kind}/{subject.namespace}/{subject.name}", 0, 0)
            for judgement in judgements:
                result.findings.append(placed(judgement, place=place, about=name_of(thing)))
                self._scanned.subjects.append(subject)


def _neighbour(application: Object) -> Object:
    """What other Applications and the rules about neighbours ask for; not what it lists."""
    kept = dict(summarize_application({key: part for key, part in application.items() if key != "status"}))
    finalizers = reading.value(application, "metadata", "finalizers")
    return {**kept, "metadata": {**kept["metadata"], "finalizers": finalizers}} if finalizers else kept


def subject_of(thing: Mapping[str, Any], surroundings: Surroundings) -> ScannedObject:
    metadata = reading.mapping(thing, "metadata")
    return ScannedObject(
        api_version=reading.text(thing, "apiVersion"),
        kind=reading.text(thing, "kind"),
        namespace=reading.text(metadata, "namespace"),
        name=reading.text(metadata, "name"),
        uid=reading.text(metadata, "uid"),
        owner=_owner(thing, surroundings),
    )


def _owner(thing: Mapping[str, Any], surroundings: Surroundings) -> str:
    """Who should hear of a finding: what made the object, else the project that it belongs to."""
    for reference in reading.sequence(thing, "metadata", "ownerReferences"):
        return f"{reading.text(reference, 'kind')} {reading.text(reference, 'name')}"
    version = surroundings.configuration.argocd.version
    if parent := application_of(thing, settings=surroundings.settings, version=version):
        return f"Application {parent}"
    if kind_of(thing) is Kind.APPLICATION:
        return f"AppProject {reading.text(thing, 'spec', 'project') or 'default'}"
    return ""


def sorted_by_place(scanned: Scanned) -> Scanned:
    """Findings of one object beside each other: Applications are judged twice."""
    order = sorted(range(len(scanned.subjects)), key=lambda index: scanned.result.findings[index].place.file)
    result = replace(scanned.result, findings=[scanned.result.findings[index] for index in order])
    return replace(scanned, result=result, subjects=[scanned.subjects[index] for index in order])
