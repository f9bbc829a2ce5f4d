"""What else can be wrong with a cluster secret: its config, its switches, its twins."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from argocd import reading
from argocd.go import strconv
from argocd.judging.case import Action, Case, Finding, Kind, Profile, Rule
from argocd.rules import examples
from argocd.settings import cluster_config, secrets
from argocd.settings.cluster_config import ClusterConfig, Defect

if TYPE_CHECKING:
    from argocd.judging.neighbours import KnownCluster

_CONFIG = "data.config"


def _config(case: Case) -> ClusterConfig:
    return cluster_config.read(secrets.value(case.object, "config") or "")


def _problems(case: Case, rule: str, defect: Defect, hint: str) -> Iterator[Finding]:
    for problem in _config(case).problems:
        if problem.defect is defect:
            subject = f"{problem.field} " if problem.field else "the config "
            yield Finding(rule, _CONFIG, subject + problem.text, hint)


def _config_unreadable(case: Case) -> Iterator[Finding]:
    return _problems(
        case,
        "cluster/config-unreadable",
        Defect.UNREADABLE,
        "Argo CD ignores a cluster whose config it cannot read. Correct the JSON.",
    )


def _config_ambiguous(case: Case) -> Iterator[Finding]:
    return _problems(
        case,
        "cluster/config-ambiguous",
        Defect.AMBIGUOUS,
        "Keep one: Argo CD merges keys that are repeated or differ in case alone, other readers choose one.",
    )


def _config_spelling(case: Case) -> Iterator[Finding]:
    return _problems(
        case,
        "cluster/config-spelling",
        Defect.SPELLING,
        "Argo CD reads it in any case; other readers of the secret do not.",
    )


def _insecure_with_ca(case: Case) -> Iterator[Finding]:
    config = _config(case)
    if config.insecure and config.has_ca:
        yield Finding(
            "cluster/insecure-with-ca",
            _CONFIG,
            "tlsClientConfig.insecure and caData exclude each other, and the connection is refused",
            "Remove insecure: the authority in caData is there to be checked.",
        )


def _proxy(case: Case) -> Iterator[Finding]:
    config = _config(case)
    if config.has_proxy and config.proxy_scheme not in cluster_config.PROXY_SCHEMES:
        yield Finding(
            "cluster/proxy",
            _CONFIG,
            "proxyUrl must be a URL that begins with http, https or socks5",
            "Write http://host:port.",
        )


def _cluster_resources(case: Case) -> Iterator[Finding]:
    text = secrets.value(case.object, "clusterResources")
    if text and text not in {"true", "false"}:
        yield Finding(
            "cluster/cluster-resources",
            "data.clusterResources",
            "clusterResources is on for the exact text true only; everything else is off",
            strconv.BOOLEAN_HINT,
        )


def _shard(case: Case) -> Iterator[Finding]:
    text = secrets.value(case.object, "shard")
    if text and strconv.integer(text) is None:
        yield Finding(
            "cluster/shard",
            "data.shard",
            "the shard is no whole number, and Argo CD ignores it",
            "Write the number of the controller's replica, or remove the key.",
        )


def _others(case: Case, found: "Sequence[KnownCluster] | None") -> str:
    own = reading.text(case.object, "metadata", "name")
    return ", ".join(cluster.secret for cluster in found or () if cluster.secret != own)


def _name_repeated(case: Case) -> Iterator[Finding]:
    name = secrets.value(case.object, "name")
    if not name:
        return
    if others := _others(case, case.surroundings.neighbours.clusters_by_name(name)):
        yield Finding(
            "cluster/name-repeated",
            "data.name",
            f"{others} has the same name: every application that names this cluster fails",
            "Give each cluster a name of its own.",
        )


def _server_repeated(case: Case) -> Iterator[Finding]:
    server = secrets.server(case.object)
    if not server:
        return
    if others := _others(case, case.surroundings.neighbours.clusters_by_server(server)):
        yield Finding(
            "cluster/server-repeated",
            "data.server",
            f"{others} describes the same server; Argo CD takes either of them",
            "Keep one secret for each server.",
        )


_cluster_rule = partial(
    Rule,
    kinds=frozenset({Kind.CLUSTER}),
    profile=Profile.RECOMMENDED,
    action=Action.DENY,
    reads=("data[config]",),
)


def _example(more: str = "", *, name: str = "east", of: str = "east", server: str = "east") -> str:
    return examples.secret(
        kind="cluster",
        name=name,
        values=f"server: https://{server}.example.com\nname: {of}\n{more}",
    )


def _with_config(text: str) -> str:
    return _example(f"config: '{text}'")


_GOOD_CONFIG = _with_config('{"bearerToken": "TOKEN", "tlsClientConfig": {"caData": "Q0VSVA=="}}')

RULES: tuple[Rule, ...] = (
    _cluster_rule(
        id="cluster/config-unreadable",
        title="A cluster's config is JSON that Argo CD can read",
        explanation=(
            "One wrong type, or certificates that are not base64, make Argo CD drop the whole cluster; applications "
            "then say that it does not exist."
        ),
        bad=_with_config('{"tlsClientConfig": {"insecure": "true"}}'),
        good=_GOOD_CONFIG,
        check=_config_unreadable,
    ),
    _cluster_rule(
        id="cluster/config-ambiguous",
        title="A cluster's config has each key once",
        explanation="Go reads keys without regard to case and merges repeated ones, so two readers see two configs.",
        bad=_with_config('{"bearerToken": "TOKEN", "bearerToken": "OTHER"}'),
        good=_GOOD_CONFIG,
        check=_config_ambiguous,
    ),
    _cluster_rule(
        id="cluster/config-spelling",
        action=Action.WARN,
        title="A cluster's config spells keys in the documented way",
        explanation="Argo CD forgives the wrong case of a key; scripts and other tools do not.",
        bad=_with_config('{"bearertoken": "TOKEN"}'),
        good=_GOOD_CONFIG,
        check=_config_spelling,
    ),
    _cluster_rule(
        id="cluster/insecure-with-ca",
        action=Action.WARN,
        title="Insecure connections have no authority",
        explanation="Kubernetes clients refuse to be insecure and to check an authority at the same time.",
        bad=_with_config('{"tlsClientConfig": {"insecure": true, "caData": "Q0VSVA=="}}'),
        good=_GOOD_CONFIG,
        check=_insecure_with_ca,
    ),
    _cluster_rule(
        id="cluster/proxy",
        action=Action.WARN,
        title="A proxy is http, https or socks5",
        explanation="Other proxies are refused when Argo CD connects to the cluster.",
        bad=_with_config('{"proxyUrl": "proxy.example.com:3128"}'),
        good=_with_config('{"proxyUrl": "http://proxy.example.com:3128"}'),
        check=_proxy,
    ),
    _cluster_rule(
        id="cluster/cluster-resources",
        reads=("data[clusterResources]",),
        title="clusterResources is true or false",
        explanation="With a list of namespaces only the exact text true lets Argo CD manage cluster-scoped objects.",
        bad=_example("clusterResources: 'True'"),
        good=_example("clusterResources: 'true'"),
        check=_cluster_resources,
    ),
    _cluster_rule(
        id="cluster/shard",
        reads=("data[shard]",),
        title="A shard is a number",
        explanation="Argo CD ignores another text and puts the cluster on a shard of its own choice.",
        bad=_example("shard: one"),
        good=_example("shard: '1'"),
        check=_shard,
    ),
    _cluster_rule(
        id="cluster/name-repeated",
        action=Action.WARN,
        neighbours=True,
        reads=("data[name]", "metadata.name"),
        title="A cluster's name is its own",
        explanation="A destination with a name that two clusters have is an error, in all applications that use it.",
        bad=_example(name="older", server="west") + examples.BEFORE + _example(),
        good=_example(name="older", of="west", server="west") + examples.BEFORE + _example(),
        check=_name_repeated,
    ),
    _cluster_rule(
        id="cluster/server-repeated",
        action=Action.WARN,
        neighbours=True,
        reads=("data[server]", "metadata.name"),
        title="A server has one secret",
        explanation="With two secrets for one server chance decides which credentials are used.",
        bad=_example(name="older", of="west") + examples.BEFORE + _example(),
        good=_example(name="older", of="west", server="west") + examples.BEFORE + _example(),
        check=_server_repeated,
    ),
)
