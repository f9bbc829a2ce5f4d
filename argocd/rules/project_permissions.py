"""What a project permits without its author having meant it, and what it cannot permit though he has."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from argocd import names, reading
from argocd.budget import FINDING, spend
from argocd.globs import Verdict
from argocd.judging.case import Case, Finding, Profile
from argocd.judging.entries import added
from argocd.judging.memo import Remembered
from argocd.judging.ratchet import differs
from argocd.projects import pattern_lists
from argocd.projects.permissions import destination_permitted
from argocd.rules import examples
from argocd.rules.project_rule import project_rule
from argocd.settings import git_urls

_EVERYTHING_DENIED = "!*"
"""Refused by another rule; it leaves no rest to permit."""
_EVERYTHING = frozenset({"*", "**", "/.*/", "/^.*$/", "//"})
_READING = 10
"""Steps to read a URL that is not written as most are."""
_SPECIAL = "*[{\\"
_DESTINATION = ("server", "name", "namespace")
_LISTED = ("spec", "destinations")
_SCOPED = ("spec", "permitOnlyProjectScopedClusters")
_WILD = re.compile(r"[*?\[{!]")


@Remembered
def _odd(case: Case) -> list[Finding]:
    """One look serves all rules about what is permitted."""
    spec = reading.mapping(case.object, "spec")
    listed = reading.sequence(spec, "destinations")
    entries = [reading.fields(entry, _DESTINATION) for entry in listed]
    return [
        *_odd_sources(case, reading.sequence(spec, "sourceRepos")),
        *_odd_destinations(case, entries),
        *_odd_reach(case, _may_mean_here(listed, entries)),
        *_odd_namespace(case),
    ]


def _odd_sources(case: Case, entries: Sequence[Any]) -> Iterator[Finding]:
    texts = [entry for entry in entries if isinstance(entry, str)]
    if texts and all(map(pattern_lists.is_denial, texts)) and _EVERYTHING_DENIED not in texts:
        yield _permits_the_rest("spec.sourceRepos", "repository")
    for index, entry in case.changed_entries("spec", "sourceRepos"):
        if isinstance(entry, str) and (problem := _source_problem(entry)):
            spend(FINDING)
            rule, said, hint = problem
            yield Finding(rule, f"spec.sourceRepos[{index}]", said, hint)


def _source_problem(entry: str) -> tuple[str, str, str] | None:
    if git_urls.is_plain(entry):
        return None
    spend(_READING)
    if entry in {"*", "**"}:
        return (
            "project/source-repo-wildcard",
            f"'{entry}' permits every repository there is",
            "Name the repositories or their organisation, as https://git.example.com/shop/*",
        )
    url = entry.removeprefix("!")
    normalized = git_urls.normalize(url)
    if not normalized:
        said = f"Argo CD cannot read '{url}' as a URL, so it stands for every other URL that it cannot read"
    elif "%" in normalized and any(normalized.count(one) < url.count(one) for one in _SPECIAL):
        said = f"Argo CD escapes '{url}' to '{normalized}', and an escaped wildcard or brace is none"
    else:
        return None
    hint = "Write ssh://git@host/path or git@host:path, and no braces in a path."
    return "project/source-repo-unreadable", said, hint


def _permits_the_rest(path: str, what: str) -> Finding:
    return Finding(
        "project/only-denials",
        path,
        f"every entry denies something, so every other {what} is permitted",
        "Add an entry that says what is permitted.",
    )


def _odd_destinations(case: Case, entries: Sequence[Sequence[str]]) -> Iterator[Finding]:
    for index, entry in case.changed_entries("spec", "destinations"):
        server, name, namespace = entries[index]
        if said := _server_problem(server):
            spend(FINDING)
            path = f"spec.destinations[{index}].server"
            hint = "Write the server as the cluster's secret does, or give the cluster's name."
            yield Finding(
                "project/destination-server", path, f"{said}, so the entry matches no cluster", hint
            )
        if (said := _missing(server or name, namespace)) and isinstance(entry, Mapping):
            path = f"spec.destinations[{index}]"
            hint = "Give a server or a name, and a namespace; '*' is any."
            yield Finding("project/destination-incomplete", path, said, hint)
    denying = all(any(map(pattern_lists.is_denial, entry)) for entry in entries)
    if entries and denying and not any(_EVERYTHING_DENIED in entry for entry in entries):
        yield _permits_the_rest("spec.destinations", "destination")


def _server_problem(server: str) -> str:
    server = server.removeprefix("!")
    if not server or _WILD.search(server):
        return ""
    if "://" not in server:
        return f"'{server}' is no URL; a cluster's name belongs into `name`"
    return f"'{server}' ends with a slash, and the URLs of clusters do not" if server.endswith("/") else ""


def _missing(cluster: str, namespace: str) -> str:
    if not cluster:
        return "neither a server nor a name: the entry matches no cluster"
    if not namespace:
        return "no namespace: the entry matches applications without a destination namespace alone"
    return ""


def _may_mean_here(listed: Sequence[Any], entries: Sequence[Sequence[str]]) -> dict[int, Any]:
    """The entries that can say anything about Argo CD's own cluster; most name another one."""
    return {
        index: listed[index]
        for index, (server, name, _) in enumerate(entries)
        if server == names.IN_CLUSTER_SERVER
        or name == names.IN_CLUSTER_NAME
        or _WILD.search(server)
        or _WILD.search(name)
    }


