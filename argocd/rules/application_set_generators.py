"""Generators that give Argo CD's ApplicationSet controller an error instead of parameters, whatever the cluster holds."""

from collections.abc import Iterator, Mapping
from typing import Any

from argocd import reading, safe_yaml
from argocd.applications import application_sets
from argocd.judging.case import Action, Case, Finding, Kind, Profile, Rule
from argocd.rules import examples

_ID = "applicationset/generator-incomplete"
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
    for path, generator in application_sets.all_generators(reading.mapping(case.object, "spec")):
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
        elements = safe_yaml.load(text)
    except safe_yaml.YamlError as error:
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


RULES: tuple[Rule, ...] = (
    Rule(
        id=_ID,
        kinds=frozenset({Kind.APPLICATION_SET}),
        profile=Profile.RECOMMENDED,
        action=Action.DENY,
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
)
