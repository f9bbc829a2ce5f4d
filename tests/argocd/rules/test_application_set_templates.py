from typing import Any

import pytest

from tests.argocd.rules.asking import application_set, ask

LIST = {"list": {"elements": [{"env": "a"}, {"env": "b"}]}}
GIT = {"git": {"files": [{"path": "*"}]}}


def template(name: str = "shop-{{.env}}", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


def found(rule: str, given: Any = None, **spec: Any) -> list[tuple[str, str]]:
    thing = application_set(given or template(), **{"generators": [LIST], "goTemplate": True, **spec})
    return [(finding.path, finding.message) for finding in ask(f"applicationset/{rule}", thing)]


@pytest.mark.parametrize(
    ("given", "more", "expected"),
    [
        (template(), {}, []),
        (template("shop-{{env}}"), {}, [("spec.template.metadata.name", 'function "env" not defined')]),
        (template("shop-{{.env"), {}, [("spec.template.metadata.name", "unclosed action")]),
        (template("{{$x}}"), {}, [("spec.template.metadata.name", 'undefined variable "$x"')]),
        (
            template(source={"helm": {"values": "a: {{ .Values.x | nosuch }}"}}),
            {},
            [("spec.template.spec.source.helm.values", 'function "nosuch" not defined')],
        ),
        (
            {"metadata": {"name": "x", "labels": {"{{a}}": "b"}}},
            {},
            [("spec.template.metadata.labels.{{a}}", 'function "a" not defined')],
        ),
        (template(), {"templatePatch": "{{if}}"}, [("spec.templatePatch", "missing value for if")]),
        (
            template(),
            {"generators": [{"clusters": {"values": {"a": "{{x}}"}}}]},
            [("spec.generators[0].clusters.values.a", 'function "x" not defined')],
        ),
        (
            template(),
            {"generators": [{"matrix": {"generators": [LIST, {"git": {"revision": "{{x}}"}}]}}]},
            [("spec.generators[0].matrix.generators[1].git.revision", 'function "x" not defined')],
        ),
        (
            template("shop-{{env}}-{{b"),
            {"goTemplate": False},
            [("spec.template.metadata.name", "Cannot find end")],
        ),
        (template("shop-{{env}}"), {"goTemplate": False}, []),
        (template(source={"helm": {"values": '{{ include "a" . }}'}}), {"goTemplate": False}, []),
    ],
)
def test_a_template_that_does_not_parse_is_told_at_its_place(given: Any, more: Any, expected: Any) -> None:
    answer = found("template-syntax", given, **more)
    assert [path for path, _ in answer] == [path for path, _ in expected]
    assert all(part in message for (_, message), (_, part) in zip(answer, expected, strict=True))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("{{env}}", "begins with a dot: {{.env}}"),
        ("{{lowr .env}}", "Did you mean lower?"),
        ("{{.env", "{{`…`}}"),
    ],
)
def test_the_hint_says_what_was_meant(name: str, hint: str) -> None:
    thing = application_set(template(name), generators=[LIST], goTemplate=True)
    (finding,) = ask("applicationset/template-syntax", thing)
    assert hint in finding.hint


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (template("shop-{{env}}"), []),
        (template("shop-{{.env}}"), ["spec.template.metadata.name"]),
        (template("{{ env | lower }}"), ["spec.template.metadata.name"]),
        (template("a", destination={"namespace": "{{.env}}"}), ["spec.template.spec.destination.namespace"]),
        (template("a", sources=[{"path": "{{.env}}"}]), ["spec.template.spec.sources[0].path"]),
        (template("a", source={"helm": {"values": "a: {{ .Values.b }}"}}), []),
    ],
)
def test_a_go_template_needs_the_switch_where_braces_mean_nothing_else(
    given: Any, expected: list[str]
) -> None:
    assert [path for path, _ in found("go-template-off", given, goTemplate=False)] == expected
    assert found("go-template-off", given) == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["missingkey=error"], 0),
        (["missingkey=zero", "missingkey=default", "missingkey=invalid"], 0),
        (["missingkey=fail"], 1),
        (["missingkey"], 1),
        ([""], 1),
        (["a=b", 3], 2),
    ],
)
def test_an_option_that_go_does_not_know_is_told(options: list[Any], expected: int) -> None:
    assert len(found("template-option", goTemplateOptions=options)) == expected
    assert not found("template-option", goTemplateOptions=options, goTemplate=False)


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ("spec: {project: a}", ""),
        ('{"spec": {"a": "{{.env}}"}}', ""),
        ("metadata:\n  labels: {a: '{{.env}}'}", ""),
        ("{{if .a}}spec: {{end}}", ""),
        ("spec: {{nosuch}}", ""),
        ("- a", "the patch is no mapping"),
        ("spec: {a", "the patch is not YAML"),
        ("spec:\n\ta: b", "the patch is not YAML"),
        ("text", "the patch is no mapping"),
        ("spec: {source: {path: [a, b]}}", "spec.source.path must be a text, not a list"),
        ("spec: {revisionHistoryLimit: '3'}", "spec.revisionHistoryLimit must be a whole number"),
        ("spec: {revisionHistoryLimit: {{.env}}}", ""),
        ("spec: {source: {path: 'a-{{.env}}', helm: {valuesObject: {a: [1]}}}}", ""),
    ],
)
def test_a_patch_can_be_read(patch: str, expected: str) -> None:
    answer = found("template-patch", templatePatch=patch)
    assert [expected in message for _, message in answer] == ([True] if expected else [])


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ("spec: {project: {{env}}}", 0),
        ("spec: {project: '{{.env}}'}", 0),
        ("spec: {project: {{.env}}}", 1),
        ("{{- if .env }}\nspec: {project: a}\n{{- end }}", 1),
    ],
)
def test_a_patch_without_the_switch_keeps_its_go_templates(patch: str, expected: int) -> None:
    assert len(found("template-patch", templatePatch=patch, goTemplate=False)) == expected


