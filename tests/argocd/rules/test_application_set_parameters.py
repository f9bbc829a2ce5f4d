"""Parameters that a template uses and that the generators do not give so."""

from typing import Any

import pytest

from tests.argocd.rules.asking import application_set, ask

LIST = {"list": {"elements": [{"env": "a"}, {"env": "b"}]}}
GIT = {"git": {"files": [{"path": "*"}]}}
MATRIX_WITH_UNKNOWN = {
    "matrix": {
        "generators": [{"list": {"elements": [{"a": "b"}]}}, {"list": {"elements": [{"env": "{{.a}}"}]}}]
    }
}
PREFIXED = {"git": {"directories": [{"path": "*"}], "pathParamPrefix": "app"}}
TEMPLATED = {"git": {"directories": [{"path": "*"}], "template": {"metadata": {"name": "a"}}}}


def template(name: str = "shop-{{.env}}", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


def found(rule: str, given: Any = None, **spec: Any) -> list[str]:
    thing = application_set(given or template(), **{"generators": [LIST], "goTemplate": True, **spec})
    return [finding.path for finding in ask(f"applicationset/{rule}", thing)]


@pytest.mark.parametrize(
    ("given", "more", "expected"),
    [
        (template(), {}, 0),
        (template("{{.evn}}"), {}, 1),
        (template("{{evn}}"), {"goTemplate": False}, 1),
        (template("{{.evn}}"), {"generators": [LIST, GIT]}, 0),
        (
            template("{{.evn}}"),
            {"generators": [{"list": {"elements": [{"env": "a"}], "elementsYaml": "x"}}]},
            0,
        ),
        (template("{{.other}}"), {"generators": [LIST, {"list": {"elements": [{"other": "a"}]}}]}, 0),
        (template("a", source={"helm": {"values": "{{evn}}"}}), {"goTemplate": False}, 0),
        (template("{{.evn | lower}}"), {}, 0),
        (template("{{.env.name}}"), {}, 1),
        (template("{{.env.name}}"), {"goTemplate": False}, 0),
        (template("{{.env.name}}"), {"generators": [{"list": {"elements": [{"env": {"name": "a"}}]}}]}, 0),
        (
            template("{{.env.name.first}}"),
            {"generators": [{"list": {"elements": [{"env": {"name": 1}}]}}]},
            1,
        ),
        (template("{{.env.name}}"), {"generators": [MATRIX_WITH_UNKNOWN]}, 0),
    ],
)
def test_a_parameter_that_no_element_has_is_told(given: Any, more: Any, expected: int) -> None:
    assert len(found("parameter-unknown", given, **more)) == expected


def test_the_parameter_that_was_meant_is_named() -> None:
    thing = application_set(template("{{.evn}}"), generators=[LIST], goTemplate=True)
    assert [finding.hint for finding in ask("applicationset/parameter-unknown", thing)] == [
        "Did you mean env?"
    ]


@pytest.mark.parametrize(
    ("name", "more", "expected"),
    [
        ("{{.path}}", {}, 1),
        ("shop-{{ .path }}", {"generators": [{"matrix": {"generators": [GIT, {"clusters": {}}]}}]}, 1),
        ("{{.path}}", {"generators": [GIT, LIST]}, 1),
        ("{{.path.basename}}", {}, 0),
        ("{{.path | toString}}", {}, 0),
        ("{{path}}", {"goTemplate": False}, 0),
        ("{{.path}}", {"templatePatch": "metadata: {name: a}"}, 0),
        ("{{.path}}", {"generators": [LIST]}, 0),
        ("{{.path}}", {"generators": [GIT, {"plugin": {}}]}, 0),
        ("{{.path}}", {"generators": [GIT, {"list": {"elements": [{"path": "a"}]}}]}, 0),
        ("{{.path}}", {"generators": [GIT, {"list": {"elementsYaml": "a"}}]}, 0),
        ("{{.path}}", {"generators": [PREFIXED]}, 0),
        ("{{.path}}", {"generators": [TEMPLATED]}, 0),
    ],
)
def test_the_path_of_a_git_generator_is_a_mapping_for_go(name: str, more: Any, expected: int) -> None:
    assert len(found("path-mapping", template(name), **{"generators": [GIT], **more})) == expected
