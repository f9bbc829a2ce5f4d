"""Applications that Argo CD takes and that people regret."""

from collections.abc import Iterator
from functools import partial

from argocd import names, reading
from argocd.applications import sources
from argocd.judging import writers
from argocd.judging.case import Action, Case, Finding, Kind, Operation, Profile, Rule
from argocd.rules import examples

_FINALIZERS = frozenset(
    {
        names.RESOURCES_FINALIZER,
        names.FOREGROUND_FINALIZER,
        names.BACKGROUND_FINALIZER,
        names.PRE_DELETE_FINALIZER,
        names.POST_DELETE_FINALIZER,
        f"{names.PRE_DELETE_FINALIZER}/cleanup",
        f"{names.POST_DELETE_FINALIZER}/cleanup",
    },
)
_PRODUCTION = frozenset({"prod", "production", "prd", "live"})
_FLOATING = frozenset({"", "HEAD", "main", "master"})


def _several_fields(case: Case) -> Iterator[Finding]:
    spec = reading.mapping(case.object, "spec")
    present = [key for key in ("sourceHydrator", "sources", "source") if spec.get(key)]
    if len(present) > 1:
        yield Finding(
            "application/source-overruled",
            f"spec.{present[-1]}",
            f"spec.{present[0]} wins; {' and '.join(f'spec.{key}' for key in present[1:])} is ignored",
            "Remove what is ignored.",
        )


def _path_and_chart(case: Case) -> Iterator[Finding]:
    for path, source in case.once(sources.changed_sources):
        if reading.text(source, "chart") and reading.text(source, "path"):
            yield Finding(
                "application/path-and-chart",
                f"{path}.path",
                "a source with a chart is a Helm repository, and its path is ignored",
                "Keep one of path and chart.",
            )


def _finalizer(case: Case) -> Iterator[Finding]:
    for index, finalizer in enumerate(reading.sequence(case.object, "metadata", "finalizers")):
        if isinstance(finalizer, str) and finalizer not in _FINALIZERS and _is_meant_for_argocd(finalizer):
            yield Finding(
                "application/finalizer",
                f"metadata.finalizers[{index}]",
                f"Argo CD does not know the finalizer {finalizer}: nothing is deleted with this application, "
                "and the application itself stays for ever",
                f"Use {names.RESOURCES_FINALIZER}, alone or with /foreground or /background.",
            )


def _is_meant_for_argocd(finalizer: str) -> bool:
    """Others have finalizers too, argocd-agent among them."""
    finalizer = finalizer.lower()
    ours = "argocd" in finalizer or ".argoproj.io" in finalizer or finalizer.startswith("resource")
    return ours and "finalizer" in finalizer and "argoproj-labs" not in finalizer


def _operation(case: Case) -> Iterator[Finding]:
    if not reading.mapping(case.object, "operation") or writers.is_argocd(case.writer, case.surroundings):
        return
    yield Finding(
        "application/operation",
        "operation",
        "an operation in the object starts a sync past sync windows and Argo CD's permissions",
        "Use argocd app sync; Argo CD's own API drops the field when an Application is created.",
    )


def _project_changed(case: Case) -> Iterator[Finding]:
    if case.old is None:
        return
    before = sources.project_of(reading.mapping(case.old, "spec"))
    after = sources.project_of(reading.mapping(case.object, "spec"))
    if before != after and not writers.is_argocd(case.writer, case.surroundings):
        yield Finding(
            "application/project-changed",
            "spec.project",
            f"the application moves from project {before} to {after}, whose rules and people are others",
            "Make sure that the new project is meant to hold it.",
        )


def _default_project(case: Case) -> Iterator[Finding]:
    if sources.project_of(reading.mapping(case.object, "spec")) == names.DEFAULT_PROJECT:
        yield Finding(
            "application/default-project",
            "spec.project",
            "the project default usually permits every repository, cluster and kind",
            "Create a project that permits what this application needs.",
        )


def _generate_paths(case: Case) -> Iterator[Finding]:
    text = reading.text(case.object, "metadata", "annotations", names.MANIFEST_GENERATE_PATHS)
    if not text:
        return
    parts = [part.strip() for part in text.split(";")]
    if any("," in part for part in parts):
        reason = "paths are separated by ; and a comma is part of a path"
    elif not all(parts):
        reason = "an empty path means the application's own folder, or nothing at all"
    elif any(part.startswith("/") and sources.leaves_repository(part) for part in parts):
        reason = "a path leads out of the repository"
    else:
        return
    yield Finding(
        "application/generate-paths",
        f"metadata.annotations[{names.MANIFEST_GENERATE_PATHS}]",
        f"{reason}: commits that matter may not refresh the application",
        "Write paths from the repository's root with a leading /, or from the source's path, separated by ;.",
    )


def _skip_reconcile(case: Case) -> Iterator[Finding]:
    if reading.text(case.object, "metadata", "annotations", names.SKIP_RECONCILE) == "true":
        yield Finding(
            "application/skip-reconcile",
            f"metadata.annotations[{names.SKIP_RECONCILE}]",
            "Argo CD leaves this application alone: its state is not compared and nothing is synced by itself",
            "Remove the annotation when the pause is over.",
        )


