"""Places that an Application names and that Argo CD cannot go to, and what it says about places that are nowhere."""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from argocd import kubernetes_names, names, reading
from argocd.applications import sources
from argocd.judging.case import Action, Case, Finding, Kind, Profile, Rule
from argocd.rules import examples
from argocd.settings import git_urls
from argocd.shortening import shortened

_SOURCES = ("spec.source", "spec.sources", "spec.sourceHydrator")
_REFERENCE = re.compile(r"(\$[A-Za-z0-9_-]+)/")
_BUILD_VARIABLES = ("$ARGOCD_", "$KUBE_")
"""What Argo CD replaces in the values files of a lone source."""
_BRANCHES = frozenset({"HEAD", "main", "master", "develop", "trunk"})
_HEAD = "HEAD"
_IN_A_RANGE = re.compile(r"[=<>!~^|,-]+|[=<>!~^|,]*v?[0-9xX*].*")
"""A word of a range of versions, such as >= 1.2 <2, or 1.2 - 1.4.5 || 2.x."""
_CONSTRAINT = re.compile(
    r"(?:=|==|!=|>|<|>=|=>|<=|=<|~|~>|\^)?v?[0-9xX*]+(?:\.[0-9xX*]+){0,2}(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?"
)
_OF_A_RANGE = re.compile(r"[=<>!~^*,|\s]")
"""What no version and no tag of a registry has."""
_PLACES = ("jsonPointers", "jqPathExpressions", "managedFieldsManagers")
_SHOWN = 100


def _spec(case: Case) -> Mapping[str, Any]:
    return reading.mapping(case.object, "spec")


def _values_ref(case: Case) -> Iterator[Finding]:
    spec = _spec(case)
    several = sources.has_multiple_sources(spec)
    known = (
        {f"${reading.text(source, 'ref')}" for source in reading.sequence(spec, "sources")}
        if several
        else set()
    )
    for path, source in sources.plain_sources(spec):
        for at, file in _values_files(source):
            found = _REFERENCE.match(file)
            if not found or found[1] in known or (not several and found[1].startswith(_BUILD_VARIABLES)):
                continue
            meant = f"ref: {found[1][1:]}"
            yield Finding(
                "application/values-ref",
                f"{path}.{at}",
                f"source referenced {found[1]!r}, but no source has {meant}",
                f"Add a source with {meant} to spec.sources.",
            )


