"""ConfigMaps and Secrets that generators name and that are not there.

One apply may bring both, so these rules only warn.
"""

from collections.abc import Iterator
from functools import partial

from argocd import reading
from argocd.applications.application_sets import changed_generators
from argocd.applications.generator_references import CONFIG_MAP, SECRET, Reference, references
from argocd.judging.case import Action, Case, Finding, Kind, Profile, Rule
from argocd.rules import examples


def _missing(case: Case, kind: str) -> Iterator[tuple[Reference, str]]:
    """With the namespace in which Argo CD looks; only its own is known."""
    argocd_namespace = case.surroundings.configuration.argocd.namespace
    neighbours = case.surroundings.neighbours
    exists = neighbours.secret if kind == SECRET else neighbours.config_map
    elsewhere = reading.text(case.object, "metadata", "namespace") != argocd_namespace
    for reference in references(case.once(changed_generators)):
        if reference.kind != kind or (reference.beside and elsewhere):
            continue
        if exists(reference.name) is False:
            yield reference, argocd_namespace


def _config_map(case: Case) -> Iterator[Finding]:
    for reference, namespace in _missing(case, CONFIG_MAP):
        yield Finding(
            "applicationset/config-map-unknown",
            reference.path,
            f"ConfigMap {namespace}/{reference.name} does not exist: the generator fails",
            "Create it in the same apply or before, or correct the name.",
        )


def _secret(case: Case) -> Iterator[Finding]:
    for reference, namespace in _missing(case, SECRET):
        yield Finding(
            "applicationset/secret-unknown",
            reference.path,
            f"Secret {namespace}/{reference.name} does not exist: the generator fails",
            "Create it before, or correct the name.",
        )


_neighbour = partial(
    Rule,
    kinds=frozenset({Kind.APPLICATION_SET}),
    action=Action.WARN,
    refused_by_argocd=True,
    profile=Profile.RECOMMENDED,
    neighbours=True,
    reads=("spec.generators",),
)

_PLUGIN = examples.application_set(
    generators="- plugin: {configMapRef: {name: NAME}}", name="'shop-{{.env}}'"
)
_FORGE = examples.application_set(
    generators="- scmProvider: {gitlab: {group: shop, tokenRef: {secretName: NAME, key: token}}}",
    name="'shop-{{.repository}}'",
)
_PROJECT = examples.project(spec="sourceRepos: ['*']\ndestinations: [{server: '*', namespace: '*'}]")
_CONFIG_MAP = (
    _PROJECT
    + examples.BEFORE
    + examples.config_map(name="shop-plugin", data="token: $plugin:token\nbaseUrl: http://plugin")
)
_SECRET = (
    _PROJECT + examples.BEFORE + examples.secret(kind="scm-creds", name="forge-token", values="token: t0ken")
)

RULES: tuple[Rule, ...] = (
    _neighbour(
        id="applicationset/config-map-unknown",
        title="A generator's ConfigMap exists",
        explanation=(
            "The plugin and clusterDecisionResource generators read a ConfigMap of Argo CD's namespace, a forge's caRef one "
            "of the ApplicationSet's. Without it the generator fails: no application is made or changed until it is there. "
            "Of ConfigMaps only the names in Argo CD's namespace are known."
        ),
        bad=_CONFIG_MAP + examples.BEFORE + _PLUGIN.replace("NAME", "shop-plugins"),
        good=_CONFIG_MAP + examples.BEFORE + _PLUGIN.replace("NAME", "shop-plugin"),
        check=_config_map,
    ),
    _neighbour(
        id="applicationset/secret-unknown",
        title="A generator's Secret exists",
        explanation=(
            "The SCM provider and pull request generators read tokens from Secrets of the ApplicationSet's namespace, and a "
            "GitHub App's from Argo CD's. Without one the generator fails. Of Secrets only the names in Argo CD's namespace "
            "are known, and on a cluster alone: tokens are not kept in files."
        ),
        bad=_SECRET + examples.BEFORE + _FORGE.replace("NAME", "forge-tokens"),
        good=_SECRET + examples.BEFORE + _FORGE.replace("NAME", "forge-token"),
        check=_secret,
    ),
)
