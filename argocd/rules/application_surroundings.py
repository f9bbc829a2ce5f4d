"""What an Application needs around it: its cluster, its project, a namespace that is watched, nobody's twin.

One apply may bring both an Application and what it needs, so these rules only warn.
"""

from collections.abc import Iterator
from functools import partial

from argocd import names, reading
from argocd.applications import destinations, sources
from argocd.judging.case import Action, Case, Finding, Kind, Profile, Rule
from argocd.rules import examples
from argocd.tracking import ids
from argocd.tracking.marks import application_of, is_prune_candidate


def _cluster_unknown(case: Case) -> Iterator[Finding]:
    destination = reading.mapping(case.object, "spec", "destination")
    if destinations.missing(destination) or destinations.contradiction(destination):
        return
    resolution = destinations.resolve(
        destination,
        neighbours=case.surroundings.neighbours,
        in_cluster_enabled=case.surroundings.settings.in_cluster,
    )
    if resolution is not None and resolution.error:
        yield Finding(
            "application/cluster-unknown",
            "spec.destination",
            resolution.error,
            "Add the cluster to Argo CD, or correct the destination; a server is compared letter by letter.",
        )


def _project_unknown(case: Case) -> Iterator[Finding]:
    project = sources.project_of(reading.mapping(case.object, "spec"))
    if project == names.DEFAULT_PROJECT:
        return  # Argo CD creates it where it is missing.
    if case.surroundings.neighbours.project(project) == {}:
        yield Finding(
            "application/project-unknown",
            "spec.project",
            f"Application referencing project {project} which does not exist",
            "Create the project in Argo CD's namespace, in the same apply or before.",
        )


def _twin(case: Case) -> Iterator[Finding]:
    for other in case.surroundings.neighbours.applications_like(case.object) or ():
        name = reading.text(other, "metadata", "name")
        namespace = reading.text(other, "metadata", "namespace")
        yield Finding(
            "application/twin",
            "spec",
            f"application {namespace}/{name} deploys the same source to the same place; they will fight over objects",
            "Change the source or the destination of one of them, or set FailOnSharedResource=true.",
        )


def _child_without_finalizer(case: Case) -> Iterator[Finding]:
    if reading.sequence(case.object, "metadata", "finalizers"):
        return
    settings = case.surroundings.settings
    configuration = case.surroundings.configuration
    version = configuration.argocd.version
    if not is_prune_candidate(case.object, settings=settings, version=version):
        return
    instance = application_of(case.object, settings=settings, version=version)
    name, namespace = ids.split_instance(instance, default_namespace=configuration.argocd.namespace)
    parent = case.surroundings.neighbours.application(namespace, name)
    if reading.value(parent, "spec", "syncPolicy", "automated", "prune") is True:
        yield Finding(
            "application/child-without-finalizer",
            "metadata.finalizers",
            f"application {instance} prunes this one when it leaves its source, and everything it deployed stays behind",
            f"Add the finalizer {names.RESOURCES_FINALIZER}.",
        )


_neighbour = partial(
    Rule,
    kinds=frozenset({Kind.APPLICATION}),
    action=Action.WARN,
    neighbours=True,
)

_PROJECT = examples.project(spec="sourceRepos: ['*']\ndestinations: [{server: '*', namespace: '*'}]")
_PARENT = (
    _PROJECT
    + examples.BEFORE
    + examples.application(
        name="apps",
        source="source: {repoURL: https://git.example.com/apps.git, path: ., targetRevision: v1}",
        spec="syncPolicy: {automated: {prune: true}}",
    )
    + examples.BEFORE
)
_OLDER = examples.application(name="older")
_CHILD = f"annotations: {{{names.TRACKING_ID}: 'apps:argoproj.io/Application:argocd/shop'}}"

RULES: tuple[Rule, ...] = (
    _neighbour(
        id="application/cluster-unknown",
        profile=Profile.PARITY,
        reads=("spec.destination.name", "spec.destination.server"),
        title="The destination is a cluster that Argo CD has",
        explanation="The name or the server must be that of exactly one cluster secret, or of Argo CD's own cluster.",
        bad=_PROJECT + examples.BEFORE + examples.application(destination="name: east, namespace: shop"),
        check=_cluster_unknown,
        good=_PROJECT
        + examples.BEFORE
        + examples.secret(kind="cluster", name="east", values="server: https://east.example.com\nname: east")
        + examples.BEFORE
        + examples.application(destination="name: east, namespace: shop"),
    ),
    _neighbour(
        id="application/project-unknown",
        profile=Profile.PARITY,
        reads=("spec.project",),
        title="The project exists",
        explanation=(
            "Argo CD looks for projects in its own namespace only and refuses an application without one. The project "
            "default always exists."
        ),
        bad=_PROJECT + examples.BEFORE + examples.application(project="shoop"),
        good=_PROJECT + examples.BEFORE + examples.application(),
        check=_project_unknown,
    ),
    _neighbour(
        id="application/twin",
        profile=Profile.RECOMMENDED,
        reads=("spec.destination", "spec.source", "spec.sources", "spec.sourceHydrator"),
        title="No two applications deploy the same thing to the same place",
        explanation=(
            "Each of them takes the objects from the other at every sync, and either can prune them. Sources are the "
            "same if all their settings are; a chart is another one under another release name, which is the "
            "application's name where none is set."
        ),
        bad=_PROJECT + examples.BEFORE + _OLDER + examples.BEFORE + examples.application(),
        good=_PROJECT
        + examples.BEFORE
        + _OLDER
        + examples.BEFORE
        + examples.application(destination="server: https://kubernetes.default.svc, namespace: shop-test"),
        check=_twin,
    ),
    _neighbour(
        id="application/child-without-finalizer",
        profile=Profile.RECOMMENDED,
        reads=("metadata.finalizers", "metadata.annotations", "metadata.labels"),
        title="A child application takes its objects along",
        explanation=(
            "An application of applications that prunes deletes a child that left its source; without a finalizer "
            "the child's own objects stay, and nobody manages them any more."
        ),
        bad=_PARENT + examples.application(metadata=_CHILD),
        good=_PARENT + examples.application(metadata=f"{_CHILD}, finalizers: [{names.RESOURCES_FINALIZER}]"),
        check=_child_without_finalizer,
    ),
)
