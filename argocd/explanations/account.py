"""As which service account an Application syncs: each entry of its project that was tried."""

from typing import Any

from argocd import globs, names, reading
from argocd.applications.destinations import resolve
from argocd.applications.sources import project_of
from argocd.explanations.explanation import (
    Explanation,
    ExplanationSection,
    ExplanationStep,
    Known,
    Mark,
    UnexplainedError,
)
from argocd.globs import Verdict
from argocd.impersonation.derivation import (
    GLOBAL_ENTRIES_SINCE,
    AccountOutcome,
    Derivation,
    ServiceAccountEntry,
    account_for,
    derive,
    entries_of,
)
from argocd.judging.case import Object
from argocd.projects.global_projects import global_projects_of


def explain(known: Known, text: str) -> Explanation:
    """By [NAMESPACE/]NAME."""
    return explain_application(known, known.application(text))


def explain_application(known: Known, application: Object) -> Explanation:
    name = project_of(reading.mapping(application, "spec"))
    project = known.project(name)
    if project is None:
        raise UnexplainedError(f"there is no project {name} {known.where}, which the Application names")
    notes: list[ExplanationStep] = []
    server = _server(known, application, notes)
    namespace = reading.text(application, "spec", "destination", "namespace")
    own = reading.text(application, "metadata", "namespace")
    listed = _entries(known, project)
    entries = [entry for _, entry in listed]
    settings = known.surroundings.settings
    if settings.known:
        found = account_for(
            application,
            entries=entries,
            server=server,
            settings=settings,
            configuration=known.configuration,
        )
    else:
        notes.append(
            ExplanationStep(
                Mark.NOTE, f"without {names.ARGOCD_CM} it is taken for granted that impersonation is on"
            )
        )
        found = derive(entries, server=server, destination_namespace=namespace, application_namespace=own)
    if settings.known and not settings.impersonation.enabled:
        notes.append(
            ExplanationStep(
                Mark.NOTE, f"impersonation is off: {names.IMPERSONATION_ENABLED_KEY} in {names.ARGOCD_CM}"
            )
        )
    tried = [_tried(origin, entry, server, namespace) for origin, entry in listed]
    decisive = next((index for index, entry in enumerate(entries) if entry is found.entry), None)
    if decisive is not None:
        tried = tried[: decisive + 1]
    data: dict[str, Any] = {
        "application": f"{own}/{reading.text(application, 'metadata', 'name')}",
        "project": name,
        "server": server,
        "namespace": namespace,
        "outcome": found.outcome.name.lower(),
        "user": found.user,
        "error": found.error,
        "entries": tried,
        "notes": [note.what for note in notes],
    }
    sections = [
        ExplanationSection(
            "the destination",
            [
                ExplanationStep(Mark.NOTE, f"server {server}"),
                ExplanationStep(Mark.NOTE, _said(namespace, own)),
            ],
        ),
        ExplanationSection(
            _title(name, tried), [_step(one, decisive=index == decisive) for index, one in enumerate(tried)]
        ),
    ]
    if notes:
        sections.append(ExplanationSection("besides", notes))
    good = found.outcome in {AccountOutcome.ACCOUNT, AccountOutcome.DEFAULT} or (
        found.outcome is AccountOutcome.CONTROLLER and not settings.impersonation.enabled
    )
    return Explanation(_answer(found, data["application"]), good=good, data=data, sections=sections)


def _title(project: str, tried: list[dict[str, Any]]) -> str:
    if not tried:
        return f"spec.destinationServiceAccounts of project {project} is empty"
    return f"entries of project {project}, in order; the first that matches counts"


def _said(namespace: str, own: str) -> str:
    return f"namespace {namespace}" if namespace else f"no namespace: the account is looked for in {own}"


def _answer(found: Derivation, application: str) -> str:
    if found.user:
        return f"The Application {application} syncs as {found.user}."
    said = f": {found.error}" if found.error else ""
    return f"The Application {application} syncs with {found.outcome.value}{said}."


def _server(known: Known, application: Object, notes: list[ExplanationStep]) -> str:
    destination = reading.mapping(application, "spec", "destination")
    surroundings = known.surroundings
    found = resolve(
        destination, neighbours=surroundings.neighbours, in_cluster_enabled=surroundings.settings.in_cluster
    )
    if found and found.cluster:
        return found.cluster.server
    server, name = reading.text(destination, "server"), reading.text(destination, "name")
    if found and found.error:
        notes.append(ExplanationStep(Mark.NOTE, f"Argo CD cannot resolve the destination: {found.error}"))
    if server:
        return server
    if name == names.IN_CLUSTER_NAME:
        return names.IN_CLUSTER_SERVER
    if found is None and name:
        notes.append(
            ExplanationStep(
                Mark.NOTE,
                f"the server of cluster {name} is not known: its cluster secret is not {known.where}",
            )
        )
    return ""


def _entries(known: Known, project: Object) -> list[tuple[str, ServiceAccountEntry]]:
    """Those of the project, then those of global projects where this Argo CD adds them."""
    listed = [("", entry) for entry in entries_of(project)]
    if known.configuration.argocd.version >= GLOBAL_ENTRIES_SINCE:
        surroundings = known.surroundings
        added = global_projects_of(
            project, settings=surroundings.settings, neighbours=surroundings.neighbours
        )
        for other in added or ():
            origin = reading.text(other, "metadata", "name")
            listed += [(origin, entry) for entry in entries_of(other)]
    return listed


def _tried(origin: str, entry: ServiceAccountEntry, server: str, namespace: str) -> dict[str, Any]:
    at_server, in_namespace = globs.match(entry.server, server), globs.match(entry.namespace, namespace)
    return {
        "path": entry.path,
        "from": origin,
        "server": entry.server,
        "namespace": entry.namespace,
        "account": entry.account,
        "server-matches": at_server.value,
        "namespace-matches": in_namespace.value,
        "problem": globs.compile_error(entry.server) or globs.compile_error(entry.namespace),
    }


def _step(tried: dict[str, Any], *, decisive: bool) -> ExplanationStep:
    where = f"{tried['path']} of global project {tried['from']}" if tried["from"] else tried["path"]
    what = f"{where}: {tried['server']} {tried['namespace'] or '(no namespace)'} → {tried['account']}"
    if decisive:
        return ExplanationStep(
            Mark.NO if tried["problem"] else Mark.YES, what, tried["problem"] or "matches, and decides"
        )
    missed = [
        f"the {part} does not match"
        for part in ("server", "namespace")
        if tried[f"{part}-matches"] != Verdict.YES.value
    ]
    return ExplanationStep(Mark.NO, what, tried["problem"] or "; ".join(missed))
