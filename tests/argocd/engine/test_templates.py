"""The template of an ApplicationSet judged as what it will become."""

from datetime import date
from typing import Any

import pytest

from argocd.engine.judge import judge
from argocd.judging.case import Action, Case, Operation, Surroundings, kind_of
from argocd.judging.configuration import Configuration
from argocd.settings.argocd_cm import Settings
from tests.argocd.fake_neighbours import Neighbourhood
from tests.processor_time import ProcessorTime

TODAY = date(2026, 9, 1)
GIT = {
    "git": {"repoURL": "https://git.example.com/a.git", "revision": "main", "directories": [{"path": "*"}]}
}
SOURCE = {"repoURL": "https://git.example.com/shop.git", "path": "deploy", "targetRevision": "v1"}


def environments(*values: str, key: str = "env", **more: Any) -> dict[str, Any]:
    return {"list": {"elements": [{key: value} for value in values], **more}}


def application_set(
    *generators: Any, metadata: Any = None, source: Any = None, **spec: Any
) -> dict[str, Any]:
    more = {key: spec.pop(key) for key in ("templatePatch", "goTemplate") if key in spec}
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "ApplicationSet",
        "metadata": {"name": "shop", "namespace": "argocd"},
        "spec": {
            "goTemplate": True,
            "goTemplateOptions": ["missingkey=error"],
            "generators": list(generators) or [environments("test", "live")],
            "template": {
                "metadata": {"name": "shop-{{.env}}", **(metadata or {})},
                "spec": {
                    "project": "shop",
                    "destination": {"server": "https://kubernetes.default.svc", "namespace": "shop"},
                    "source": SOURCE if source is None else source,
                    **spec,
                },
            },
            **more,
        },
    }


def judged(thing: Any, *, old: Any = None, neighbours: Any = None) -> list[tuple[str, str, str]]:
    case = Case(
        kind=kind_of(thing),
        object=thing,
        old=old,
        operation=Operation.UPDATE if old else Operation.CREATE,
        surroundings=Surroundings(
            settings=Settings(),
            configuration=Configuration(),
            neighbours=neighbours or Neighbourhood(projects=[_project()]),
        ),
    )
    return [(one.finding.rule, one.finding.path, one.action.value) for one in judge(case, today=TODAY)]


def _project() -> dict[str, Any]:
    anything = [{"server": "*", "namespace": "*"}]
    return {"metadata": {"name": "shop"}, "spec": {"sourceRepos": ["*"], "destinations": anything}}


def paths(thing: Any) -> list[tuple[str, str]]:
    return [(rule, path) for rule, path, _ in judged(thing)]


def test_a_good_template_has_no_finding() -> None:
    assert judged(application_set()) == []


def test_literal_values_are_judged_in_their_place() -> None:
    bad = application_set(source=SOURCE | {"helm": {}, "kustomize": {}})
    assert judged(bad) == [("application/source-types", "spec.template.spec.source", "deny")]


def test_what_a_list_supplies_is_judged_once_for_all_its_elements() -> None:
    bad = application_set(
        environments("/test", "/live", key="path"),
        metadata={"name": "shop"},
        source=SOURCE | {"path": "{{.path}}"},
    )
    assert ("application/source-path", "spec.template.spec.source.path", "deny") in judged(bad)
    assert [rule for rule, _ in paths(bad)].count("application/source-path") == 1


def test_one_bad_element_is_enough() -> None:
    assert ("application/source-path", "spec.template.spec.source.path") in paths(
        application_set(environments("a", "../b"), source=SOURCE | {"path": "{{.env}}"})
    )


@pytest.mark.parametrize("kind", ["matrix", "merge"])
def test_lists_inside_a_matrix_or_merge_supply_parameters_too(kind: str) -> None:
    inner = [environments("live"), {"list": {"elements": [{"env": "live", "path": "/abs"}]}}]
    more = {"mergeKeys": ["env"]} if kind == "merge" else {}
    bad = application_set({kind: {"generators": inner, **more}}, source=SOURCE | {"path": "{{.path}}"})
    assert paths(bad) == [("application/source-path", "spec.template.spec.source.path")]


