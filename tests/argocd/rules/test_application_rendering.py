"""What Helm and Kustomize are given and cannot use."""

from typing import Any

import pytest

from argocd.judging.configuration import ArgoCD, Configuration, Version
from tests.argocd.rules.asking import application, ask

GIT = {"repoURL": "https://git.example.com/shop.git", "path": "deploy"}


def paths(rule: str, configuration: Configuration | None = None, **source: Any) -> list[str]:
    given = application(source=GIT | source)
    found = ask(rule, given, configuration=configuration or Configuration())
    return [finding.path for finding in found]


@pytest.mark.parametrize(
    ("version", "release", "found"),
    [
        ("", (3, 2), 0),
        ("v3", (3, 2), 0),
        ("v4", (3, 2), 1),
        ("v4", (3, 5), 0),
        ("v2", (3, 5), 1),
        ("3", (3, 5), 1),
    ],
)
def test_a_version_of_helm_is_one_that_argo_cd_has(version: str, release: Version, found: int) -> None:
    configuration = Configuration(argocd=ArgoCD(version=release))
    told = paths("application/helm-version", configuration, helm={"version": version})
    assert told == (["spec.source.helm.version"] if found else [])


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ("a: [1", 1),
        ("- a\n- b\n", 1),
        ("just text", 1),
        ("a: 1\na: 2", 0),
        ("a: !custom b", 0),
        ("# nothing\n", 0),
        ("null", 0),
        ("a: 1\n---\n- b\n", 0),  # Helm reads the first document
        ("", 0),
    ],
)
def test_values_are_a_mapping(values: str, found: int) -> None:
    told = paths("application/helm-values", helm={"values": values})
    assert told == (["spec.source.helm.values"] if found else [])
    assert not paths("application/helm-values", helm={"values": values, "valuesObject": {"a": 1}})


@pytest.mark.parametrize(
    ("image", "found"),
    [
        ("shop", 1),
        ("registry.example.com:5000/shop", 1),
        ("shop=", 1),
        ("", 1),
        ("shop:1.2", 0),
        ("shop@sha256:24a0c4b4", 0),
        ("shop=other", 0),
        ("shop=registry.example.com/shop:1.2", 0),
        ("shop=*:1.2", 0),
        ("$IMAGE", 0),
    ],
)
def test_an_image_says_what_it_becomes(image: str, found: int) -> None:
    told = paths("application/kustomize-image", kustomize={"images": ["good:1", image]})
    assert told == (["spec.source.kustomize.images[1]"] if found else [])
