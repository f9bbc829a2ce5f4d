"""What a project permits without its author having meant it, and what it cannot permit though he has."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from argocd import git_urls, names, pattern_lists, reading
from argocd.globs import Verdict
from argocd.judging import Action, Case, Check, Finding, Profile, Rule
from argocd.projects import destination_permitted
from argocd.rules import examples
from argocd.rules.projects import PROJECT

_EVERYTHING = frozenset({"*", "**", "/.*/", "/^.*$/", "//"})
_SPECIAL = "*[{\\"
_WILD = frozenset("*?[{")


def _only_denials(case: Case) -> Iterator[Finding]:
    repositories = reading.texts(case.object, "spec", "sourceRepos")
    if repositories and all(map(pattern_lists.is_denial, repositories)):
        yield _permits_the_rest("spec.sourceRepos", "repository")
    destinations = reading.sequence(case.object, "spec", "destinations")
    if destinations and all(map(_denies, destinations)):
        yield _permits_the_rest("spec.destinations", "destination")


def _denies(destination: Any) -> bool:
    return any(
        pattern_lists.is_denial(reading.text(destination, key)) for key in ("server", "name", "namespace")
    )


def _permits_the_rest(path: str, what: str) -> Finding:
    return Finding(
        "project/only-denials",
        path,
        f"every entry denies something, so every other {what} is permitted",
        "Add an entry that says what is permitted.",
    )


def _repository_wildcard(case: Case) -> Iterator[Finding]:
    for index, url in enumerate(reading.sequence(case.object, "spec", "sourceRepos")):
        if url in {"*", "**"}:
            yield Finding(
                "project/source-repo-wildcard",
                f"spec.sourceRepos[{index}]",
                f"'{url}' permits every repository there is",
                "Name the repositories or their organisation, as https://git.example.com/shop/*",
            )


def _repository_unreadable(case: Case) -> Iterator[Finding]:
    for index, entry in enumerate(reading.sequence(case.object, "spec", "sourceRepos")):
        if not isinstance(entry, str):
            continue
        url = entry.removeprefix("!")
        normalized = git_urls.normalize(url)
        if not normalized:
            said = (
                f"Argo CD cannot read '{url}' as a URL, so it stands for every other URL that it cannot read"
            )
        elif any(normalized.count(one) < url.count(one) for one in _SPECIAL):
            said = f"Argo CD escapes '{url}' to '{normalized}', and an escaped wildcard or brace is none"
        else:
            continue
        yield Finding(
            "project/source-repo-unreadable",
            f"spec.sourceRepos[{index}]",
            said,
            "Write ssh://git@host/path or git@host:path, and no braces in a path.",
        )


def _destination_server(case: Case) -> Iterator[Finding]:
    for index, entry in enumerate(reading.sequence(case.object, "spec", "destinations")):
        server = reading.text(entry, "server").removeprefix("!")
        if not server or not _WILD.isdisjoint(server):
            continue
        if "://" not in server:
            said = f"'{server}' is no URL; a cluster's name belongs into `name`"
        elif server.endswith("/"):
            said = f"'{server}' ends with a slash, and the URLs of clusters do not"
        else:
            continue
        yield Finding(
            "project/destination-server",
            f"spec.destinations[{index}].server",
            f"{said}, so the entry matches no cluster",
            "Write the server as the cluster's secret does, or give the cluster's name.",
        )


def _destination_incomplete(case: Case) -> Iterator[Finding]:
    for index, entry in enumerate(reading.sequence(case.object, "spec", "destinations")):
        if not isinstance(entry, Mapping):
            continue
        if not reading.text(entry, "server") and not reading.text(entry, "name"):
            said = "neither a server nor a name: the entry matches no cluster"
        elif not reading.text(entry, "namespace"):
            said = "no namespace: the entry matches applications without a destination namespace alone"
        else:
            continue
        yield Finding(
            "project/destination-incomplete",
            f"spec.destinations[{index}]",
            said,
            "Give a server or a name, and a namespace; '*' is any.",
        )


def _destination_control_plane(case: Case) -> Iterable[Finding]:
    path = case.once(_way_to_the_control_plane)
    if not path:
        return ()
    namespace = case.surroundings.configuration.argocd.namespace
    said = f"applications of this project may deploy to {namespace}, where they can give themselves any right"
    hint = f"Name the namespaces that are meant, or add a denial: namespace '!{namespace}'."
    return [Finding("project/destination-control-plane", path, said, hint)]


def _way_to_the_control_plane(case: Case) -> str:
    """The path of an entry that permits Argo CD's own namespace; empty where none does."""
    entries = reading.sequence(case.object, "spec", "destinations")
    if not entries or reading.value(case.object, "spec", "permitOnlyProjectScopedClusters") is True:
        return ""
    for index, entry in enumerate(entries):
        if _permits_control_plane([entry], case):
            return f"spec.destinations[{index}]" if _permits_control_plane(entries, case) else ""
    return ""


def _permits_control_plane(entries: Any, case: Case) -> bool:
    verdict = destination_permitted(
        {"spec": {"destinations": entries}},
        server=names.IN_CLUSTER_SERVER,
        name=names.IN_CLUSTER_NAME,
        namespace=case.surroundings.configuration.argocd.namespace,
    )
    return verdict is Verdict.YES