@pytest.mark.parametrize(
    "source",
    [
        SOURCE | {"path": "{{.path.path}}"},
        SOURCE | {"repoURL": "{{.url}}"},
        SOURCE | {"targetRevision": "{{.revision}}", "chart": "shop", "path": ""},
        {"repoURL": "https://charts.example.com", "chart": "{{.chart}}", "targetRevision": "HEAD"},
        SOURCE | {"path": "/{{if .a}}b{{end}}"},
    ],
)
def test_what_only_a_repository_knows_is_not_guessed_at(source: Any) -> None:
    unknown = application_set(GIT, metadata={"name": "shop-{{.path.basename}}"}, source=source)
    assert judged(unknown) == []


def test_what_is_wrong_whatever_the_unknown_is_is_told() -> None:
    source = SOURCE | {"path": "{{.path.path}}", "helm": {}, "directory": {}}
    bad = application_set(GIT, metadata={"name": "shop-{{.path.basename}}"}, source=source)
    assert paths(bad) == [("application/source-types", "spec.template.spec.source")]


def test_a_patch_may_change_everything() -> None:
    bad = application_set(source=SOURCE | {"path": "/abs"}, templatePatch="spec: {source: {path: a}}")
    assert judged(bad) == []


def test_a_generators_own_template_is_judged_in_its_own_place() -> None:
    own = environments("test", template={"metadata": {}, "spec": {"source": {"path": "/abs"}}})
    assert paths(application_set(own)) == [
        ("application/source-path", "spec.generators[0].list.template.spec.source.path")
    ]


def test_an_update_is_told_only_what_is_new() -> None:
    bad = application_set(source=SOURCE | {"path": "/abs"})
    worse = application_set(source=SOURCE | {"path": "/abs", "helm": {}, "directory": {}})
    assert judged(bad, old=bad) == []
    assert judged(worse, old=bad) == [("application/source-types", "spec.template.spec.source", "deny")]
    assert judged(bad, old=worse) == []


def test_neighbours_are_asked_about_generated_applications() -> None:
    narrow = {"metadata": {"name": "shop"}, "spec": {"sourceRepos": ["https://other.example.com/*"]}}
    found = judged(application_set(), neighbours=Neighbourhood(projects=[narrow]))
    assert ("application/repository-forbidden", "spec.template.spec.source.repoURL", "warn") in found


def test_an_empty_project_is_the_set_s_own_matter() -> None:
    assert [rule for rule, _ in paths(application_set(project=""))] == ["applicationset/project-empty"]


def test_a_rule_that_is_off_is_off_for_templates_too() -> None:
    bad = application_set(source=SOURCE | {"path": "/abs"})
    case = Case(
        kind=kind_of(bad),
        object=bad,
        surroundings=Surroundings(
            settings=Settings(),
            configuration=Configuration(rules={"application/source-path": Action.OFF}),
            neighbours=Neighbourhood(projects=[_project()]),
        ),
    )
    assert judge(case, today=TODAY) == []


MANY = 20_000
HOSTILE = {
    "many elements": application_set(environments(*(f"A{index}" for index in range(MANY)))),
    "many keys": application_set(
        {"list": {"elements": [{f"key{index}": "a" for index in range(MANY)}]}},
        source=SOURCE | {"helm": {"parameters": [{"value": f"{{{{.ke{index}}}}}"} for index in range(MANY)]}},
    ),
    "many mistakes": application_set(
        source=SOURCE | {"helm": {"parameters": [{"value": f"{{{{lowr{index}}}}}"} for index in range(MANY)]}}
    ),
    "a long template": application_set(
        environments(*map(str, range(100))), source=SOURCE | {"helm": {"values": "{{.env}}" * 125_000}}
    ),
    "a large template": application_set(
        environments(*map(str, range(100))),
        source=SOURCE | {"helm": {"valuesObject": {"list": [{"a": index} for index in range(50_000)]}}},
    ),
    "a matrix of long lists": application_set(
        {
            "matrix": {
                "generators": [environments(*map(str, range(MANY))), environments(*map(str, range(MANY)))]
            }
        }
    ),
    "a merge of long lists": application_set(
        {
            "merge": {
                "mergeKeys": ["env"],
                "generators": [environments(*map(str, range(MANY))), environments(*map(str, range(MANY)))],
            }
        }
    ),
}


@pytest.mark.parametrize("thing", HOSTILE.values(), ids=HOSTILE)
def test_a_set_that_somebody_made_to_hurt_is_judged_in_time(thing: Any) -> None:
    with ProcessorTime() as taken:
        judged(thing)
        judged(thing, old=application_set())
    assert taken.seconds < 6, "what is quadratic would take minutes"
