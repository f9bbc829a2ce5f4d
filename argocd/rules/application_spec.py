"""What Argo CD's API server refuses of an Application by itself, in its words."""

from collections.abc import Iterable, Iterator
from functools import partial

from argocd import names, reading
from argocd.applications import destinations, sources
from argocd.applications.sources import SourceProblem
from argocd.go import net_url
from argocd.judging.case import Action, Case, Finding, Kind, Profile, Rule
from argocd.judging.configuration import Version
from argocd.rules import examples

_SOURCES = ("spec.sources", "spec.sourceHydrator")
_MANAGED_BY_URL_SINCE: Version = (3, 3)


def _findings(rule: str, problems: Iterable[SourceProblem], hint: str) -> Iterator[Finding]:
    for problem in problems:
        yield Finding(rule, problem.path, problem.message, hint)


def _name(case: Case) -> Iterator[Finding]:
    if not reading.text(case.object, "metadata", "name"):
        yield Finding(
            "application/name",
            "metadata.name",
            "resource name may not be empty",
            "Give the Application a name of its own; Argo CD does not generate one.",
        )


def _destination_twice(case: Case) -> Iterator[Finding]:
    if message := destinations.contradiction(reading.mapping(case.object, "spec", "destination")):
        yield Finding(
            "application/destination-twice",
            "spec.destination",
            message,
            "Keep one of name and server.",
        )


def _destination_missing(case: Case) -> Iterator[Finding]:
    if destinations.missing(reading.mapping(case.object, "spec", "destination")):
        yield Finding(
            "application/destination-missing",
            "spec.destination",
            destinations.MISSING,
            f"Set spec.destination.name, or server; Argo CD's own cluster is {names.IN_CLUSTER_SERVER}.",
        )


def _source_incomplete(case: Case) -> Iterator[Finding]:
    return _findings(
        "application/source-incomplete",
        sources.incomplete_sources(
            case.once(sources.changed_sources),
            several=sources.has_multiple_sources(reading.mapping(case.object, "spec")),
        ),
        "Name the repository and, in it, a path or a chart.",
    )


def _chart_revision(case: Case) -> Iterator[Finding]:
    return _findings(
        "application/chart-revision",
        sources.charts_without_revision(case.once(sources.changed_sources)),
        "Set targetRevision to a version of the chart, or to a range such as 1.2.*.",
    )


def _hydrator(case: Case) -> Iterator[Finding]:
    return _findings(
        "application/hydrator",
        sources.hydrator_problems(reading.mapping(case.object, "spec")),
        "Fill in the field.",
    )


def _source_types(case: Case) -> Iterator[Finding]:
    for path, source in case.once(sources.changed_sources):
        found = sources.source_types(source)
        if len(found) > 1:
            yield Finding(
                "application/source-types",
                path,
                f"multiple application sources defined: {','.join(found)}",
                "Keep the block of the tool that makes the manifests; an empty block counts too.",
            )


def _source_ref(case: Case) -> Iterator[Finding]:
    return _findings(
        "application/source-ref",
        sources.invalid_refs(reading.mapping(case.object, "spec")),
        "Use letters, digits, _ and -.",
    )


def _source_ref_repeated(case: Case) -> Iterator[Finding]:
    return _findings(
        "application/source-ref-repeated",
        sources.repeated_refs(reading.mapping(case.object, "spec")),
        "Give each source a ref of its own.",
    )


def _source_name_repeated(case: Case) -> Iterator[Finding]:
    return _findings(
        "application/source-name-repeated",
        sources.repeated_source_names(
            reading.mapping(case.object, "spec"),
            application=reading.text(case.object, "metadata", "name"),
        ),
        "Give each source a name of its own.",
    )


def _managed_by_url(case: Case) -> Iterator[Finding]:
    if case.surroundings.configuration.argocd.version < _MANAGED_BY_URL_SINCE:
        return
    url = reading.text(case.object, "metadata", "annotations", names.MANAGED_BY_URL)
    if url and net_url.scheme(url) not in {"http", "https"}:
        yield Finding(
            "application/managed-by-url",
            f"metadata.annotations[{names.MANAGED_BY_URL}]",
            "invalid managed-by URL: URL must include http or https protocol",
            "Write the address of the other Argo CD with https:// in front.",
        )


_parity = partial(
    Rule,
    kinds=frozenset({Kind.APPLICATION}),
    profile=Profile.PARITY,
    action=Action.DENY,
    good=examples.application(),
)

_TWO_SOURCES = """
sources:
- {{repoURL: https://git.example.com/shop.git, path: deploy, targetRevision: v1, {first}}}
- {{repoURL: https://git.example.com/values.git, targetRevision: v1, {second}}}
"""


def _two_sources(first: str, second: str) -> str:
    return examples.application(source=_TWO_SOURCES.format(first=first, second=second))


