"""Fields and types; the table is compared with the definitions of the release that the local cluster has."""

import re
import subprocess
import sys
from typing import Any

import pytest

from argocd.applications import field_table, fields
from argocd.applications.fields import FieldFault
from scripts.cluster import definitions
from scripts.docs import fields as generator
from tests.processor_time import ProcessorTime

NEWEST = field_table.RELEASES[-1]


def application(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "shop"},
        "spec": {"project": "shop", "destination": {}, **spec},
    }


def application_set(**spec: Any) -> dict[str, Any]:
    template = {"metadata": {"name": "shop"}, "spec": {"project": "shop", "destination": {}}}
    return {
        "kind": "ApplicationSet",
        "metadata": {},
        "spec": {"generators": [], "template": template, **spec},
    }


def found(thing: dict[str, Any], *, version: tuple[int, ...] = NEWEST) -> list[tuple[str, str, str]]:
    problems = fields.problems(thing, kind=thing["kind"], version=version)
    return [(problem.fault.value, problem.path, problem.hint) for problem in problems]


@pytest.mark.parametrize(
    ("thing", "expected"),
    [
        (application(), ()),
        (application(syncPolicy=None), ()),
        (
            application(syncPolicy={"automated": {"selfheal": True}}),
            ("unknown", "spec.syncPolicy.automated.selfheal", "Did you mean selfHeal?"),
        ),
        (application(sorce={}), ("unknown", "spec.sorce", "Did you mean source?")),
        (
            application(syncPolicy={"prune": True}),
            ("misplaced", "spec.syncPolicy.prune", "It belongs to spec.syncPolicy.automated.prune."),
        ),
        (
            application(source={"repoURL": "x", "sources": []}),
            ("misplaced", "spec.source.sources", "It belongs to spec.sources."),
        ),
        (
            application(template={}),
            (
                "misplaced",
                "spec.template",
                "An ApplicationSet has a template; an Application has its fields directly in spec.",
            ),
        ),
        (
            application(syncPolicy={"automated": {"prune": "true"}}),
            ("type", "spec.syncPolicy.automated.prune", "Remove the quotation marks."),
        ),
        (
            application(source={"repoURL": "x", "helm": {"values": {"a": 1}}}),
            (
                "type",
                "spec.source.helm.values",
                "Write it as a block of text (values: |), or use valuesObject for a mapping.",
            ),
        ),
        (
            application(source={"repoURL": "x", "targetRevision": 1.2}),
            ("type", "spec.source.targetRevision", "Put it in quotation marks."),
        ),
        (
            application(revisionHistoryLimit="3"),
            ("type", "spec.revisionHistoryLimit", "Remove the quotation marks."),
        ),
        (application(source={"path": "x"}), ("required", "spec.source.repoURL", "Set spec.source.repoURL.")),
        (
            application_set(generators={"list": {}}),
            ("type", "spec.generators", "Begin each entry with a dash."),
        ),
        (
            application_set(generators=[{"git": {"repoURL": "x"}}]),
            ("required", "spec.generators[0].git.revision", "Set spec.generators[0].git.revision."),
        ),
        (
            application_set(syncPolicy={"applicationsSync": "create"}),
            ("type", "spec.syncPolicy.applicationsSync", "Choose one of them, spelt exactly so."),
        ),
        (
            application_set(
                template={
                    "metadata": {},
                    "spec": {
                        "project": "x",
                        "destination": {},
                        "syncPolicy": {"preserveResourcesOnDeletion": True},
                    },
                }
            ),
            (
                "misplaced",
                "spec.template.spec.syncPolicy.preserveResourcesOnDeletion",
                "It belongs to spec.syncPolicy.preserveResourcesOnDeletion.",
            ),
        ),
        (
            {"kind": "AppProject", "metadata": {"labels": {"a": 1}}, "spec": {}},
            ("type", "metadata.labels.a", "Put it in quotation marks."),
        ),
    ],
)
def test_a_field_is_told_with_its_place_and_what_was_meant(thing: Any, expected: tuple[str, ...]) -> None:
    assert found(thing) == ([expected] if expected else [])


def test_a_field_of_another_release_is_told_apart_from_one_that_never_was() -> None:
    thing = application(syncPolicy={"automated": {"enabled": True}})
    assert found(thing) == []
    ((fault, path, _),) = found(thing, version=(2, 14, 3))
    assert (fault, path) == ("release", "spec.syncPolicy.automated.enabled")


def test_releases_that_the_table_does_not_know_are_read_as_their_neighbours() -> None:
    assert fields.release_for((9, 1)) == NEWEST
    assert fields.release_for((1, 8)) == field_table.RELEASES[0]
    assert fields.release_for((3, 2, 6)) == (3, 2)


def test_one_cause_is_not_told_a_thousand_times() -> None:
    thing = application(**{f"nothing{index}": 1 for index in range(1000)})
    assert len(found(thing)) == fields.MOST


def test_a_large_object_is_compared_in_linear_time() -> None:
    entries = [{"repoURL": "x", "helm": {"parameters": [{"name": "a"}] * 50}} for _ in range(1000)]
    with ProcessorTime() as taken:
        assert found(application(sources=entries)) == []
    assert taken.seconds < 2


def test_the_table_says_what_the_definitions_of_the_local_clusters_release_say() -> None:
    release = tuple(int(part) for part in definitions.VERSION[1:].split(".")[:2])
    known = definitions.find_definitions()
    if definitions.VERSION not in known.origin:
        pytest.skip(known.origin)
    for kind, schema in generator.schemas(known.objects):
        expected = generator.node(schema, 0)
        assert _difference(expected, kind, release, at=kind) == "", "run `make docs ARGS=--all`"


def _difference(expected: Any, kind: str, release: tuple[int, ...], *, at: str) -> str:
    """The first place where the table's type is not that of the definition."""
    if kind in {"*", "Meta"}:
        return ""  # another type in another release
    if isinstance(expected, generator.Container):
        if kind[0] != expected.bracket:
            return at
        return _difference(expected.of, kind[1:-1], release, at=f"{at}[]")
    if isinstance(expected, str):
        return "" if kind == expected else at
    table = {key: known for key, known in fields.types()[kind].items() if known.is_in(release)}
    if set(table) != set(expected.fields):
        return f"{at}: {sorted(set(table) ^ set(expected.fields))}"
    differences = (
        _difference(one.type, table[key].type, release, at=f"{at}.{key}")
        for key, one in expected.fields.items()
    )
    return next(filter(None, differences), "")


def test_every_type_of_the_table_can_be_read() -> None:
    table = fields.types()
    for kind, known in table.items():
        for key, one in known.items():
            inner = one.type.strip("[]{}")
            assert inner in table or re.fullmatch(r"[sbinx*]|s\([^)]+\)", inner), (kind, key)
    assert {fault.value for fault in FieldFault} == {"unknown", "misplaced", "release", "type", "required"}


def test_a_run_without_objects_of_argo_cd_does_not_read_the_table() -> None:
    code = "import sys, argocd.rules.catalogue; sys.exit('argocd.applications.field_table' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