def _floating_revision(case: Case) -> Iterator[Finding]:
    spec = reading.mapping(case.object, "spec")
    project = sources.project_of(spec)
    if _PRODUCTION.isdisjoint(project.lower().replace("_", "-").replace(".", "-").split("-")):
        return
    for path, source in sources.plain_sources(spec):
        revision = reading.text(source, "targetRevision")
        if revision in _FLOATING and not reading.text(source, "chart"):
            yield Finding(
                "application/floating-revision",
                f"{path}.targetRevision",
                f"{revision or 'no revision'} follows every commit, in project {project}",
                "Pin a tag or a commit for production.",
            )


_recommended = partial(
    Rule,
    kinds=frozenset({Kind.APPLICATION}),
    profile=Profile.RECOMMENDED,
    action=Action.WARN,
    good=examples.application(),
)


def _annotated(key: str, value: str) -> str:
    return examples.application(metadata=f"annotations: {{{key}: '{value}'}}")


def _finalized(finalizer: str) -> str:
    return examples.application(metadata=f"finalizers: [{finalizer}]")


_MOVED = examples.application(project="shop") + examples.BEFORE

RULES: tuple[Rule, ...] = (
    _recommended(
        id="application/source-overruled",
        reads=("spec.source", "spec.sources", "spec.sourceHydrator"),
        title="One of source, sources and sourceHydrator counts",
        explanation="sourceHydrator wins over sources, and sources over source; what loses is ignored silently.",
        bad=examples.application(
            spec="sources: [{repoURL: https://git.example.com/other.git, path: deploy, targetRevision: v1}]",
        ),
        check=_several_fields,
    ),
    _recommended(
        id="application/path-and-chart",
        refused_by_argocd=True,
        reads=("spec.source.path", "spec.source.chart", "spec.sources", "spec.sourceHydrator"),
        title="A source has a path or a chart",
        explanation="With a chart the repository is a Helm repository, which has no paths.",
        bad=examples.application(
            source="source: {repoURL: https://charts.example.com, chart: shop, path: deploy, targetRevision: 1.2.3}",
        ),
        check=_path_and_chart,
    ),
    _recommended(
        id="application/finalizer",
        reads=("metadata.finalizers",),
        title="A finalizer of Argo CD is spelt exactly",
        explanation=(
            "Argo CD removes only the finalizers that it knows. A misspelt one deletes no objects and keeps the "
            "application from going away."
        ),
        bad=_finalized("resource-finalizer.argocd.argoproj.io"),
        good=_finalized(names.RESOURCES_FINALIZER),
        check=_finalizer,
    ),
    _recommended(
        id="application/operation",
        reads=("operation",),
        title="Operations are started through Argo CD",
        explanation=(
            "Whoever may write the object can start any sync by setting operation; sync windows and Argo CD's own "
            "permissions are not asked."
        ),
        bad=examples.application(top="operation: {sync: {revision: main}}"),
        check=_operation,
    ),
    _recommended(
        id="application/project-changed",
        reads=("spec.project",),
        title="An application changes its project rarely",
        explanation="The project decides where an application may deploy and who may touch it.",
        bad=_MOVED + examples.application(project="warehouse"),
        good=_MOVED + examples.application(project="shop"),
        check=_project_changed,
        operations=frozenset({Operation.UPDATE}),
    ),
    _recommended(
        id="application/default-project",
        profile=Profile.STRICT,
        opinion="Two of three Applications are in default, and in an installation with one team nothing is wrong with it.",
        reads=("spec.project",),
        title="Applications have a project of their own",
        explanation="The built-in project default permits everything until somebody narrows it; empty means default.",
        bad=examples.application(project="default"),
        check=_default_project,
    ),
    _recommended(
        id="application/generate-paths",
        reads=(f"metadata.annotations[{names.MANIFEST_GENERATE_PATHS}]",),
        title="manifest-generate-paths is a list with semicolons",
        explanation="Argo CD skips commits that touch none of the paths; a path that matches nothing hides changes.",
        bad=_annotated(names.MANIFEST_GENERATE_PATHS, "/deploy,/base"),
        good=_annotated(names.MANIFEST_GENERATE_PATHS, ".;/base"),
        check=_generate_paths,
    ),
    _recommended(
        id="application/skip-reconcile",
        reads=(f"metadata.annotations[{names.SKIP_RECONCILE}]",),
        title="A paused application is easily forgotten",
        explanation="skip-reconcile stops the controller's work on an application, and its last known state stays on show.",
        bad=_annotated(names.SKIP_RECONCILE, "true"),
        check=_skip_reconcile,
    ),
    _recommended(
        id="application/floating-revision",
        reads=("spec.project", "spec.source", "spec.sources", "spec.sourceHydrator"),
        title="Production follows tags, not branches",
        explanation=(
            "In a project whose name says production (prod, production, prd or live as a part between dashes) an "
            "empty revision, HEAD, main or master deploys each commit at once."
        ),
        bad=examples.application(
            project="shop-prod",
            source="source: {repoURL: https://git.example.com/shop.git, path: deploy, targetRevision: HEAD}",
        ),
        good=examples.application(project="shop-prod"),
        check=_floating_revision,
    ),
)
