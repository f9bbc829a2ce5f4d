"""One rule asked about one object."""

from collections.abc import Mapping
from typing import Any

from argocd.judging.case import Case, Finding, Operation, Surroundings, User, kind_of
from argocd.judging.configuration import Configuration
from argocd.judging.neighbours import Neighbours
from argocd.rules.catalogue import CATALOGUE
from argocd.settings.argocd_cm import Settings
from tests.argocd.fake_neighbours import Nothing

RULES = {rule.id: rule for rule in CATALOGUE}
CONTROLLER = User(user="system:serviceaccount:argocd:argocd-application-controller")


def ask(
    rule: str,
    thing: Mapping[str, Any],
    *,
    old: Mapping[str, Any] | None = None,
    neighbours: Neighbours | None = None,
    settings: Settings | None = None,
    configuration: Configuration | None = None,
    writer: User | None = None,
) -> list[Finding]:
    case = Case(
        kind=kind_of(thing),
        object=thing,
        old=old,
        operation=Operation.UPDATE if old else Operation.CREATE,
        writer=writer or User(user="ada"),
        surroundings=Surroundings(
            settings=settings or Settings(),
            configuration=configuration or Configuration(),
            neighbours=neighbours or Nothing(),
        ),
    )
    found = list(RULES[rule].check(case))
    assert all(finding.rule == rule for finding in found)
    return found


def application(metadata: Any = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "shop", "namespace": "argocd", **(metadata or {})},
        "spec": spec,
    }


def application_set(template: Any = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "ApplicationSet",
        "metadata": {"name": "shop", "namespace": "argocd"},
        "spec": {"template": template or {}, **spec},
    }


def secret(kind: str, *, named: str = "shop", **values: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": named,
            "namespace": "argocd",
            "labels": {"argocd.argoproj.io/secret-type": kind},
        },
        "stringData": values,
    }


def argocd_cm(**data: Any) -> dict[str, Any]:
    return config_map("argocd-cm", **data)


def config_map(name: str, **data: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "argocd"},
        "data": data,
    }


def project(metadata: Any = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": "shop", "namespace": "argocd", **(metadata or {})},
        "spec": spec,
    }


def paths(rule: str, **spec: Any) -> list[str]:
    """Where, under `spec`, a rule about projects finds something."""
    return [finding.path.removeprefix("spec.") for finding in ask(rule, project(**spec))]
