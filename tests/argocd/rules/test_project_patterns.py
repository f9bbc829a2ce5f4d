"""Patterns in projects."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argocd.projects import sync_windows
from argocd.rules import project_patterns
from tests.argocd.rules.asking import ask, paths, project


def found(rule: str, **spec: Any) -> list[tuple[str, str]]:
    return [(one.path, one.message) for one in ask(rule, project(**spec))]


def test_globs_that_do_not_compile_are_found_wherever_they_stand() -> None:
    assert paths(
        "project/glob-invalid",
        sourceRepos=["[a", "![b", "https://git.example.com/*"],
        sourceNamespaces=["[c"],
        destinations=[{"server": "[d", "name": "[e", "namespace": "![f"}],
        syncWindows=[{"applications": ["[g"], "namespaces": ["[h"], "clusters": ["[i"]}],
        destinationServiceAccounts=[{"server": "[j", "namespace": "[k"}],
    ) == [
        "sourceRepos[0]",
        "sourceRepos[1]",
        "sourceNamespaces[0]",
        "destinations[0].server",
        "destinations[0].name",
        "destinations[0].namespace",
        "syncWindows[0].applications[0]",
        "syncWindows[0].namespaces[0]",
        "syncWindows[0].clusters[0]",
    ]


def test_a_denial_that_does_not_compile_is_told_to_permit_everything() -> None:
    ((_, message),) = found("project/glob-invalid", destinations=[{"server": "*", "namespace": "![a"}])
    assert message == "'[a' does not compile: unexpected end of input; so this denial permits everything"


def test_globs_of_accounts_can_panic_too() -> None:
    entries = [{"server": "*", "namespace": "{a*,a}", "defaultServiceAccount": "x"}]
    assert paths("project/glob-panics", destinationServiceAccounts=entries) == [
        "destinationServiceAccounts[0].namespace"
    ]


def test_a_long_hostile_pattern_is_told_to_hang() -> None:
    assert paths("project/glob-hangs", sourceNamespaces=["?*a" * 3333]) == ["sourceNamespaces[0]"]


def test_an_unreadable_repository_is_not_taken_for_a_glob() -> None:
    for rule in ("glob-invalid", "glob-panics", "glob-misleading"):
        assert not found(f"project/{rule}", sourceRepos=["ssh://git@h:[a/b", ""])


def test_denials_count_in_two_lists_only() -> None:
    assert paths(
        "project/denial-unsupported",
        sourceNamespaces=["!a", "b"],
        syncWindows=[{"applications": ["!c"]}, None],
        destinations=[{"server": "!d", "namespace": "e"}],
        sourceRepos=["!f"],
    ) == ["sourceNamespaces[0]", "syncWindows[0].applications[0]"]


@pytest.mark.parametrize(
    ("entry", "rule"),
    [
        ("/", "regular-expression"),
        ("/(a/", "regular-expression"),
        ("/a(?=b)/", "regular-expression-unsupported"),
        ("/^shop$/", ""),
    ],
)
def test_a_regular_expression_that_cannot_be_used_is_told(entry: str, rule: str) -> None:
    told = {
        one
        for one in ("regular-expression", "regular-expression-unsupported")
        if found(f"project/{one}", sourceNamespaces=[entry])
    }
    assert told == ({rule} if rule else set())


def test_malformed_kinds_are_found() -> None:
    assert paths(
        "project/kind-pattern",
        clusterResourceWhitelist=[{"group": "", "kind": "Namespace", "name": "[a"}],
        namespaceResourceBlacklist=[{"group": "a\\", "kind": "[Se"}, "x"],
    ) == [
        "clusterResourceWhitelist[0].name",
        "namespaceResourceBlacklist[0].group",
        "namespaceResourceBlacklist[0].kind",
    ]


PIECES = st.lists(
    st.sampled_from([*"ab-./:@_*?[]{}!\\,\n", "**", "https://", "/x/"]), min_size=0, max_size=5
).map("".join)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "sourceRepos": st.lists(PIECES | st.none()),
            "sourceNamespaces": st.lists(PIECES),
            "destinations": st.lists(
                st.dictionaries(st.sampled_from(["server", "name", "namespace"]), PIECES) | st.integers()
            ),
            "destinationServiceAccounts": st.lists(
                st.dictionaries(st.sampled_from(["server", "namespace", "defaultServiceAccount"]), PIECES)
            ),
            "syncWindows": st.lists(st.dictionaries(st.sampled_from(sync_windows.TARGETS), st.lists(PIECES))),
        },
    )
)
def test_patterns_that_are_harmless_together_are_so_one_by_one(spec: dict[str, Any]) -> None:
    entries = [*spec.get("destinations", ()), *spec.get("destinationServiceAccounts", ())]
    listed = [owner for window in spec.get("syncWindows", ()) for owner in window.values()]
    texts = [
        *spec.get("sourceRepos", ()),
        *spec.get("sourceNamespaces", ()),
        *(text for entry in entries for text in (entry.values() if isinstance(entry, dict) else (None,))),
        *(text for one in listed for text in one),
    ]
    one_by_one = all(
        isinstance(text, str) and project_patterns._HARMLESS.fullmatch(text) is not None for text in texts
    )
    assert project_patterns._is_harmless(spec) is one_by_one