@pytest.mark.parametrize(
    ("name", "elements", "expected"),
    [
        ("shop-{{.env}}", [{"env": "a"}], []),
        ("shop-{{.env}}", [{"env": "A"}, {"env": "b"}], ["spec.generators[0].list.elements[0]"]),
        ("{{.env}}", [{"env": ""}], ["spec.generators[0].list.elements[0]"]),
        ("shop-{{.env}}", [{"env": ""}], ["spec.generators[0].list.elements[0]"]),
        ("Shop", [{"env": "a"}, {"env": "b"}], ["spec.template.metadata.name"]),
        ("shop-{{.env | lower}}", [{"env": "A"}], []),
        ("Shop-{{.env | lower}}", [{"env": "A"}], ["spec.generators[0].list.elements[0]"]),
    ],
)
def test_a_generated_name_is_a_name(name: str, elements: Any, expected: list[str]) -> None:
    generators = [{"list": {"elements": elements}}]
    assert [path for path, _ in found("name-invalid", template(name), generators=generators)] == expected
    assert not found("name-invalid", template(name), generators=generators, templatePatch="x")


def test_the_written_part_of_an_unknown_name_is_looked_at() -> None:
    assert found("name-invalid", template("Shop-{{.path}}"), generators=[GIT])
    assert not found("name-invalid", template("shop-{{.path}}"), generators=[GIT])


@pytest.mark.parametrize(
    ("project", "generators", "expected"),
    [
        ("{{.team}}", [GIT], 1),
        ("{{.team}}", [{"scmProvider": {}}], 1),
        ("{{.team}}", [{"pullRequest": {}}], 1),
        ("{{.team}}", [{"plugin": {}}], 1),
        ("{{.env}}", [LIST], 0),
        ("{{.name}}", [{"clusters": {}}], 0),
        ("{{.metadata.labels.team}}", [{"matrix": {"generators": [{"clusters": {}}, GIT]}}], 0),
        ("{{.env}}", [{"matrix": {"generators": [LIST, GIT]}}], 0),
        ("{{.path.basename}}", [{"matrix": {"generators": [LIST, GIT]}}], 1),
        ("{{.env}}-{{.team}}", [{"matrix": {"generators": [LIST, GIT]}}], 1),
        ("{{index .path.segments 0}}", [GIT], 1),
        ("shop", [GIT], 0),
    ],
)
def test_a_project_may_come_from_what_its_users_do_not_write(
    project: str, generators: Any, expected: int
) -> None:
    assert len(found("templated-project", template(project=project), generators=generators)) == expected