def _values_files(source: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for index, file in enumerate(reading.sequence(source, "helm", "valueFiles")):
        yield f"helm.valueFiles[{index}]", file if isinstance(file, str) else ""
    for index, parameter in enumerate(reading.sequence(source, "helm", "fileParameters")):
        yield f"helm.fileParameters[{index}].path", reading.text(parameter, "path")


def _source_path(case: Case) -> Iterator[Finding]:
    spec = _spec(case)
    found = [
        (f"{path}.path", reading.text(source, "path")) for path, source in case.once(sources.changed_sources)
    ]
    if sources.is_hydrated(spec):
        found = [
            ("spec.sourceHydrator.drySource.path", reading.text(spec, "sourceHydrator", "drySource", "path"))
        ]
    for at, path in found:
        reason = (
            "app path is absolute"
            if path.startswith("/")
            else "app path outside root"
            if sources.leaves_repository(path)
            else ""
        )
        if reason:
            yield Finding(
                "application/source-path",
                at,
                f"{shortened(path, _SHOWN)}: {reason}",
                "Write the folder's path from the repository's root, without a leading /; . is the root itself.",
            )


def _repo_url(case: Case) -> Iterator[Finding]:
    spec = _spec(case)
    brought = case.once(sources.changed_sources)
    charts = {f"{path}.repoURL" for path, source in brought if source.get("chart")}
    for path, url, _ in sources.repositories(spec, brought):
        reason = git_urls.problem(url) if path in charts else git_urls.git_problem(url)
        if reason:
            yield Finding(
                "application/repo-url",
                path,
                f"{shortened(url, _SHOWN)!r}: {reason}",
                "Write https://host/path, ssh://git@host/path, git@host:path, or oci://host/path.",
            )


def _source_revision(case: Case) -> Iterator[Finding]:
    for path, revision in _git_revisions(case):
        words = revision.split()
        # A range of versions may have blanks, and is resolved.
        if words == [revision] or all(map(_IN_A_RANGE.fullmatch, words)):
            continue
        yield Finding(
            "application/source-revision",
            path,
            f"unable to resolve {shortened(revision, _SHOWN)!r} to a commit SHA: no branch or tag has blanks",
            "Write the branch, tag or commit without them.",
        )


def _git_revisions(case: Case) -> Iterator[tuple[str, str]]:
    spec = _spec(case)
    if sources.is_hydrated(spec):
        dry = reading.text(spec, "sourceHydrator", "drySource", "targetRevision")
        yield "spec.sourceHydrator.drySource.targetRevision", dry
    for path, source in case.once(sources.changed_sources):
        if not reading.text(source, "chart"):
            yield f"{path}.targetRevision", reading.text(source, "targetRevision")


def _destination_namespace(case: Case) -> Iterator[Finding]:
    namespace = reading.text(_spec(case), "destination", "namespace")
    if namespace and not kubernetes_names.is_dns_label(namespace):
        yield Finding(
            "application/destination-namespace",
            "spec.destination.namespace",
            f"no namespace can be called {shortened(namespace, _SHOWN)!r}",
            "A namespace's name has up to 63 lower-case letters, digits and -, and no - at its ends.",
        )


def _destination_server(case: Case) -> Iterator[Finding]:
    if reading.text(_spec(case), "destination", "server") == names.IN_CLUSTER_NAME:
        yield Finding(
            "application/destination-server",
            "spec.destination.server",
            f'error getting cluster by server "{names.IN_CLUSTER_NAME}": {names.IN_CLUSTER_NAME} is a name',
            f"Write name: {names.IN_CLUSTER_NAME}, or server: {names.IN_CLUSTER_SERVER}.",
        )


def _chart_version(case: Case) -> Iterator[Finding]:
    for path, source in case.once(sources.changed_sources):
        revision = reading.text(source, "targetRevision")
        if not reading.text(source, "chart"):
            continue
        if _OF_A_RANGE.search(revision) and not _is_range(revision):
            yield Finding(
                "application/chart-version",
                f"{path}.targetRevision",
                f"{shortened(revision, _SHOWN)!r} is no range of versions, and no version is called so",
                "Write comparisons with a version each, such as >=1.2 <2.0.0, 1.2.* or ^1.2 || ^2.",
            )
            continue
        if not (revision in _BRANCHES or revision.startswith("refs/")):
            continue
        # A registry may have a tag with a branch's name; an index of charts has versions alone.
        if revision != _HEAD and not reading.text(source, "repoURL").startswith(("http://", "https://")):
            continue
        yield Finding(
            "application/chart-version",
            f"{path}.targetRevision",
            f"a chart has versions and no branches, so {shortened(revision, _SHOWN)} cannot be found",
            "Write a version of the chart, or a range such as 1.2.* or * for the newest.",
        )


def _is_range(text: str) -> bool:
    """As Masterminds' semver reads it: alternatives, in them comparisons that all hold, or `1.2 - 1.4`."""
    for alternative in text.split("||"):
        words = " ".join(alternative.replace(",", " ").split()).replace(" - ", " ")
        compared = re.sub(r"([=<>!~^]) ", r"\1", words).split()
        if not compared or not all(map(_CONSTRAINT.fullmatch, compared)):
            return False
    return True


def _ignore_differences(case: Case) -> Iterator[Finding]:
    for index, entry in enumerate(reading.sequence(_spec(case), "ignoreDifferences")):
        for where, reason in _ignores_nothing(entry):
            yield Finding(
                "application/ignore-differences",
                f"spec.ignoreDifferences[{index}]{where}",
                f"{reason}: nothing is ignored",
                "Give group (without a version) and kind, and in jsonPointers paths such as /spec/replicas.",
            )


def _ignores_nothing(entry: Any) -> Iterator[tuple[str, str]]:
    group = reading.text(entry, "group")
    if "/" in group:
        yield ".group", f"{shortened(group, _SHOWN)} has a version, and a group has none"
    if not any(reading.sequence(entry, key) for key in _PLACES):
        yield "", f"none of {', '.join(_PLACES)} is set"
    for index, pointer in enumerate(reading.sequence(entry, "jsonPointers")):
        if not isinstance(pointer, str):
            continue
        at = f".jsonPointers[{index}]"
        if not pointer.startswith("/"):
            yield at, f"{shortened(pointer, _SHOWN)!r} is no JSON pointer, which begins with /"
        elif "*" in pointer.split("/"):
            yield at, f"a JSON pointer knows no *, only the position in a list ({shortened(pointer, _SHOWN)})"


_refused = partial(
    Rule,
    kinds=frozenset({Kind.APPLICATION}),
    profile=Profile.RECOMMENDED,
    action=Action.DENY,
    refused_by_argocd=True,
    good=examples.application(),
)

_VALUES = """
sources:
- repoURL: https://charts.example.com
  chart: shop
  targetRevision: 1.2.3
  helm: {{valueFiles: [$values/shop.yaml]}}
- {{repoURL: https://git.example.com/values.git, targetRevision: v1, {second}}}
"""


def _source(parts: str) -> str:
    return examples.application(source=f"source: {{{parts}}}")


def _differences(entry: str) -> str:
    return examples.application(spec=f"ignoreDifferences: [{{group: apps, kind: Deployment, {entry}}}]")


RULES: tuple[Rule, ...] = (
    _refused(
        id="application/values-ref",
        reads=_SOURCES,
        title="A $ref in a values file names a source",
        explanation=(
            "$values/file is a file of the source with ref: values, and needs spec.sources. Argo CD cannot make "
            "manifests where no source has that ref; with one source it takes the text for a variable and looks for "
            "another file."
        ),
        bad=examples.application(source=_VALUES.format(second="path: deploy")),
        good=examples.application(source=_VALUES.format(second="ref: values")),
        check=_values_ref,
    ),
    _refused(
        id="application/source-path",
        reads=_SOURCES,
        title="A path stays inside the repository",
        explanation="The repo server refuses a path that begins with / or leads out of the repository.",
        bad=_source("repoURL: https://git.example.com/shop.git, path: /deploy, targetRevision: v1"),
        check=_source_path,
    ),
    _refused(
        id="application/repo-url",
        reads=_SOURCES,
        title="A repository's address can be read",
        explanation=(
            "Argo CD fetches over http, https, ssh, git, oci and file, or takes git@host:path. Blanks, other schemes "
            "and a port that is no number lead nowhere. Without a scheme a Git repository is taken for a folder beside "
            "the repo server; only a chart's registry is written so."
        ),
        bad=_source("repoURL: htps://git.example.com/shop.git, path: deploy, targetRevision: v1"),
        check=_repo_url,
    ),
    _refused(
        id="application/source-revision",
        reads=_SOURCES,
        title="A revision is one that Git can have",
        explanation=(
            "No branch, tag or commit has a blank, so that Argo CD cannot resolve a revision with one, often at its end. "
            "Ranges of versions may have blanks between their parts, and charts are not judged."
        ),
        bad=_source("repoURL: https://git.example.com/shop.git, path: deploy, targetRevision: 'main '"),
        check=_source_revision,
    ),
    _refused(
        id="application/destination-namespace",
        reads=("spec.destination.namespace",),
        title="The destination's namespace is a name",
        explanation="Kubernetes has no namespace whose name is no DNS label, so every sync fails.",
        bad=examples.application(destination="server: https://kubernetes.default.svc, namespace: Shop_Live"),
        check=_destination_namespace,
    ),
    _refused(
        id="application/destination-server",
        reads=("spec.destination.server",),
        title="A server is an address",
        explanation="in-cluster is the name of Argo CD's own cluster; as a server it is not found.",
        bad=examples.application(destination="server: in-cluster, namespace: shop"),
        good=examples.application(destination="name: in-cluster, namespace: shop"),
        check=_destination_server,
    ),
    _refused(
        id="application/chart-version",
        reads=_SOURCES,
        title="A chart has a version",
        explanation=(
            "Helm repositories hold versions of charts; HEAD and branches belong to Git. In registries only HEAD is "
            "refused, because a tag may be called like a branch. A range that cannot be read is looked for as the name of "
            "a version, and none is called so."
        ),
        bad=_source("repoURL: https://charts.example.com, chart: shop, targetRevision: HEAD"),
        good=_source("repoURL: https://charts.example.com, chart: shop, targetRevision: 1.2.*"),
        check=_chart_version,
    ),
    _refused(
        id="application/ignore-differences",
        action=Action.WARN,
        refused_by_argocd=False,
        reads=("spec.ignoreDifferences",),
        title="What is to be ignored can be found",
        explanation=(
            "An entry without a place, with a version in its group or with a text that is no JSON pointer ignores "
            "nothing, and Argo CD says nothing about it."
        ),
        bad=_differences("jsonPointers: [spec/replicas]"),
        good=_differences("jsonPointers: [/spec/replicas]"),
        check=_ignore_differences,
    ),
)