def _source_namespaces(case: Case) -> Iterator[Finding]:
    control_plane = case.surroundings.configuration.argocd.namespace
    for index, entry in enumerate(reading.sequence(case.object, "spec", "sourceNamespaces")):
        path = f"spec.sourceNamespaces[{index}]"
        if entry == control_plane:
            yield Finding(
                "project/source-namespace-control-plane",
                path,
                f"applications in {control_plane} may always use every project, whatever this list says",
                "Remove the entry.",
            )


def _source_namespace_wildcard(case: Case) -> Iterator[Finding]:
    entries = reading.sequence(case.object, "spec", "sourceNamespaces")
    if not entries:
        return
    privilege = _privilege(case)
    for index, entry in enumerate(entries):
        if privilege and isinstance(entry, str) and entry in _EVERYTHING:
            yield Finding(
                "project/source-namespace-wildcard",
                f"spec.sourceNamespaces[{index}]",
                f"whoever can create an Application in any namespace may use this project, and {privilege}",
                "Name the namespaces that are meant.",
            )


def _privilege(case: Case) -> str:
    if reading.text(case.object, "metadata", "name") == names.DEFAULT_PROJECT:
        return "it is the default project"
    if case.once(_way_to_the_control_plane):
        return "it may deploy to Argo CD's own namespace"
    for entry in reading.sequence(case.object, "spec", "clusterResourceWhitelist"):
        if reading.text(entry, "group") == reading.text(entry, "kind") == "*" and not reading.text(
            entry, "name"
        ):
            return "it permits all kinds of cluster-wide objects"
    return ""


def _namespace(case: Case) -> Iterator[Finding]:
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


def _warned(
    rule: str,
    *,
    reads: tuple[str, ...],
    title: str,
    explanation: str,
    bad: str,
    good: str,
    check: Check,
) -> Rule:
    return Rule(
        id=rule,
        kinds=PROJECT,
        profile=Profile.RECOMMENDED,
        action=Action.WARN,
        reads=reads,
        title=title,
        explanation=explanation,
        bad=bad if bad.startswith("apiVersion") else examples.project(spec=bad),
        good=good if good.startswith("apiVersion") else examples.project(spec=good),
        check=check,
    )


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
        check=_only_denials,
    ),
    _warned(
        "project/source-repo-wildcard",
        reads=("spec.sourceRepos",),
        title="A project names its repositories",
        explanation=(
            "With `*` anybody who can create an Application in the project can deploy from any repository in the world."
        ),
        bad="sourceRepos: ['*']",
        good="sourceRepos: ['https://git.example.com/shop/*']",
        check=_repository_wildcard,
    ),
    _warned(
        "project/source-repo-unreadable",
        reads=("spec.sourceRepos",),
        title="Argo CD can read the URLs of repositories",
        explanation=(
            "Both sides of a comparison are normalised. A URL that Go cannot read, such as "
            "ssh://git@host:org/repo, becomes the empty text, and equals every other such URL: the entry permits "
            "them all. In a path with braces everything special is escaped and means itself."
        ),
        bad="sourceRepos: ['ssh://git@git.example.com:shop/deploy']",
        good="sourceRepos: ['git@git.example.com:shop/deploy']",
        check=_repository_unreadable,
    ),
    _warned(
        "project/destination-server",
        reads=("spec.destinations",),
        title="A destination's server is a cluster's URL",
        explanation=(
            "Servers are compared letter by letter with the URLs in cluster secrets, which have a scheme and no slash "
            "at the end."
        ),
        bad="destinations: [{server: in-cluster, namespace: shop}]",
        good="destinations: [{name: in-cluster, namespace: shop}]",
        check=_destination_server,
    ),
    _warned(
        "project/destination-incomplete",
        reads=("spec.destinations",),
        title="A destination names a cluster and a namespace",
        explanation=(
            "What is missing is no wildcard: without a namespace an entry matches only applications that have none, "
            "without a cluster it matches nothing."
        ),
        bad=f"destinations: [{{{_SERVER}}}]",
        good=f"destinations: [{{{_SERVER}, namespace: shop}}]",
        check=_destination_incomplete,
    ),
    _warned(
        "project/destination-control-plane",
        reads=_DESTINATIONS,
        title="A project does not deploy to Argo CD's own namespace",
        explanation=(
            "Who may write to Argo CD's namespace may create projects, applications and secrets there, and so do "
            "everything that Argo CD can do. An admin's own project may be exempted."
        ),
        bad=f"destinations: [{{{_SERVER}, namespace: '*'}}]",
        good=f"destinations: [{{{_SERVER}, namespace: '*'}}, {{{_SERVER}, namespace: '!argocd'}}]",
        check=_destination_control_plane,
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
        check=_source_namespaces,
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
        check=_source_namespace_wildcard,
    ),
    _warned(
        "project/namespace",
        reads=("metadata.namespace",),
        title="A project is in Argo CD's namespace",
        explanation="Argo CD reads projects in its own namespace alone. One elsewhere is never used.",
        bad=examples.project(spec="sourceNamespaces: [shop]").replace("namespace: argocd", "namespace: shop"),
        good=examples.project(spec="sourceNamespaces: [shop]"),
        check=_namespace,
    ),
    _warned(
        "project/signature-keys",
        reads=("spec.signatureKeys", "spec.sourceIntegrity"),
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