def _odd_reach(case: Case, here: Mapping[int, Any]) -> Iterator[Finding]:
    """Ways to Argo CD's own namespace, and who may take them."""
    control_plane = case.surroundings.configuration.argocd.namespace
    way = partial(_way_to, control_plane, case.object, here)
    if _may_open_a_way(case, control_plane) and (opened := way()):
        said = f"applications of this project may deploy to {control_plane}, where they can give themselves any right"
        hint = f"Name the namespaces that are meant, or add a denial: namespace '!{control_plane}'."
        yield Finding("project/destination-control-plane", opened, said, hint)
    for index, entry in enumerate(reading.sequence(case.object, "spec", "sourceNamespaces")):
        path = f"spec.sourceNamespaces[{index}]"
        if entry == control_plane:
            said = f"applications in {control_plane} may always use every project, whatever this list says"
            yield Finding("project/source-namespace-control-plane", path, said, "Remove the entry.")
        elif (
            isinstance(entry, str) and entry in _EVERYTHING and (privilege := _privilege(case.object, way()))
        ):
            said = f"whoever can create an Application in any namespace may use this project, and {privilege}"
            hint = "Name the namespaces that are meant."
            yield Finding("project/source-namespace-wildcard", path, said, hint)


def _may_open_a_way(case: Case, namespace: str) -> bool:
    """Whether this version may permit what its predecessor did not: with an entry that permits it, or without a denial."""
    if case.old is None or differs(case.old, case.object, _SCOPED):
        return True
    removed = added(reading.sequence(case.old, *_LISTED), reading.sequence(case.object, *_LISTED))
    return any(_permits(namespace, [entry]) for _, entry in case.changed_entries(*_LISTED)) or any(
        "!" in text for _, entry in removed for text in reading.fields(entry, _DESTINATION)
    )


def _way_to(namespace: str, project: Mapping[str, Any], here: Mapping[int, Any]) -> str:
    """The path of a destination that permits this namespace of Argo CD's cluster; empty where none does."""
    scoped = reading.value(project, "spec", "permitOnlyProjectScopedClusters") is True
    if scoped or not here or not _permits(namespace, list(here.values())):
        return ""
    permitting = (index for index, entry in here.items() if _permits(namespace, [entry]))
    return f"spec.destinations[{next(permitting)}]"


def _permits(namespace: str, entries: Any) -> bool:
    verdict = destination_permitted(
        {"spec": {"destinations": entries}},
        server=names.IN_CLUSTER_SERVER,
        name=names.IN_CLUSTER_NAME,
        namespace=namespace,
    )
    return verdict is Verdict.YES


def _privilege(project: Mapping[str, Any], way: str) -> str:
    if reading.text(project, "metadata", "name") == names.DEFAULT_PROJECT:
        return "it is the default project"
    if way:
        return "it may deploy to Argo CD's own namespace"
    for entry in reading.sequence(project, "spec", "clusterResourceWhitelist"):
        if reading.text(entry, "group") == reading.text(entry, "kind") == "*" and not reading.text(
            entry, "name"
        ):
            return "it permits all kinds of cluster-wide objects"
    return ""


def _odd_namespace(case: Case) -> Iterator[Finding]:
    namespace = reading.text(case.object, "metadata", "namespace")
    control_plane = case.surroundings.configuration.argocd.namespace
    if namespace and namespace != control_plane:
        yield Finding(
            "project/namespace",
            "metadata.namespace",
            f"Argo CD reads projects in {control_plane} alone and ignores this one in {namespace}",
            f"Put it into {control_plane}.",
        )


def _signature_keys(case: Case) -> Iterator[Finding]:
    spec = reading.mapping(case.object, "spec")
    if reading.sequence(spec, "signatureKeys") and reading.value(spec, "sourceIntegrity", "git") is not None:
        yield Finding(
            "project/signature-keys",
            "spec.signatureKeys",
            "Argo CD ignores signatureKeys where sourceIntegrity is set",
            "Move the keys to sourceIntegrity and remove signatureKeys.",
        )


_warned = partial(project_rule, check=_odd)

_SERVER = "server: https://kubernetes.default.svc"
_DESTINATIONS = ("spec.destinations", "spec.permitOnlyProjectScopedClusters")

