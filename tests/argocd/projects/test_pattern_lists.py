import pytest

from argocd.globs import Verdict
from argocd.projects import pattern_lists
from argocd.projects.pattern_lists import ListMode


@pytest.mark.parametrize(
    ("entries", "text", "mode", "verdict"),
    [
        (["shop"], "shop", ListMode.EXACT, "yes"),
        (["shop*"], "shop", ListMode.EXACT, "no"),
        (["other", "shop*"], "shop-1", ListMode.GLOB, "yes"),
        (["/shop/"], "shop", ListMode.GLOB, "no"),
        (["/^shop-/"], "shop-1", ListMode.REGEXP, "yes"),
        (["/^shop-/"], "my-shop-1", ListMode.REGEXP, "no"),
        (["/^((?!live).)*$/"], "shop-live", ListMode.REGEXP, "no"),
        (["/a/"], "/a/", ListMode.REGEXP, "yes"),
        (["/(/", "shop"], "shop", ListMode.REGEXP, "yes"),
        (["/(/"], "shop", ListMode.REGEXP, "no"),
        (["/"], "shop", ListMode.REGEXP, "panic"),
        (["{shop*,shop}"], "shop", ListMode.REGEXP, "panic"),
        (["/a(?!b)/"], "shop", ListMode.REGEXP, "unknown"),
        (["/a(?!b)/", "shop"], "shop", ListMode.REGEXP, "yes"),
        ([], "shop", ListMode.REGEXP, "no"),
    ],
)
def test_a_list_is_about_a_text(entries: list[str], text: str, mode: ListMode, verdict: str) -> None:
    assert pattern_lists.in_list(entries, text, mode=mode) is Verdict(verdict)


@pytest.mark.parametrize(
    ("pattern", "text", "verdict"),
    [
        ("*", "anything/at all", "yes"),
        ("shop", "shop", "yes"),
        ("!shop", "shop", "no"),
        ("!shop", "other", "yes"),
        ("!!shop", "shop", "yes"),
        ("![", "shop", "yes"),
        ("!{shop*,shop}", "shop", "panic"),
    ],
)
def test_a_denial_is_right_where_the_rest_does_not_match(pattern: str, text: str, verdict: str) -> None:
    assert pattern_lists.match(pattern, text) is Verdict(verdict)


def test_where_there_are_no_denials_an_exclamation_mark_is_a_character() -> None:
    assert pattern_lists.in_list(["!shop"], "!shop") is Verdict.YES
    assert pattern_lists.in_list(["!shop"], "other") is Verdict.NO
