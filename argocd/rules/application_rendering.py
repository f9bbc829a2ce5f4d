"""What Helm and Kustomize are given by an Application and cannot use."""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import yaml

from argocd import charged_yaml, reading
from argocd.applications import sources
from argocd.budget import BudgetExceededError, StepBudget
from argocd.judging.case import Action, Case, Finding, Kind, Profile, Rule
from argocd.judging.configuration import Version
from argocd.rules import examples
from argocd.shortening import shortened

_SOURCES = ("spec.source", "spec.sources")
_HELM_VERSIONS = frozenset({"", "v3"})
_HELM_4_SINCE: Version = (3, 5)
_NULL = "tag:yaml.org,2002:null"
_SHOWN = 100
_SHARE = 30_000
"""Steps: values of charts are long and ordinary, and those after five thousand of them are not looked at."""


def _helm_version(case: Case) -> Iterator[Finding]:
    known = _HELM_VERSIONS
    if case.surroundings.configuration.argocd.version >= _HELM_4_SINCE:
        known |= {"v4"}
    for path, source in case.once(sources.changed_sources):
        version = reading.text(source, "helm", "version")
        if version not in known:
            yield Finding(
                "application/helm-version",
                f"{path}.helm.version",
                f"helm chart version '{shortened(version, _SHOWN)}' is not supported",
                "Leave it out: Argo CD has one version of Helm.",
            )


def _helm_values(case: Case) -> Iterator[Finding]:
    found = []
    with suppress(BudgetExceededError), StepBudget(_SHARE):
        for path, source in case.once(sources.changed_sources):
            text = reading.text(source, "helm", "values")
            if (
                text
                and not reading.mapping(source, "helm", "valuesObject")
                and (reason := _values_problem(text))
            ):
                found.append((path, reason))
    for path, reason in found:
        yield Finding(
            "application/helm-values",
            f"{path}.helm.values",
            f"Helm cannot read the values: {reason}",
            "Write a mapping, or use valuesObject, whose syntax an API server sees.",
        )


def _values_problem(text: str) -> str:
    """Of the first document, which is the one that Helm reads."""
    try:
        node = charged_yaml.first_document(text)
    except charged_yaml.HostileYamlError:
        return ""
    except charged_yaml.YamlError as error:
        return str(error)
    if node is None or isinstance(node, yaml.MappingNode) or node.tag == _NULL:
        return ""
    return "they are no mapping"


def _kustomize_image(case: Case) -> Iterator[Finding]:
    for path, source in case.once(sources.changed_sources):
        for index, image in enumerate(reading.sequence(source, "kustomize", "images")):
            if isinstance(image, str) and "$" not in image and not _replaces(image):
                yield Finding(
                    "application/kustomize-image",
                    f"{path}.kustomize.images[{index}]",
                    f"{shortened(image, _SHOWN)!r} does not say what the image is replaced with",
                    "Write name:tag, name@digest, name=other, name=other:tag or name=other@digest.",
                )


def _replaces(image: str) -> bool:
    _, separator, other = image.partition("=")
    if separator:
        return bool(other)
    return "@" in image or ":" in image.rpartition("/")[2]


_warned = partial(
    Rule,
    kinds=frozenset({Kind.APPLICATION}),
    profile=Profile.RECOMMENDED,
    action=Action.WARN,
    refused_by_argocd=True,
    reads=_SOURCES,
)


def _source(more: str) -> str:
    return examples.application(
        source=f"source: {{repoURL: https://git.example.com/shop.git, path: deploy, targetRevision: v1, {more}}}"
    )


RULES: tuple[Rule, ...] = (
    _warned(
        id="application/helm-version",
        title="A version of Helm is one that Argo CD has",
        explanation="Argo CD takes v3, and from 3.5 on v4. With another value no manifest is generated.",
        bad=_source("helm: {version: v2}"),
        good=_source("helm: {version: v3}"),
        check=_helm_version,
    ),
    _warned(
        id="application/helm-values",
        title="Values of a chart are a mapping",
        explanation=(
            "The text is given to Helm as a file of values. Where it is no YAML, or a list, Helm ends with an error and "
            "no manifest is generated. Where valuesObject is set too, Argo CD does not look at the text. Of very long values "
            "only the first thousands are read here."
        ),
        bad=_source("helm: {values: 'replicas: [1'}"),
        good=_source("helm: {values: 'replicas: 1'}"),
        check=_helm_values,
    ),
    _warned(
        id="application/kustomize-image",
        title="An image of Kustomize says what it becomes",
        explanation=(
            "Argo CD gives each entry to `kustomize edit set image`, which refuses a name alone. A name with nothing "
            "behind = is refused by older releases of Kustomize and changes nothing in newer ones."
        ),
        bad=_source("kustomize: {images: [shop]}"),
        good=_source("kustomize: {images: ['shop=registry.example.com/shop:1.2']}"),
        check=_kustomize_image,
    ),
)
