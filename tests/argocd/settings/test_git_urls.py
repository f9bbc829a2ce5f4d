"""Repository URLs; the golden file holds what Go's net/url and Argo CD's normalisation make of them."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argocd.settings import git_urls

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "repository_urls.json").read_text())


def test_the_originals_answers_are_ours() -> None:
    wrong = [(url, said) for url, normalized in GOLDEN if (said := git_urls.normalize(url)) != normalized]
    assert not wrong


@pytest.mark.parametrize(
    ("url", "normalized"),
    [
        ("https://GitHub.com/Acme/Pay.git", "https://github.com/acme/pay"),
        ("git@github.com:acme/pay.git", "git@github.com/acme/pay"),
        ("git@github.com:/acme/pay", "git@github.com//acme/pay"),
        ("git@github.com:22:acme/pay", "git@github.com/22:acme/pay"),
        ("gët@h:a", ""),
        ("ssh://git@github.com/acme/pay", "git@github.com/acme/pay"),
        ("ssh://git@github.com:acme/pay", ""),
        ("  https://x/y\n", "https://x/y"),
        ("https://github.com/{a,b}/*", "https://github.com/%7Ba,b%7D/%2A"),
        ("https://github.com/*/x", "https://github.com/*/x"),
        ("https://[::1]:22/x", "https://[::1]:22/x"),
        ("https://[::1%25en0]/x", "https://[::1%25en0]/x"),
        ("https://[::1%25%2f]/x", ""),
        ("https://[::1%25 x]/x", ""),
        ("https://[::1]x/y", ""),
        ("https://[1.2.3.4]/x", ""),
        ("https://x[::1]/y", ""),
        ("a%3a^b", "./a:%5Eb"),
        ("https://u%zz@h/x", ""),
        ("https://user:p@ss@h/x", "https://user:p%40ss@h/x"),
        ("http://a:1:2/x", ""),
        ("redis://a:1:2/x", "redis://a:1:2/x"),
        ("https://h/x#a b", "https://h/x#a%20b"),
        ("https://h/x#%zz", ""),
        ("https://h/%zz", ""),
        ("https://h%20/x", ""),
        ("https:", "https:"),
        ("https://.git", "https:"),
        ("https://", "https:"),
        ("//h/x", "//h/x"),
        ("///x", "///x"),
        ("*", "*"),
        ("", ""),
        ("a:b", "a:b"),
        ("ä:b", ""),
        (":b", ""),
        ("a\x7fb", ""),
    ],
)
def test_a_url_is_normalised(url: str, normalized: str) -> None:
    assert git_urls.normalize(url) == normalized


def test_two_spellings_are_the_same_repository() -> None:
    assert git_urls.same("git@GITHUB.com:acme/pay", "ssh://git@github.com/acme/pay.git")
    assert not git_urls.same("https://github.com/acme/pay", "https://github.com/acme/pay/")
    assert not git_urls.same("ssh://git@a:b/c", "ssh://git@a:b/c")


def test_long_urls_are_not_remembered() -> None:
    before = git_urls.normalize.short.cache_info().currsize
    assert git_urls.normalize("https://x/" + "a" * 3000 + ".git") == "https://x/" + "a" * 3000
    assert git_urls.normalize.short.cache_info().currsize == before


@given(st.text(st.sampled_from("ah:/@%[]{}#?.é \t*0\ud800"), max_size=20))
def test_what_is_normalised_stays_as_it_is_or_loses_its_git(url: str) -> None:
    once = git_urls.normalize(url)
    assert isinstance(git_urls.normalize(once), str)
