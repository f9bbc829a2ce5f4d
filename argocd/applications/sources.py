"""An Application as Argo CD reads it: which of its sources count, and what is wrong with them.

The texts are Argo CD's, so that a user who looks for them finds its documentation.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from argocd import names, reading
from argocd.budget import spend
from argocd.judging.case import Case

_NOTHING: Mapping[str, Any] = {}

LocatedSource = tuple[str, Mapping[str, Any]]

# Anchored by fullmatch: `$` would let a line break at the end pass, which Go's does not.
_REF = re.compile(r"[a-zA-Z0-9_-]+")

SOURCE_TYPES = (
    ("kustomize", "Kustomize"),
    ("helm", "Helm"),
    ("directory", "Directory"),
    ("plugin", "Plugin"),
)
"""The blocks that decide how manifests are made, with the names that Argo CD prints."""


@dataclass(frozen=True, slots=True)
class SourceProblem:
    path: str
    message: str


def project_of(spec: Mapping[str, Any]) -> str:
    return reading.text(spec, "project") or names.DEFAULT_PROJECT


def is_hydrated(spec: Mapping[str, Any]) -> bool:
    return isinstance(spec.get("sourceHydrator"), Mapping)


def has_multiple_sources(spec: Mapping[str, Any]) -> bool:
    """One element is enough for Argo CD to call it multi-source; a hydrator beats both fields."""
    return bool(reading.sequence(spec, "sources")) and not is_hydrated(spec)


def plain_sources(spec: Mapping[str, Any]) -> Iterator[LocatedSource]:
    """The sources that count, each with its path; nothing of a hydrated application."""
    if is_hydrated(spec):
        return
    if has_multiple_sources(spec):
        listed = reading.sequence(spec, "sources")
        spend(len(listed))
        for index, source in enumerate(listed):
            yield f"spec.sources[{index}]", _source(source)
    else:
        yield "spec.source", reading.mapping(spec, "source")


def changed_sources(case: Case) -> list[LocatedSource]:
    """For `Case.once`: those that an update brings."""
    spec, before = (reading.mapping(thing, "spec") for thing in (case.object, case.old))
    if not has_multiple_sources(spec) or not has_multiple_sources(before):
        return list(plain_sources(spec))
    brought = case.changed_entries("spec", "sources")
    spend(len(brought))
    return [(f"spec.sources[{index}]", _source(source)) for index, source in brought]


def _source(entry: Any) -> Mapping[str, Any]:
    return entry if isinstance(entry, Mapping) else _NOTHING


def leaves_repository(path: str) -> bool:
    """Whether any step leads above where the path begins."""
    depth = 0
    for step in path.split("/"):
        depth += {"": 0, ".": 0, "..": -1}.get(step, 1)
        if depth < 0:
            return True
    return False


def repositories(
    spec: Mapping[str, Any], found: Iterable[LocatedSource] | None = None
) -> Iterator[tuple[str, str, str]]:
    """Every repository that the project must permit, or those of some sources: its path, its URL, and how Argo CD calls it."""
    if is_hydrated(spec):
        hydrator = "spec.sourceHydrator"
        dry = reading.text(spec, "sourceHydrator", "drySource", "repoURL")
        yield f"{hydrator}.drySource.repoURL", dry, "application repo"
        sync = reading.text(spec, "sourceHydrator", "syncSource", "repoURL")
        if sync and sync != dry:
            yield f"{hydrator}.syncSource.repoURL", sync, "sync source repo"
        return
    for path, source in plain_sources(spec) if found is None else found:
        yield f"{path}.repoURL", reading.text(source, "repoURL"), "application repo"


def incomplete_sources(found: Iterable[LocatedSource], *, several: bool) -> Iterator[SourceProblem]:
    """Sources that say too little to find manifests."""
    for path, source in found:
        named = any(reading.text(source, key) for key in ("path", "chart"))
        if reading.text(source, "repoURL") and (named or (several and reading.text(source, "ref"))):
            continue
        if several:
            yield SourceProblem(
                path,
                "spec.source.repoURL and either source.path, source.chart, or source.ref are required for source "
                f"{path}",
            )
        else:
            yield SourceProblem(
                path,
                "spec.source.repoURL and either spec.source.path or spec.source.chart are required",
            )


def charts_without_revision(found: Iterable[LocatedSource]) -> Iterator[SourceProblem]:
    for path, source in found:
        if reading.text(source, "chart") and not reading.text(source, "targetRevision"):
            yield SourceProblem(
                f"{path}.targetRevision",
                "spec.source.targetRevision is required if the manifest source is a helm chart",
            )


def hydrator_problems(spec: Mapping[str, Any]) -> Iterator[SourceProblem]:
    if not is_hydrated(spec):
        return
    hydrator = "spec.sourceHydrator"
    for fields in (("drySource", "repoURL"), ("syncSource", "targetBranch")):
        if not reading.text(spec, "sourceHydrator", *fields):
            field = ".".join(fields)
            yield SourceProblem(f"{hydrator}.{field}", f"spec.sourceHydrator.{field} is required")
    target = reading.value(spec, "sourceHydrator", "hydrateTo")
    if target is not None and not reading.text(target, "targetBranch"):
        yield SourceProblem(
            f"{hydrator}.hydrateTo.targetBranch",
            "when spec.sourceHydrator.hydrateTo is set, spec.sourceHydrator.hydrateTo.targetBranch is required",
        )


def release_name(source: Mapping[str, Any], *, application: str) -> str:
    """Of a source that is surely Helm's; empty for others, and for a chart in a folder that nothing says is one."""
    if not reading.text(source, "chart") and not isinstance(source.get("helm"), Mapping):
        return ""
    return reading.text(source, "helm", "releaseName") or application


def source_types(source: Mapping[str, Any]) -> list[str]:
    """An empty block counts: Argo CD looks whether it is there."""
    return [name for key, name in SOURCE_TYPES if source.get(key) is not None]


def invalid_refs(spec: Mapping[str, Any]) -> Iterator[SourceProblem]:
    """Names of sources that a values file cannot refer to; a lone source's name is never looked at."""
    for path, ref in _refs(spec):
        if not _REF.fullmatch(ref):
            yield SourceProblem(
                path, f"sources.ref {ref} cannot contain any special characters except '_' and '-'"
            )


def repeated_refs(spec: Mapping[str, Any]) -> Iterator[SourceProblem]:
    seen: set[str] = set()
    for path, ref in _refs(spec):
        if ref in seen:
            yield SourceProblem(path, "invalid sources: multiple sources had the same `ref` key")
        seen.add(ref)


def _refs(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if len(reading.sequence(spec, "sources")) < 2 or is_hydrated(spec):  # noqa: PLR2004 - a pair at least
        return
    for path, source in plain_sources(spec):
        if ref := reading.text(source, "ref"):
            yield f"{path}.ref", ref


def repeated_source_names(spec: Mapping[str, Any], *, application: str) -> Iterator[SourceProblem]:
    seen: set[str] = set()
    for index, source in enumerate(reading.sequence(spec, "sources")):
        name = reading.text(source, "name")
        if name and name in seen:
            yield SourceProblem(
                f"spec.sources[{index}].name",
                f"application {application} has duplicate source name: {name}",
            )
        seen.add(name)
