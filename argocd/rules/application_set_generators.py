"""Generators that give Argo CD's ApplicationSet controller an error instead of parameters, whatever the cluster holds."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from argocd import charged_re2, charged_yaml, kubernetes_names, reading
from argocd.applications import application_sets, parameters, templates
from argocd.judging.case import Action, Case, Finding, Kind, Profile, Rule
from argocd.rules import examples
from argocd.shortening import shortened

_FILTERS = {
    "scmProvider": ("repositoryMatch", "labelMatch", "branchMatch"),
    "pullRequest": ("branchMatch", "targetBranchMatch", "titleMatch"),
}
"""Fields of filters that are expressions."""
_ID = "applicationset/generator-incomplete"
_SHOWN = 60
_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})
_WITH_VALUES = frozenset({"In", "NotIn"})
_PROVIDERS = {
    "scmProvider": (
        ("github", "gitlab", "gitea", "bitbucket", "bitbucketServer", "azureDevOps", "awsCodeCommit"),
        "no SCM provider implementation configured",
    ),
    "pullRequest": (
        ("github", "gitlab", "gitea", "bitbucket", "bitbucketServer", "azuredevops"),
        "no Pull Request provider implementation configured",
    ),
}
"""One of which the generator needs, and what Argo CD says without."""


def _incomplete(case: Case) -> Iterator[Finding]:
    for path, generator in case.once(application_sets.changed_generators):
        yield from _without_provider(path, generator)
        if "git" in generator and not reading.text(generator, "git", "repoURL"):
            yield Finding(_ID, f"{path}.git.repoURL", "a git generator needs a repository", "Name it.")
        yield from _elements(path, generator)


def _without_provider(path: str, generator: Mapping[str, Any]) -> Iterator[Finding]:
    for kind, (providers, message) in _PROVIDERS.items():
        block = generator.get(kind)
        if isinstance(block, Mapping) and all(block.get(provider) is None for provider in providers):
            yield Finding(_ID, f"{path}.{kind}", message, f"Add one of {', '.join(providers)}.")


def _elements(path: str, generator: Mapping[str, Any]) -> Iterator[Finding]:
    """A text with a template becomes something else before it is read."""
    text = reading.text(generator, "list", "elementsYaml")
    if not text or application_sets.is_templated(text):
        return
    try:
        elements = charged_yaml.load(text)
    except charged_yaml.YamlError as error:
        problem = f"is no YAML: {error}"
    else:
        if elements is None or (
            isinstance(elements, list) and all(isinstance(each, Mapping) for each in elements)
        ):
            return
        problem = "is no list of mappings"
    yield Finding(
        _ID,
        f"{path}.list.elementsYaml",
        f"the text {problem}",
        "Write a list with one mapping for each application.",
    )


def _filters(case: Case) -> Iterator[Finding]:
    for path, generator in case.once(application_sets.changed_generators):
        for kind, keys in _FILTERS.items():
            for index, entry in enumerate(reading.sequence(generator, kind, "filters")):
                for key in keys:
                    text = reading.text(entry, key)
                    if not application_sets.is_templated(text) and (reason := charged_re2.problem(text)):
                        yield Finding(
                            "applicationset/filter",
                            f"{path}.{kind}.filters[{index}].{key}",
                            f"error compiling regexp {shortened(text, _SHOWN)!r}: {reason}",
                            "Correct the expression; its syntax is RE2's.",
                        )


def _selectors(case: Case) -> Iterator[tuple[str, Any]]:
    for path, generator in case.once(application_sets.changed_generators):
        yield f"{path}.selector", generator.get("selector")
        yield f"{path}.clusters.selector", reading.value(generator, "clusters", "selector")
        yield (
            f"{path}.clusterDecisionResource.labelSelector",
            reading.value(generator, "clusterDecisionResource", "labelSelector"),
        )


def _selector(case: Case) -> Iterator[Finding]:
    for path, selector in _selectors(case):
        for key in reading.mapping(selector, "matchLabels"):
            if reason := _key_problem(key):
                yield _fails(templates.below(f"{path}.matchLabels", key), reason)
        for index, expression in enumerate(reading.sequence(selector, "matchExpressions")):
            at = f"{path}.matchExpressions[{index}]"
            if reason := _key_problem(reading.value(expression, "key")):
                yield _fails(f"{at}.key", reason)
            yield from _operator(at, expression)


def _key_problem(key: Any) -> str:
    if not isinstance(key, str) or application_sets.is_templated(key) or kubernetes_names.is_label_key(key):
        return ""
    return f"{shortened(key, _SHOWN)!r} is no key of a label"


def _operator(at: str, expression: Any) -> Iterator[Finding]:
    operator = reading.text(expression, "operator")
    filled = bool(reading.sequence(expression, "values"))
    if operator not in _OPERATORS:
        if not application_sets.is_templated(operator):
            yield _fails(f"{at}.operator", f'"{operator}" is not a valid label selector operator')
    elif filled is not (operator in _WITH_VALUES):
        needed = "non-empty" if operator in _WITH_VALUES else "empty"
        yield _fails(f"{at}.values", f"for {operator} the values set must be {needed}")


def _fails(path: str, message: str) -> Finding:
    return Finding(
        "applicationset/selector",
        path,
        f"{message}: the generator fails",
        "Use keys such as env or example.com/env; In or NotIn with values, Exists or DoesNotExist without.",
    )


def _none(case: Case) -> Iterator[Finding]:
    if reading.value(case.object, "spec", "generators") == []:
        yield Finding(
            "applicationset/generators-empty",
            "spec.generators",
            "without a generator no application is made, and those made before are deleted unless the policy keeps them",
            "Add a generator; to delete the applications, delete the ApplicationSet.",
        )


def _several(case: Case) -> Iterator[Finding]:
    for path, generator in case.once(application_sets.changed_at_top):
        kinds = application_sets.kinds_of(generator)
        if len(kinds) > 1:
            yield Finding(
                "applicationset/generators-in-one-entry",
                path,
                f"{' and '.join(kinds)} in one entry are not combined: the template is rendered for each alone",
                "Begin each generator with a dash of its own, or combine them in a matrix.",
            )


def _merge_keys(case: Case) -> Iterator[Finding]:
    for path, key in parameters.repeated_merge_keys(case):
        yield Finding(
            "applicationset/merge-keys",
            path,
            f"the parameters from a generator were not unique by the given mergeKeys: {shortened(key, _SHOWN)} is there twice",
            "Make the elements differ in the mergeKeys, or add the key in which they do.",
        )


_refused = partial(
    Rule,
    kinds=frozenset({Kind.APPLICATION_SET}),
    profile=Profile.RECOMMENDED,
    action=Action.DENY,
    refused_by_argocd=True,
    good=examples.application_set(),
)

_MERGE = "- merge: {{mergeKeys: [env], generators: [{{list: {{elements: [{first}]}}}}, {{list: {{elements: [{second}]}}}}]}}"


def _scm(condition: str) -> str:
    return examples.application_set(
        generators=f"- scmProvider: {{github: {{organization: shop}}, filters: [{{{condition}}}]}}",
        name="'shop-{{.repository}}'",
    )


RULES: tuple[Rule, ...] = (
    _refused(
        id=_ID,
        reads=("spec.generators",),
        title="A generator has what it needs",
        explanation=(
            "A git generator without a repository, a forge without its provider and elementsYaml that is no list of "
            "mappings give the controller an error: no application is made or changed until that is mended."
        ),
        bad=examples.application_set(
            generators="- pullRequest: {requeueAfterSeconds: 60}", name="'shop-{{.number}}'"
        ),
        good=examples.application_set(generators='- list: {elementsYaml: "[{env: test}, {env: live}]"}'),
        check=_incomplete,
    ),
    _refused(
        id="applicationset/filter",
        reads=("spec.generators",),
        title="A filter's expression compiles",
        explanation="With one that does not, the generator fails and no application is created, updated or deleted.",
        bad=_scm("repositoryMatch: '(shop'"),
        good=_scm("repositoryMatch: '^shop'"),
        check=_filters,
    ),
    _refused(
        id="applicationset/selector",
        reads=("spec.generators",),
        title="A selector's keys and operators are those of Kubernetes",
        explanation=(
            "A key is one that a label can have. In and NotIn need values, Exists and DoesNotExist have none; the "
            "controller refuses all else."
        ),
        bad=examples.application_set(
            generators="- clusters: {selector: {matchExpressions: [{key: env, operator: Equals, values: [test]}]}}",
            name="'shop-{{.name}}'",
        ),
        good=examples.application_set(
            generators="- clusters: {selector: {matchExpressions: [{key: env, operator: In, values: [test]}]}}",
            name="'shop-{{.name}}'",
        ),
        check=_selector,
    ),
    _refused(
        id="applicationset/generators-empty",
        action=Action.WARN,
        reads=("spec.generators",),
        title="There is a generator",
        explanation=(
            "Argo CD's API server refuses an ApplicationSet without generators. The controller takes it, and deletes, "
            "where its policy lets it, what it made before. It may be meant as a base that others fill, so it is a warning."
        ),
        bad=examples.application_set(generators="").replace("generators:", "generators: []"),
        check=_none,
    ),
    _refused(
        id="applicationset/generators-in-one-entry",
        action=Action.WARN,
        reads=("spec.generators",),
        title="An entry holds one generator",
        explanation=(
            "Two generators in one entry count as two entries, each of which must give every parameter. Mostly a dash "
            "is missing, or a matrix was meant."
        ),
        bad=examples.application_set(generators="- list: {elements: [{env: test}]}\n  clusters: {}"),
        good=examples.application_set(
            generators="- matrix: {generators: [{list: {elements: [{env: test}]}}, {clusters: {}}]}"
        ),
        check=_several,
    ),
    _refused(
        id="applicationset/merge-keys",
        reads=("spec.generators", "spec.goTemplate"),
        title="A merge's keys tell a list's elements apart",
        explanation=(
            "A merge looks for its elements by their mergeKeys; two that have the same give the controller an error, and "
            "no application is made or changed."
        ),
        bad=examples.application_set(
            generators=_MERGE.format(first="{env: test}, {env: test, zone: a}", second="{env: test}")
        ),
        good=examples.application_set(
            generators=_MERGE.format(first="{env: test}, {env: live}", second="{env: test, zone: a}")
        ),
        check=_merge_keys,
    ),
)
