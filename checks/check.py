"""Manifests judged without a cluster: the same rules as the webhook's, with each other as neighbours."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import islice
from typing import Any

from argocd import names, reading
from argocd.engine.directory import Directory, Shelf
from argocd.engine.judge import Judgement, judge
from argocd.judging.case import Action, Case, Kind, Surroundings
from argocd.judging.configuration import Configuration
from argocd.judging.kinds import kind_of
from argocd.settings.argocd_cm import read_settings
from checks.manifests import STDIN, Manifest, Place, Unreadable, read_file
from checks.packing import Packed, Packs

Object = Mapping[str, Any]

MANY_FILES = 400
"""From here on several processes pay: each costs a third of a second to start."""

CHUNK = 50

_HOMELESS = frozenset(
    {Kind.PROJECT, Kind.APPLICATION, Kind.APPLICATION_SET, Kind.REPOSITORY, Kind.CLUSTER, Kind.ARGOCD_CM}
)
_MARKS = frozenset({names.TRACKING_ID, names.PROPOSED_TRACKING_ID, names.INSTALLATION_ID})
"""Annotations of any object that Argo CD's settings give their meaning."""

Item = tuple[int, str]
"""Which object of a file: the document's number, and the place in a List."""


@dataclass(frozen=True, slots=True)
class PlacedFinding:
    """One finding at its place; `about` names the object, `item` says which one of the file it is."""

    rule: str
    action: Action
    place: Place
    path: str
    message: str
    hint: str
    about: str
    exempted: str = ""
    item: Item = (0, "")


@dataclass(slots=True)
class CheckResult:
    findings: list[PlacedFinding]
    unreadable: list[Unreadable]
    files: int = 0
    objects: int = 0


_Kept = tuple[str, Item, str, dict[str, Any]]
"""File, item, kind and body of an object that waits for its neighbours; plain data, to be packed."""


@dataclass(slots=True)
class _Read:
    findings: list[PlacedFinding]
    unreadable: list[Unreadable]
    kept: list[_Kept]
    objects: int


@dataclass(slots=True)
class Survey:
    """What is known of a cluster: its neighbours, and the two ConfigMaps that hold Argo CD's settings."""

    directory: Directory
    settings: Object | None = None
    parameters: Object | None = None
    notes: list[str] = field(default_factory=list)

    def surroundings(self, configuration: Configuration) -> Surroundings:
        return Surroundings(
            settings=read_settings(
                self.settings, configuration=configuration, command_parameters=self.parameters
            ),
            configuration=configuration,
            neighbours=self.directory,
        )


def judge_files(
    files: Sequence[str],
    configuration: Configuration,
    *,
    today: date,
    processes: int = 1,
    read: Iterator[int] | None = None,
    around: Survey | None = None,
) -> CheckResult:
    """All objects of the files. Those that need nothing else of the run are judged while their file is read.

    `around` is what a cluster already holds; an object of the files stands for the one of its name there.
    """
    result = CheckResult([], [], files=len(files))
    known = around or _nothing_known(configuration)
    waiting = Packs()
    for told in _read_all(files, configuration, today=today, processes=processes):
        result.findings += told.findings
        result.unreadable += told.unreadable
        result.objects += told.objects
        for held in told.kept:
            put(held[-1], known)
            waiting.add(held)
        if read is not None:
            next(read, None)
    surroundings = known.surroundings(configuration)
    wrong: dict[str, dict[Item, tuple[str, list[Judgement]]]] = {}
    for file, item, kind, body in waiting:
        judgements = judge(Case(kind=Kind(kind), object=body, surroundings=surroundings), today=today)
        if judgements:
            wrong.setdefault(file, {})[item] = (about(body), judgements)
    for file, found in wrong.items():
        result.findings += _located(file, found)
    named = {found.place.file for found in result.findings}
    order = {file: index for index, file in enumerate(files) if file in named}
    result.findings.sort(
        key=lambda found: (order.get(found.place.file, 0), found.place.line, found.place.column, found.rule)
    )
    return result


def surroundings_of(
    objects: Iterable[Object], configuration: Configuration, *, around: Survey | None = None
) -> Surroundings:
    """What these objects know of each other. A kind of which there is none is not known."""
    known = around or _nothing_known(configuration)
    for thing in objects:
        put(thing, known)
    return known.surroundings(configuration)


def _nothing_known(configuration: Configuration) -> Survey:
    return Survey(Directory(argocd_namespace=configuration.argocd.namespace, mapping=Packed))


def put(thing: Object, known: Survey) -> None:
    """One more object that others may ask for."""
    directory = known.directory
    kind = kind_of(thing)
    if kind is Kind.PROJECT:
        directory.put_project(thing)
        directory.know(Shelf.PROJECTS)
    elif kind is Kind.APPLICATION:
        directory.put_application(thing)
        directory.know(Shelf.APPLICATIONS)
    elif kind in {Kind.REPOSITORY, Kind.CLUSTER}:
        directory.put_secret(thing)
        directory.know(Shelf.SECRETS)
    elif kind is Kind.ARGOCD_CM:
        known.settings = thing
    elif _is_parameters(thing):
        known.parameters = thing
    elif reading.text(thing, "kind") == "ServiceAccount":
        directory.put_account(thing)


