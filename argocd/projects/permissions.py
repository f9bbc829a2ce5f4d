"""What an AppProject permits: repositories, clusters and namespaces, kinds, and where its applications may live.

Each question is answered as Argo CD's server and controller would. A verdict is neither yes nor no where a
pattern makes Argo CD panic or hang, and unknown where something that decides is not known.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from argocd import reading
from argocd.budget import spend
from argocd.globs import Verdict
from argocd.go import filepath
from argocd.judging.neighbours import KnownCluster, Neighbours
from argocd.projects import pattern_lists
from argocd.projects.global_projects import global_projects_of
from argocd.settings import git_urls
from argocd.settings.argocd_cm import Settings

Project = Mapping[str, Any]

_APPENDED = (
    "clusterResourceWhitelist",
    "clusterResourceBlacklist",
    "namespaceResourceWhitelist",
    "namespaceResourceBlacklist",
    "syncWindows",
    "sourceRepos",
    "destinations",
    "destinationServiceAccounts",
)
"""What a global project adds to the projects that it is added to."""


class _UndecidedError(Exception):
    """Argo CD would not come to an answer."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict)
        self.verdict = verdict


def source_permitted(project: Project, url: str) -> Verdict:
    """All entries count: one that denies the URL is final, else one that is right is enough.

    A denial of another URL is right too, so a list of denials permits everything else.
    """
    wanted = git_urls.normalize(url)
    try:
        return _verdict(_is_source_matched(reading.sequence(project, "spec", "sourceRepos"), wanted))
    except _UndecidedError as undecided:
        return undecided.verdict


def _is_source_matched(entries: Iterable[Any], wanted: str) -> bool:
    matched = False
    for entry in map(_text, entries):
        spend(1)
        denies = pattern_lists.is_denial(entry)
        pattern = f"!{git_urls.normalize(entry[1:])}" if denies else git_urls.normalize(entry)
        if _matches(pattern, wanted, "/"):
            matched = True
        elif pattern_lists.is_denial(pattern):
            return False
    return matched


def destination_permitted(
    project: Project,
    *,
    server: str,
    name: str,
    namespace: str,
    project_clusters: Sequence[KnownCluster] | None = (),
) -> Verdict:
    """`server` and `name` are those of the cluster that the destination resolves to.

    `project_clusters` are the clusters that belong to the project alone; they count where it permits no others.
    """
    try:
        matched = _is_destination_matched(project, server=server, name=name, namespace=namespace)
    except _UndecidedError as undecided:
        return undecided.verdict
    if not matched or reading.value(project, "spec", "permitOnlyProjectScopedClusters") is not True:
        return _verdict(matched)
    if project_clusters is None:
        return Verdict.UNKNOWN
    spend(len(project_clusters))
    # Two empty names are equal.
    return _verdict(any(one.name == name or one.server == server for one in project_clusters))


def _is_destination_matched(project: Project, *, server: str, name: str, namespace: str) -> bool:
    matched = False
    for entry in reading.sequence(project, "spec", "destinations"):
        names, servers, namespaces = (reading.text(entry, key) for key in ("name", "server", "namespace"))
        # An empty pattern matches the empty text alone.
        name_matched = name != "" and names != "" and _matches(names, name)
        server_matched = server != "" and servers != "" and _matches(servers, server)
        namespace_matched = _matches(namespaces, namespace)
        if (server_matched or name_matched) and namespace_matched:
            matched = True
        elif (
            # A denied name is final whatever the entry's namespace says; the others count together.
            (not name_matched and pattern_lists.is_denial(names))
            or (not server_matched and pattern_lists.is_denial(servers) and namespace_matched)
            or (not namespace_matched and pattern_lists.is_denial(namespaces) and server_matched)
        ):
            return False
    return matched


def kind_permitted(project: Project, *, group: str, kind: str, name: str = "", namespaced: bool) -> bool:
    """No list of namespaced kinds permits all of them, no list of cluster-wide ones permits none."""
    spec = reading.mapping(project, "spec")
    scope = "namespace" if namespaced else "cluster"
    allowed, denied = spec.get(f"{scope}ResourceWhitelist"), spec.get(f"{scope}ResourceBlacklist")
    wanted = (group, kind, None if namespaced else name)
    return ((namespaced and allowed is None) or _is_listed(allowed, *wanted)) and not _is_listed(
        denied, *wanted
    )


def _is_listed(entries: Any, group: str, kind: str, name: str | None) -> bool:
    for entry in reading.sequence({"": entries}, ""):
        if filepath.matches(reading.text(entry, "kind"), kind) and filepath.matches(
            reading.text(entry, "group"), group
        ):
            pattern = reading.text(entry, "name")
            if name is None or not pattern or filepath.matches(pattern, name):
                return True
    return False


def application_namespace_permitted(project: Project, *, namespace: str, control_plane: str) -> Verdict:
    """Argo CD's own namespace is always permitted, whatever the list says."""
    if namespace in {"", control_plane}:
        return Verdict.YES
    return pattern_lists.in_list(map(_text, reading.sequence(project, "spec", "sourceNamespaces")), namespace)


def effective_project(project: Project, *, settings: Settings, neighbours: Neighbours) -> Project | None:
    """The project as an application meets it; None where it is not known what belongs to it.

    Its own repositories and clusters are permitted, and global projects add to its lists.
    """
    name = reading.text(project, "metadata", "name")
    repositories = neighbours.repositories_of_project(name)
    clusters = neighbours.clusters_of_project(name)
    added = global_projects_of(project, settings=settings, neighbours=neighbours)
    if repositories is None or clusters is None or added is None:
        return None
    own = {"sourceRepos": list(repositories), "destinations": list(_own_destinations(clusters))}
    spec = dict(reading.mapping(project, "spec"))
    for addition in (own, *(reading.mapping(other, "spec") for other in added)):
        for key in _APPENDED:
            if more := reading.sequence(addition, key):
                spec[key] = [*reading.sequence(spec, key), *more]
    return {**project, "spec": spec}


def _own_destinations(clusters: Iterable[KnownCluster]) -> Iterable[dict[str, str]]:
    for cluster in clusters:
        for namespace in cluster.namespaces or ("*",):
            yield {"server": cluster.server, "namespace": namespace}


def _matches(pattern: str, text: str, separators: str = "") -> bool:
    verdict = pattern_lists.match(pattern, text, separators)
    if verdict in {Verdict.PANIC, Verdict.HANG}:
        raise _UndecidedError(verdict)
    return verdict is Verdict.YES


def _verdict(answer: bool) -> Verdict:  # noqa: FBT001 - a word for a truth value
    return Verdict.YES if answer else Verdict.NO


def _text(entry: Any) -> str:
    return entry if isinstance(entry, str) else ""
