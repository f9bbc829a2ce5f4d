from typing import Any

import pytest

from argocd.applications import sources

GIT = "https://git.example.com/shop.git"


def paths(found: Any) -> list[str]:
    return [problem.path for problem in found]


def test_an_empty_project_is_the_default_one() -> None:
    assert sources.project_of({}) == "default"
    assert sources.project_of({"project": "shop"}) == "shop"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"source": {"repoURL": GIT}}, ["spec.source"]),
        ({}, ["spec.source"]),
        ({"source": {}, "sources": []}, ["spec.source"]),
        ({"source": {}, "sources": [{}]}, ["spec.sources[0]"]),
        ({"sources": [{}, 7]}, ["spec.sources[0]", "spec.sources[1]"]),
        ({"source": {}, "sources": [{}], "sourceHydrator": {}}, []),
    ],
)
def test_a_hydrator_beats_sources_which_beat_source(spec: dict[str, Any], expected: list[str]) -> None:
    assert [path for path, _ in sources.plain_sources(spec)] == expected


def test_every_repository_of_an_application_is_found() -> None:
    several = {"sources": [{"repoURL": "a"}, {"repoURL": "b"}, {}]}
    assert list(sources.repositories(several)) == [
        ("spec.sources[0].repoURL", "a", "application repo"),
        ("spec.sources[1].repoURL", "b", "application repo"),
        ("spec.sources[2].repoURL", "", "application repo"),
    ]


@pytest.mark.parametrize(
    ("sync", "expected"),
    [
        ({}, ["drySource"]),
        ({"repoURL": "dry"}, ["drySource"]),
        ({"repoURL": "wet"}, ["drySource", "syncSource"]),
    ],
)
def test_a_hydrator_has_two_repositories_if_they_differ(sync: dict[str, str], expected: list[str]) -> None:
    spec = {"sourceHydrator": {"drySource": {"repoURL": "dry"}, "syncSource": sync}}
    found = [path.split(".")[2] for path, _, _ in sources.repositories(spec)]
    assert found == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"source": {"repoURL": GIT, "path": "."}}, []),
        ({"source": {"repoURL": GIT, "chart": "shop"}}, []),
        ({"source": {"repoURL": GIT, "ref": "values"}}, ["spec.source"]),
        ({"source": {"path": "."}}, ["spec.source"]),
        ({"source": 7}, ["spec.source"]),
        ({"sources": [{"repoURL": GIT, "ref": "values"}, {"repoURL": GIT}]}, ["spec.sources[1]"]),
        ({"sourceHydrator": {}}, []),
    ],
)
def test_sources_that_say_too_little(spec: dict[str, Any], expected: list[str]) -> None:
    assert (
        paths(
            sources.incomplete_sources(
                sources.plain_sources(spec), several=sources.has_multiple_sources(spec)
            )
        )
        == expected
    )


def test_a_chart_needs_a_revision() -> None:
    spec = {"sources": [{"chart": "a", "targetRevision": "1"}, {"chart": "b"}, {"path": "c"}]}
    assert paths(sources.charts_without_revision(sources.plain_sources(spec))) == [
        "spec.sources[1].targetRevision"
    ]


@pytest.mark.parametrize(
    ("hydrator", "expected"),
    [
        ({"drySource": {"repoURL": GIT}, "syncSource": {"targetBranch": "live"}}, []),
        ({}, ["drySource.repoURL", "syncSource.targetBranch"]),
        (
            {"drySource": {"repoURL": GIT}, "syncSource": {"targetBranch": "live"}, "hydrateTo": {}},
            ["hydrateTo.targetBranch"],
        ),
        (
            {
                "drySource": {"repoURL": GIT},
                "syncSource": {"targetBranch": "live"},
                "hydrateTo": {"targetBranch": "next"},
            },
            [],
        ),
    ],
)
def test_a_hydrator_lacks_what_it_needs_by_field(hydrator: dict[str, Any], expected: list[str]) -> None:
    found = sources.hydrator_problems({"sourceHydrator": hydrator})
    assert paths(found) == [f"spec.sourceHydrator.{field}" for field in expected]


def test_an_application_without_a_hydrator_needs_none_of_it() -> None:
    assert list(sources.hydrator_problems({"sourceHydrator": None})) == []


def test_an_empty_block_counts_as_a_source_type() -> None:
    source = {"helm": {}, "kustomize": {"namePrefix": "a"}, "plugin": None}
    assert sources.source_types(source) == ["Kustomize", "Helm"]


@pytest.mark.parametrize("ref", ["a.b", "a/b", "a b", "ä", "a\n"])
def test_a_ref_with_other_characters_is_told(ref: str) -> None:
    found = list(sources.invalid_refs({"sources": [{"ref": ref}, {"ref": "good-1_2"}]}))
    assert paths(found) == ["spec.sources[0].ref"]
    assert found[0].message.startswith(f"sources.ref {ref} cannot contain any special characters")


def test_the_ref_of_a_lone_source_is_never_looked_at() -> None:
    assert list(sources.invalid_refs({"sources": [{"ref": "a.b"}]})) == []
    assert list(sources.invalid_refs({"sources": [{"ref": "a.b"}, {}], "sourceHydrator": {}})) == []


def test_a_ref_names_one_source() -> None:
    spec = {"sources": [{"ref": "a"}, {"ref": "b"}, {"ref": "a"}, {"ref": ""}, {"ref": ""}]}
    assert paths(sources.repeated_refs(spec)) == ["spec.sources[2].ref"]


def test_a_source_name_is_its_own() -> None:
    spec = {"sources": [{"name": "a"}, {"name": "a"}, {}, {"name": ""}]}
    found = list(sources.repeated_source_names(spec, application="shop"))
    assert paths(found) == ["spec.sources[1].name"]
    assert found[0].message == "application shop has duplicate source name: a"