def _is_parameters(thing: Object) -> bool:
    name = reading.text(thing, "metadata", "name")
    return reading.text(thing, "kind") == "ConfigMap" and name == names.ARGOCD_CMD_PARAMS_CM


def _read_all(
    files: Sequence[str], configuration: Configuration, *, today: date, processes: int
) -> Iterator[_Read]:
    if processes <= 1 or len(files) < MANY_FILES:
        yield from _read_many(files, configuration, today)
        return
    # Only here: a pipeline with few files does not wait for the import.
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415

    if STDIN in files:
        yield from _read_many([STDIN], configuration, today)  # other processes have another standard input
        files = [file for file in files if file != STDIN]
    pieces = iter(files)
    chunks = iter(lambda: list(islice(pieces, CHUNK)), [])
    with ProcessPoolExecutor(processes) as pool:
        # Not `map`: it would hand out all chunks, and keep all results, at once.
        running = [
            pool.submit(_read_chunk, chunk, configuration, today) for chunk in islice(chunks, processes * 2)
        ]
        while running:
            yield from running.pop(0).result()
            running += [pool.submit(_read_chunk, chunk, configuration, today) for chunk in islice(chunks, 1)]


def _read_chunk(files: list[str], configuration: Configuration, today: date) -> list[_Read]:
    return list(_read_many(files, configuration, today))


def _read_many(files: Iterable[str], configuration: Configuration, today: date) -> Iterator[_Read]:
    alone = surroundings_of((), configuration)
    for file in files:
        yield _read_one(file, alone, today)


def _read_one(file: str, alone: Surroundings, today: date) -> _Read:
    told = _Read([], [], [], 0)
    for found in read_file(file):
        if isinstance(found, Unreadable):
            told.unreadable.append(found)
            continue
        told.objects += 1
        kind = kind_of(found.body)
        if kind is Kind.ANY and not waits(found.body):
            judgements = judge(Case(kind=kind, object=found.body, surroundings=alone), today=today)
            told.findings += [_found(found, judgement) for judgement in judgements]
        else:
            body = dict(at_home(found.body, alone.configuration))
            told.kept.append((file, (found.document, found.where), kind.value, body))
    return told


def waits(thing: Object) -> bool:
    """Whether others may ask for this object of no kind of Argo CD's, or argocd-cm decides what is said of it."""
    return (
        _is_parameters(thing)
        or reading.text(thing, "kind") == "ServiceAccount"
        or not _MARKS.isdisjoint(reading.mapping(thing, "metadata", "annotations"))
    )


def at_home(body: Object, configuration: Configuration) -> Object:
    """Where no namespace is written, Argo CD's is meant: kubectl or Kustomize will fill it in."""
    metadata = reading.mapping(body, "metadata")
    if "namespace" in metadata or kind_of(body) not in _HOMELESS:
        return body
    return {**body, "metadata": {**metadata, "namespace": configuration.argocd.namespace}}


def _located(file: str, wrong: dict[Item, tuple[str, list[Judgement]]]) -> Iterator[PlacedFinding]:
    """The file is read once more, for the places of what was found in it."""
    for manifest in read_file(file):
        if isinstance(manifest, Manifest):
            _, judgements = wrong.pop((manifest.document, manifest.where), ("", []))
            for judgement in judgements:
                yield _found(manifest, judgement)
    for item, (named, judgements) in wrong.items():  # the file changed meanwhile
        nowhere = Manifest(file, item[0], {}, item[1])
        for judgement in judgements:
            yield replace(_found(nowhere, judgement), about=named)


def _found(manifest: Manifest, judgement: Judgement) -> PlacedFinding:
    finding = judgement.finding
    return PlacedFinding(
        rule=finding.rule,
        action=judgement.action,
        place=manifest.place(_written(manifest.body, finding.path)),
        path=finding.path,
        message=finding.message,
        hint=finding.hint,
        about=about(manifest.body),
        exempted=judgement.exemption.reason or "exempted" if judgement.exemption else "",
        item=(manifest.document, manifest.where),
    )


def _written(body: Object, path: str) -> str:
    """Rules know a Secret's values under `data`, also those that are written under `stringData`."""
    section, _, key = path.partition(".")
    if section == "data" and key in reading.mapping(body, "stringData"):
        return f"stringData[{key}]"
    return path


def about(body: Object) -> str:
    """`AppProject argocd/web`, as far as it is written."""
    metadata = reading.mapping(body, "metadata")
    name = reading.text(metadata, "name") or reading.text(metadata, "generateName") or "?"
    namespace = reading.text(metadata, "namespace")
    return f"{reading.text(body, 'kind') or '?'} {f'{namespace}/' if namespace else ''}{name}"


def strict(
    configuration: Configuration, *, profile: str | None, rules: Mapping[str, Action]
) -> Configuration:
    """The configuration with what the command line says on top; namespaces' exceptions stay."""
    changed = replace(configuration, rules={**configuration.rules, **rules})
    if profile is not None:
        changed = replace(changed, profile=type(changed.profile)(profile))
    return changed