RULES: tuple[Rule, ...] = (
    _parity(
        id="application/name",
        reads=("metadata.name",),
        title="An Application needs a name",
        explanation="Argo CD's API server refuses an Application without a name, also with generateName.",
        bad=examples.application(name="''"),
        check=_name,
    ),
    _parity(
        id="application/destination-twice",
        reads=("spec.destination.name", "spec.destination.server"),
        title="A destination has a name or a server, not both",
        explanation="Argo CD does not compare the two: with both set it reports InvalidSpecError and never syncs.",
        bad=examples.application(
            destination="name: in-cluster, server: https://kubernetes.default.svc, namespace: shop",
        ),
        check=_destination_twice,
    ),
    _parity(
        id="application/destination-missing",
        reads=("spec.destination.name", "spec.destination.server"),
        title="A destination names a cluster",
        explanation="Without a name or a server Argo CD does not know where to deploy and reports InvalidSpecError.",
        bad=examples.application(destination="namespace: shop"),
        check=_destination_missing,
    ),
    _parity(
        id="application/source-incomplete",
        reads=("spec.source.repoURL", "spec.source.path", "spec.source.chart", *_SOURCES),
        title="A source names a repository and what to take from it",
        explanation=(
            "A source needs repoURL and one of path and chart; one of several sources may have a ref instead. "
            "Argo CD reports InvalidSpecError otherwise."
        ),
        bad=examples.application(
            source="source: {repoURL: https://git.example.com/shop.git, targetRevision: v1}"
        ),
        check=_source_incomplete,
    ),
    _parity(
        id="application/chart-revision",
        reads=("spec.source.chart", "spec.source.targetRevision", *_SOURCES),
        title="A Helm chart needs a revision",
        explanation="A chart has no default branch: without targetRevision Argo CD cannot choose a version.",
        bad=examples.application(source="source: {repoURL: https://charts.example.com, chart: shop}"),
        good=examples.application(
            source="source: {repoURL: https://charts.example.com, chart: shop, targetRevision: 1.2.3}",
        ),
        check=_chart_revision,
    ),
    _parity(
        id="application/hydrator",
        reads=("spec.sourceHydrator",),
        title="A source hydrator knows its repository and its branches",
        explanation="Argo CD needs drySource.repoURL, syncSource.targetBranch and, if set, hydrateTo.targetBranch.",
        bad=examples.application(
            source="""
            sourceHydrator:
              drySource: {repoURL: https://git.example.com/shop.git, path: dry, targetRevision: main}
              syncSource: {path: hydrated}
            """,
        ),
        good=examples.application(
            source="""
            sourceHydrator:
              drySource: {repoURL: https://git.example.com/shop.git, path: dry, targetRevision: main}
              syncSource: {path: hydrated, targetBranch: live}
            """,
        ),
        check=_hydrator,
    ),
    _parity(
        id="application/source-types",
        reads=("spec.source", *_SOURCES),
        title="One tool makes a source's manifests",
        explanation=(
            "At most one of kustomize, helm, directory and plugin may be set in a source, empty blocks included."
        ),
        bad=examples.application(
            source="""
            source:
              repoURL: https://git.example.com/shop.git
              path: deploy
              targetRevision: v1
              kustomize: {namePrefix: shop-}
              helm: {}
            """,
        ),
        check=_source_types,
    ),
    _parity(
        id="application/source-ref",
        reads=_SOURCES,
        title="A ref is made of letters, digits, _ and -",
        explanation="Values files refer to a source as $ref/path, so Argo CD allows no other characters in it.",
        bad=_two_sources("name: shop", "ref: shop.values"),
        good=_two_sources("name: shop", "ref: shop-values"),
        check=_source_ref,
    ),
    _parity(
        id="application/source-ref-repeated",
        reads=_SOURCES,
        title="A ref names one source",
        explanation="Two sources with one ref are ambiguous, and Argo CD refuses them.",
        bad=_two_sources("ref: values", "ref: values"),
        good=_two_sources("ref: manifests", "ref: values"),
        check=_source_ref_repeated,
    ),
    _parity(
        id="application/source-name-repeated",
        reads=("spec.sources",),
        title="A source's name is its own",
        explanation="The command line addresses sources by name; Argo CD refuses two with the same one.",
        bad=_two_sources("name: shop", "ref: values, name: shop"),
        good=_two_sources("name: shop", "ref: values, name: values"),
        check=_source_name_repeated,
    ),
    _parity(
        id="application/managed-by-url",
        reads=(f"metadata.annotations[{names.MANAGED_BY_URL}]",),
        title="The managed-by address is a web address",
        explanation=(
            "Argo CD's web pages link to it, so it must begin with http:// or https://. Releases before 3.3 do not know "
            "the annotation, and nothing is said for them."
        ),
        bad=examples.application(metadata=f"annotations: {{{names.MANAGED_BY_URL}: argocd.example.com}}"),
        good=examples.application(
            metadata=f"annotations: {{{names.MANAGED_BY_URL}: 'https://argocd.example.com'}}",
        ),
        check=_managed_by_url,
    ),
)
