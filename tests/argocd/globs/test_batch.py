"""One glob against many names: what the expression finds is what the glob matches one by one."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argocd import globs
from argocd.globs import Verdict, batch, costs
from argocd.globs.batch import matching
from argocd.globs.matchers import Run
from argocd.projects import pattern_lists
from tests.processor_time import least_seconds

NAMES = sorted(
    {
        *("".join(letters) for size in range(1, 4) for letters in itertools.product("ab-", repeat=size)),
        *("aab-ba", "abababa", "a" * 10, "-" * 6, "ab-ab-ab", "b" * 20 + "a", "a b", "~", "abcba"),
    }
)
PIECES = (
    *(
        "a",
        "b",
        "ab",
        "-",
        "*",
        "*",
        "**",
        "?",
        "?",
        "[ab]",
        "[!a]",
        "[!ab]",
        "[a-b]",
        "[!b-c]",
        "\\a",
        "\n",
        "é",
    ),
    *(
        "{",
        "}",
        ",",
        "{a,b}",
        "{a,}",
        "{,}",
        "{*,ab}",
        "{ab*,a}",
        "{*a,ab}",
        "{a*,b*}",
        "{?,??}",
        "[é]",
        "[!é]",
    ),
    *("{a*b,ab}", "{ba,ab}", "{a*a,b}-", "{[ab],b}", "{}", "{a?,b}"),
)


MILLISECONDS = 0.05
"""Of a second, for a thousand names."""


def one_by_one(pattern: str, names: list[str]) -> list[str]:
    return [name for name in names if globs.match(pattern, name) is Verdict.YES]


def seconds(pattern: str, names: list[str]) -> float:
    """Of the processor, for a pattern that is not remembered yet."""
    ends = iter("uvxyz")
    return least_seconds(lambda: list(matching(f"{pattern}{next(ends)}", names)), below=MILLISECONDS)


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=7).map("".join))
def test_what_is_found_at_once_is_what_is_found_one_by_one(pattern: str) -> None:
    assert list(matching(pattern, NAMES)) == one_by_one(pattern, NAMES)


@given(st.text("ab-*?[]!{},\\", max_size=8))
def test_the_same_of_patterns_without_a_plan(pattern: str) -> None:
    assert list(matching(pattern, NAMES)) == one_by_one(pattern, NAMES)


WIDE_NAMES = ["-", "x9", "b-0", "az-09", "cdyw-5", "cdyw-6", "qrst", "edge-one", "edge-two", "~a", "A-Z"]
WIDE_PIECES = ("[b-y]", "[!1-8]", "[!-z]", "[9-A]", "{,}", "{", "}", ",", "*", "?", "[!a]", "a", "-", "edge")


@given(st.lists(st.sampled_from(WIDE_PIECES), min_size=1, max_size=7).map("".join))
def test_names_that_look_alike_to_a_glob_are_alike(pattern: str) -> None:
    for one in (pattern, f"{'q' * batch.LONGEST}{pattern}", f"{{{'q' * 300},}}{pattern}"):
        assert list(matching(one, WIDE_NAMES)) == one_by_one(one, WIDE_NAMES)


EXACT = (
    *(
        "edge-???",
        "*[05]",
        "*[!5]",
        "[!e]*",
        "?*",
        "*-?",
        "a*a",
        "ab*ba",
        "{edge,test}-*",
        "{edge,test}?",
        "*{a,ab}*",
    ),
    *(
        "{a*,b*}",
        "{*a,*b}",
        "[!a][!a]",
        "*-{eu,us}-*",
        "{prod,test}-{eu,us}-?",
        "{*-eu,eu}",
        "{eu*,us}-x",
        "*{eu*,us}",
    ),
    *(
        "t*t*5",
        "?*0?*0",
        "[ept]*-*[135]",
        "{{a,b}-*,c}",
        "**",
        "?",
        "[é]",
        "é*",
        "a\nb*",
        "[!a]{a,}",
        "a*{b,}?",
    ),
    *("*b*", "{*a,ab}b", "??", "{a,??}*", "a{-b,}*", "*{a,}*", "*{a,}{b,}*", "{ab*,a?b}c", "{*,ab}c"),
)


@pytest.mark.parametrize("pattern", EXACT)
def test_what_people_write_need_not_be_tried_on_every_name(pattern: str) -> None:
    assert batch._expression(pattern)[1]
    assert list(matching(pattern, NAMES)) == one_by_one(pattern, NAMES)


@pytest.mark.parametrize(
    "pattern",
    [
        "{prod*,prod}",
        "a{*,}",
        "{*,ab}*{*,ab}",
        "*{*a,b}*",
        "{a*a,b}*",
        "[!ab][!ab]",
        "{,}{,}",
        f"{'a' * 9}*{'a' * 9}",
        "a{b,}{c,}",
        "*{{,}{,},ab}a",
        "a*{*,b}",
        "a{a,}b{",
    ],
)
def test_what_cannot_be_written_down_is_tried(pattern: str) -> None:
    assert not batch._expression(pattern)[1]
    names = [*NAMES, "prod", "production", "a" * 12, "a" * 30]
    assert list(matching(pattern, names)) == one_by_one(pattern, names)


@pytest.mark.parametrize("pattern", ["[", "{" * 60, "a*b" * 5000])
def test_what_does_not_compile_matches_nobody(pattern: str) -> None:
    assert list(matching(pattern, NAMES)) == []


@pytest.mark.parametrize("name", ["", "é", "a\nb", "\x7f"])
def test_names_that_no_agent_has_are_tried_too(name: str) -> None:
    names = ["ab", name, "b", "a", "ba"]
    for pattern in ("?*", "*b", "[!a]", "{é,a?b}"):
        assert list(matching(pattern, names)) == one_by_one(pattern, names)


def test_a_long_pattern_is_tried() -> None:
    name = "a" * 301
    assert list(matching(f"{name}?", [*NAMES, name, f"{name}b"])) == [f"{name}b"]


def test_a_few_names_are_tried() -> None:
    assert list(matching("a*b?", ["abc", "ab", "axbc"])) == ["abc", "axbc"]


def test_where_the_glob_may_not_come_to_an_end_it_is_tried() -> None:
    pattern, names = "?*a" * 4, ["a" * 32, "a" * 240, "a" * 239 + "x", "x" * 240]
    matcher = globs.compiled(pattern).matcher
    assert matcher is not None
    assert costs.is_cheap(matcher, 3)
    assert not costs.is_cheap(matcher, 240)
    assert list(matching(pattern, names)) == one_by_one(pattern, names)


@given(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=7).map("".join),
    st.text("ab-", min_size=1, max_size=12),
)
def test_no_glob_takes_more_steps_than_it_was_said_to(pattern: str, name: str) -> None:
    glob = globs.compiled(pattern)
    if glob.matcher is not None:
        run = Run(name)
        verdict = glob.match(name)
        if verdict in {Verdict.YES, Verdict.NO}:
            glob.matcher.matches(run, 0, len(name))
            assert run.steps <= costs._steps(glob.matcher, len(name))
            assert run.cost <= costs._cost(glob.matcher, len(name))


@pytest.mark.parametrize(
    "entry", ["/", "//", "/^a/", "/b$/", "/(?<=a)b/", "/(/", "a*", "/a*/", "/^(?!a)/", "[/"]
)
def test_an_entry_of_a_list_of_namespaces_is_about_those_that_the_list_is(entry: str) -> None:
    names = [*NAMES, "/a/"]
    expected = {name for name in names if pattern_lists.in_list([entry], name) is Verdict.YES}
    assert set(pattern_lists.matching(entry, names)) == expected


@given(st.text("/ab-*?[]!{},\\", max_size=8))
def test_between_slashes_a_glob_is_about_nothing_without_a_slash(inside: str) -> None:
    assert one_by_one(f"/{inside}/", NAMES) == []


@pytest.mark.parametrize(
    "pattern", ["{,}{}*{,}*", "{,}{,}{,}*{}**", "**{e{,}-,{}e}*", "?**[!a]*{?eu**", "{}*{*{", "*{}{{}*{}"]
)
def test_a_tangle_of_braces_and_stars_is_tried_on_few_of_a_thousand_names(pattern: str) -> None:
    names = [f"cluster-{number:04}-of-the-region-west-with-a-rather-long-name" for number in range(1000)]
    assert least_seconds(lambda: list(matching(pattern, names)), below=MILLISECONDS) < MILLISECONDS


def test_thousands_of_alternatives_are_not_taken_apart_as_a_glob_too() -> None:
    entry = f"/{'|'.join(f'[a-z]-{number}' for number in range(2000))}/"
    names = [f"edge-{number}" for number in range(1000)]
    before = globs._compiled.long.cache_info()
    assert "edge-7" in pattern_lists.matching(entry, names)
    assert globs._compiled.long.cache_info() == before


def test_a_thousand_names_take_milliseconds() -> None:
    names = [f"{('prod', 'test', 'edge')[number % 3]}-{number:05}" for number in range(1000)]
    for pattern in EXACT:
        assert seconds(pattern, names) < MILLISECONDS, pattern
