"""What happens to the applications of a project that is changed or deleted."""

from collections.abc import Iterator, Mapping
from typing import Any

from argocd import reading
from argocd.applications import destinations
from argocd.applications.project_impact import deletion_problem, impact_of
from argocd.judging.case import Action, Case, Finding, Operation, Profile, Rule
from argocd.judging.neighbours import KnownCluster
from argocd.judging.writers import is_argocd, is_principal, is_replica
from argocd.projects.permissions import effective_project
from argocd.rules import examples
from argocd.rules.project_rule import PROJECT

_NAMED = 5
"""Applications that a message names; the number of all of them is in it too."""


def _update(case: Case) -> Iterator[Finding]:
    neighbours = case.surroundings.neighbours
    name = reading.text(case.object, "metadata", "name")
    applications = neighbours.applications_of_project(name)
    if case.old is None or not applications:
        return

    def resolve(destination: Mapping[str, Any]) -> KnownCluster | None:
        resolution = destinations.resolve(
            destination, neighbours=neighbours, in_cluster_enabled=case.surroundings.settings.in_cluster
        )
        return resolution.cluster if resolution else None

    impact = impact_of(
        old=_effective(case.old, case),
        new=_effective(case.object, case),
        applications=applications,
        resolve=resolve,
        control_plane=case.surroundings.configuration.argocd.namespace,
        project_clusters=neighbours.clusters_of_project(name),
    )
    if impact.message:
        yield Finding(
            "project/update-breaks-applications",
            "spec",
            f"{impact.message}: {_names(impact.applications)}",
            "Change or delete these applications first, or keep what they use.",
        )


def _effective(project: Mapping[str, Any], case: Case) -> Mapping[str, Any]:
    """With what belongs to it and what global projects add, as far as that is known."""
    surroundings = case.surroundings
    whole = effective_project(project, settings=surroundings.settings, neighbours=surroundings.neighbours)
    return project if whole is None else whole


def _deletion(case: Case) -> Iterator[Finding]:
    """Also by way of an owner: the garbage collector deletes what has none of its owners left, and nobody stops it."""
    namespace = reading.text(case.object, "metadata", "namespace")
    if namespace and namespace != case.surroundings.configuration.argocd.namespace:
        return  # Argo CD never used it
    if case.operation is Operation.UPDATE:
        if _gains_an_owner(case) and not _may_own(case):
            yield Finding("project/deletion", "metadata.ownerReferences", _GAINED, _OWNED)
        return
    name = reading.text(case.object, "metadata", "name")
    applications = case.surroundings.neighbours.applications_of_project(name) or ()
    if problem := deletion_problem(name, applications=len(applications)):
        users = [reading.text(application, "metadata", "name") for application in applications]
        yield Finding(
            "project/deletion",
            "metadata.name",
            f"{problem}: {_names(sorted(users))}" if users else problem,
            _USED if users else "Take its rights away instead.",
        )


_GAINED = "the project gets an owner, and goes when that does, whoever uses the project by then"
_OWNED = (
    "Remove the owner: the garbage collector deletes the project with it, or at once where there is none."
)
_USED = "Delete these applications or give them another project first."


def _gains_an_owner(case: Case) -> bool:
    before = reading.sequence(case.old, "metadata", "ownerReferences")
    after = reading.sequence(case.object, "metadata", "ownerReferences")
    if len(after) > _MOST_OWNERS:
        return after != before
    return any(reference not in before[:_MOST_OWNERS] for reference in after)


def _may_own(case: Case) -> bool:
    surroundings = case.surroundings
    return (
        is_argocd(case.writer, surroundings)
        or is_principal(case.writer, surroundings.configuration)
        or is_replica(case.writer, surroundings.configuration)
    )


_MOST_OWNERS = 100
"""Nobody has more; each is compared with those before."""


def _names(applications: list[str]) -> str:
    named = ", ".join(applications[:_NAMED])
    return f"{named}, …" if len(applications) > _NAMED else named


def _project(namespaces: str) -> str:
    return examples.project(
        spec=f"sourceRepos: ['https://git.example.com/*']\ndestinations: [{{server: '*', namespace: '{namespaces}'}}]"
    )


_APPLICATION = examples.application()

RULES = (
    Rule(
        id="project/update-breaks-applications",
        kinds=PROJECT,
        profile=Profile.PARITY,
        action=Action.WARN,
        reads=(
            "spec.destinations",
            "spec.permitOnlyProjectScopedClusters",
            "spec.sourceNamespaces",
            "spec.sourceRepos",
        ),
        title="A change of a project leaves its applications what they use",
        explanation=(
            "Applications whose repository, destination or namespace the project permitted before and would no longer "
            "permit. Argo CD's API server refuses such a change, but for namespaces; here it is a warning, because "
            "one apply may change the applications too. Where there are more applications and patterns than can be "
            "compared in a fifth of a review's budget, those after them are left out."
        ),
        bad=_APPLICATION + examples.BEFORE + _project("shop") + examples.BEFORE + _project("tools"),
        good=_APPLICATION + examples.BEFORE + _project("shop") + examples.BEFORE + _project("shop*"),
        check=_update,
        neighbours=True,
        operations=frozenset({Operation.UPDATE}),
    ),
    Rule(
        id="project/deletion",
        kinds=PROJECT,
        profile=Profile.PARITY,
        action=Action.DENY,
        reads=("metadata.ownerReferences",),
        title="A project that is used is not deleted, and none is given an owner",
        explanation=(
            "Applications without their project are neither synced nor deleted properly. Argo CD's API server refuses "
            "to delete a project that applications use, and the default project always. An owner reference would have "
            "the garbage collector do it, now or once somebody uses it, so no project gets one but from Argo CD or the "
            "principal."
        ),
        bad=_APPLICATION + examples.BEFORE + _project("shop"),
        good=_project("shop"),
        check=_deletion,
        neighbours=True,
        operations=frozenset({Operation.UPDATE, Operation.DELETE}),
    ),
)
