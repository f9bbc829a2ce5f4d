"""What an Application's project permits it, told before Argo CD refuses to sync."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from argocd import reading
from argocd.applications import destinations, permissions, sources
from argocd.globs import Verdict
from argocd.judging.case import Action, Case, Finding, Kind, Profile, Rule
from argocd.projects import pattern_lists
from argocd.projects.permissions import application_namespace_permitted, effective_project
from argocd.rules import examples


def _project(case: Case) -> Mapping[str, Any] | None:
    """The project as this application meets it; None where it is unknown or absent."""
    known = case.surroundings.neighbours.project(sources.project_of(_spec(case)))
    if not known:
        return None
    return effective_project(
        known,
        settings=case.surroundings.settings,
        neighbours=case.surroundings.neighbours,
    )


def _spec(case: Case) -> Mapping[str, Any]:
    return reading.mapping(case.object, "spec")


def _repository(case: Case) -> Iterator[Finding]:
    project = _project(case)
    if project is None:
        return
    for problem in permissions.forbidden_repositories(_spec(case), project):
        yield Finding(
            "application/repository-forbidden",
            problem.path,
            problem.message,
            "Add the repository to the project's spec.sourceRepos, or choose another project.",
        )


def _destination(case: Case) -> Iterator[Finding]:
    project = _project(case)
    if project is None:
        return
    spec = _spec(case)
    neighbours = case.surroundings.neighbours
    resolution = destinations.resolve(
        reading.mapping(spec, "destination"),
        neighbours=neighbours,
        in_cluster_enabled=case.surroundings.settings.in_cluster,
    )
    if resolution is None:
        return
    for problem in permissions.forbidden_destination(spec, project, resolution, neighbours=neighbours):
        yield Finding(
            "application/destination-forbidden",
            problem.path,
            problem.message,
            "Add the cluster and the namespace to the project's spec.destinations, or choose another project.",
        )


def _namespace(case: Case) -> Iterator[Finding]:
    name = sources.project_of(_spec(case))
    project = case.surroundings.neighbours.project(name)
    if not project:
        return
    namespace = reading.text(case.object, "metadata", "namespace")
    verdict = application_namespace_permitted(
        project,
        namespace=namespace,
        control_plane=case.surroundings.configuration.argocd.namespace,
    )
    if verdict is Verdict.NO:
        application = reading.text(case.object, "metadata", "name")
        yield Finding(
            "application/namespace-forbidden",
            "metadata.namespace",
            f"application '{application}' in namespace '{namespace}' is not permitted to use project '{name}'",
            "Add the namespace to the project's spec.sourceNamespaces, or choose another project.",
        )


def _namespace_off(case: Case) -> Iterator[Finding]:
    enabled = case.surroundings.settings.application_namespaces
    namespace = reading.text(case.object, "metadata", "namespace")
    if enabled is None or namespace in {"", case.surroundings.configuration.argocd.namespace}:
        return
    if pattern_lists.in_list(enabled, namespace) is Verdict.NO:
        yield Finding(
            "application/namespace-ignored",
            "metadata.namespace",
            f"namespace '{namespace}' is not permitted: Argo CD ignores applications there",
            "Create it in Argo CD's namespace, or have this one added to application.namespaces.",
        )


_neighbour = partial(
    Rule,
    kinds=frozenset({Kind.APPLICATION}),
    profile=Profile.PARITY,
    action=Action.WARN,
    neighbours=True,
)


def _in(spec: str, **application: str) -> str:
    return examples.project(spec=spec) + examples.BEFORE + examples.application(**application)


_OPEN = "sourceRepos: ['*']\ndestinations: [{server: '*', namespace: '*'}]"
_SOURCES = ("spec.source", "spec.sources", "spec.sourceHydrator")
_PARAMETERS = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-cmd-params-cm, namespace: argocd}
data: {application.namespaces: 'team-*'}
"""

RULES: tuple[Rule, ...] = (
    _neighbour(
        id="application/repository-forbidden",
        reads=("spec.project", *_SOURCES),
        title="The project permits the repository",
        explanation="Argo CD compares normalised addresses with the project's sourceRepos, denials included.",
        bad=_in(
            "sourceRepos: ['https://git.example.com/other.git']\ndestinations: [{server: '*', namespace: '*'}]"
        ),
        good=_in("sourceRepos: ['https://git.example.com/*']\ndestinations: [{server: '*', namespace: '*'}]"),
        check=_repository,
    ),
    _neighbour(
        id="application/destination-forbidden",
        reads=("spec.project", "spec.destination"),
        title="The project permits the destination",
        explanation="The cluster, by server or by name, and the namespace must match one of the project's destinations.",
        bad=_in("sourceRepos: ['*']\ndestinations: [{server: '*', namespace: warehouse}]"),
        good=_in("sourceRepos: ['*']\ndestinations: [{name: in-cluster, namespace: 'shop*'}]"),
        check=_destination,
    ),
    _neighbour(
        id="application/namespace-forbidden",
        reads=("metadata.namespace", "spec.project"),
        title="The project permits the application's namespace",
        explanation="Outside Argo CD's own namespace a project must list the namespace in sourceNamespaces.",
        bad=_in(_OPEN, namespace="team-shop"),
        good=_in(f"{_OPEN}\nsourceNamespaces: ['team-*']", namespace="team-shop"),
        check=_namespace,
    ),
    _neighbour(
        id="application/namespace-ignored",
        reads=("metadata.namespace",),
        title="Argo CD looks into the application's namespace",
        explanation=(
            "Outside its own namespace Argo CD looks for applications only where application.namespaces in "
            "argocd-cmd-params-cm says so."
        ),
        bad=_PARAMETERS + examples.BEFORE + _in(f"{_OPEN}\nsourceNamespaces: ['*']", namespace="shop"),
        good=_PARAMETERS + examples.BEFORE + _in(f"{_OPEN}\nsourceNamespaces: ['*']", namespace="team-shop"),
        check=_namespace_off,
    ),
)
