"""Whether one glob matches all that another one does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argocd import globs
from argocd.globs.covering import covers, is_literal


@pytest.mark.parametrize(
    ("pattern", "other", "expected"),
    [
        ("*", "", True),
        ("**", "a*", True),
        ("a*", "a*", True),
        ("a*", "ab", True),
        ("a*", "ab*c", True),
        ("a*", "{a,b}", False),
        ("a*", "b", False),
        ("ab*", "a*", False),
        ("a*c", "abc", True),
        ("a*c", "ab*c", False),
        ("a?*", "ab*", False),
        ("a", "a*", False),
        ("", "", True),
        ("", "a", False),
        ("[", "[", True),
        ("[", "a", False),
        ("{prod*,prod}", "prod", False),
        ("a*", "a" * 600, False),
    ],
)
def test_covering_is_said_only_where_it_is_certain(pattern: str, other: str, *, expected: bool) -> None:
    assert covers(pattern, other) is expected


def test_a_literal_has_no_special_character() -> None:
    assert is_literal("https://kubernetes.default.svc")
    assert not any(map(is_literal, ["*", "a?", "[a]", "{a}", "\\a"]))


PATTERNS = st.text(alphabet="ab*?", max_size=4)


@given(PATTERNS, PATTERNS, st.text(alphabet="ab", max_size=5))
def test_what_is_covered_is_matched(pattern: str, other: str, text: str) -> None:
    if covers(pattern, other) and globs.match(other, text) is globs.Verdict.YES:
        assert globs.match(pattern, text) is globs.Verdict.YES
