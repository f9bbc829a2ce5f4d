"""Which kind of rules an object is judged by."""

from typing import Any

import pytest

from argocd.judging.case import Kind, kind_of


def secret(kind: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"labels": {"argocd.argoproj.io/secret-type": kind}},
    }


@pytest.mark.parametrize(
    ("thing", "expected"),
    [
        ({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject"}, Kind.PROJECT),
        ({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application"}, Kind.APPLICATION),
        ({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet"}, Kind.APPLICATION_SET),
        ({"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout"}, Kind.ANY),
        ({"apiVersion": "app.k8s.io/v1", "kind": "Application"}, Kind.ANY),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-cm"}}, Kind.ARGOCD_CM),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}}, Kind.ANY),
        (secret("cluster"), Kind.CLUSTER),
        (secret("repo-creds"), Kind.REPOSITORY),
        (secret("misspelt"), Kind.REPOSITORY),
        (secret(None), Kind.REPOSITORY),
        ({"apiVersion": "v1", "kind": "Secret"}, Kind.ANY),
        ({}, Kind.ANY),
    ],
)
def test_an_object_is_told_by_group_kind_name_and_label(thing: dict[str, Any], expected: Kind) -> None:
    assert kind_of(thing) is expected