RULES = (
    _warned(
        "project/only-denials",
        reads=("spec.destinations", "spec.sourceRepos"),
        title="A list of denials says what is permitted too",
        explanation=(
            "Argo CD's documentation says that one entry must allow what is used. In fact a denial of something else "
            "counts as such an entry: a list of denials permits everything that it does not name."
        ),
        bad="sourceRepos: ['!https://git.example.com/secrets.git']",
        good="sourceRepos: ['https://git.example.com/*', '!https://git.example.com/secrets.git']",
    ),
    _warned(
        "project/source-repo-wildcard",
        profile=Profile.STRICT,
        opinion="Two of three projects permit every repository and rely on their destinations and on reviews.",
        reads=("spec.sourceRepos",),
        title="A project names its repositories",
        explanation=(
            "With `*` anybody who can create an Application in the project can deploy from any repository in the world."
        ),
        bad="sourceRepos: ['*']",
        good="sourceRepos: ['https://git.example.com/shop/*']",
    ),
    _warned(
        "project/source-repo-unreadable",
        refused_by_argocd=True,
        reads=("spec.sourceRepos",),
        title="Argo CD can read the URLs of repositories",
        explanation=(
            "Both sides of a comparison are normalised. A URL that Go cannot read, such as "
            "ssh://git@host:org/repo, becomes the empty text, and equals every other such URL: the entry permits "
            "them all. In a path with braces everything special is escaped and means itself."
        ),
        bad="sourceRepos: ['ssh://git@git.example.com:shop/deploy']",
        good="sourceRepos: ['git@git.example.com:shop/deploy']",
    ),
    _warned(
        "project/destination-server",
        refused_by_argocd=True,
        reads=("spec.destinations",),
        title="A destination's server is a cluster's URL",
        explanation=(
            "Servers are compared letter by letter with the URLs in cluster secrets, which have a scheme and no slash "
            "at the end."
        ),
        bad="destinations: [{server: in-cluster, namespace: shop}]",
        good="destinations: [{name: in-cluster, namespace: shop}]",
    ),
    _warned(
        "project/destination-incomplete",
        refused_by_argocd=True,
        reads=("spec.destinations",),
        title="A destination names a cluster and a namespace",
        explanation=(
            "What is missing is no wildcard: without a namespace an entry matches only applications that have none, "
            "without a cluster it matches nothing."
        ),
        bad=f"destinations: [{{{_SERVER}}}]",
        good=f"destinations: [{{{_SERVER}, namespace: shop}}]",
    ),
    _warned(
        "project/destination-control-plane",
        profile=Profile.STRICT,
        opinion="Two of three projects permit every namespace, and where their writers are trusted that is meant.",
        reads=_DESTINATIONS,
        title="A project does not deploy to Argo CD's own namespace",
        explanation=(
            "Who may write to Argo CD's namespace may create projects, applications and secrets there, and so do "
            "everything that Argo CD can do. An admin's own project may be exempted."
        ),
        bad=f"destinations: [{{{_SERVER}, namespace: '*'}}]",
        good=f"destinations: [{{{_SERVER}, namespace: '*'}}, {{{_SERVER}, namespace: '!argocd'}}]",
    ),
    _warned(
        "project/source-namespace-control-plane",
        reads=("spec.sourceNamespaces",),
        title="Argo CD's own namespace is no source namespace",
        explanation=(
            "Applications in Argo CD's namespace may use every project. The entry changes nothing, and who reads it "
            "may think that other projects are closed to them."
        ),
        bad="sourceNamespaces: [argocd]",
        good="sourceNamespaces: [shop]",
    ),
    _warned(
        "project/source-namespace-wildcard",
        reads=("spec.sourceNamespaces", "spec.clusterResourceWhitelist", "metadata.name", *_DESTINATIONS),
        title="A project with great rights is not open to every namespace",
        explanation=(
            "With `*` as a source namespace everybody who can create an Application somewhere can use the project. "
            "For the default project, and for one that reaches Argo CD's namespace or all cluster-wide kinds, that "
            "makes them administrators."
        ),
        bad="sourceNamespaces: ['*']\nclusterResourceWhitelist: [{group: '*', kind: '*'}]",
        good="sourceNamespaces: [shop]\nclusterResourceWhitelist: [{group: '*', kind: '*'}]",
    ),
    _warned(
        "project/namespace",
        reads=("metadata.namespace",),
        title="A project is in Argo CD's namespace",
        explanation="Argo CD reads projects in its own namespace alone. One elsewhere is never used.",
        bad=examples.project(spec="sourceNamespaces: [shop]").replace("namespace: argocd", "namespace: shop"),
        good=examples.project(spec="sourceNamespaces: [shop]"),
    ),
    _warned(
        "project/signature-keys",
        reads=("spec.signatureKeys", "spec.sourceIntegrity"),
        needs=("spec.signatureKeys",),
        title="Signatures are asked for in one place",
        explanation="Where sourceIntegrity is set Argo CD ignores the deprecated signatureKeys and notes it in its log.",
        bad=(
            "signatureKeys: [{keyID: 4AEE18F83AFDEB23}]\n"
            "sourceIntegrity: {git: {policies: [{gpg: {mode: strict, keys: [4AEE18F83AFDEB23]}}]}}"
        ),
        good="sourceIntegrity: {git: {policies: [{gpg: {mode: strict, keys: [4AEE18F83AFDEB23]}}]}}",
        check=_signature_keys,
    ),
)
