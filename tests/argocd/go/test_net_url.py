"""URLs as Go reads them. The cases were answered by Go 1.26's net/url."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argocd.go import net_url
from argocd.go.net_url import query_parameter


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://hub:9090?agentName=prod", "prod"),
        ("https://hub/path?x=1&agentName=prod#fragment", "prod"),
        ("https://hub?agentName=first&agentName=second", "first"),
        ("https://hub?agent%4Eame=a%2Db+c", "a-b c"),
        ("https://user:secret@hub?agentName=a", "a"),
        ("https://[::1]:443?agentName=a", "a"),
        ("https://[fe80::1%25eth0]?agentName=a", "a"),
        ("https://[fe80::1%25eth%200]?agentName=a", "a"),
        ("https://%c3%a4%25?agentName=a", "a"),
        ("postgres://h1:1,h2:2?agentName=a", "a"),
        ("//hub?agentName=a", "a"),
        ("///no:host?agentName=a", "a"),
        ("/path?agentName=a", "a"),
        ("?agentName=a", "a"),
        ("mailto:someone?agentName=a", "a"),
        ("hub:9090?agentName=a", "a"),
        ("https://hub?agentName=%ff", "\ufffd"),
        ("https://hub?agentName=a#\n", "a"),
        ("https://hub?agentName=a#x\x7f", "a"),
    ],
)
def test_the_parameter_is_found(url: str, found: str) -> None:
    assert query_parameter(url, "agentName") == found


@pytest.mark.parametrize(
    "url",
    [
        "",
        "*",
        "https://hub",
        "https://hub?agentName=",
        "https://hub?agentname=a",
        "https://hub?=a",
        "https://hub?agentName=a;b",
        "https://hub?agentName=%zz",
        "https://hub?%zzagentName=a",
    ],
)
def test_a_parameter_that_is_not_there_is_empty(url: str) -> None:
    assert query_parameter(url, "agentName") == ""


@pytest.mark.parametrize(
    "url",
    [
        "https://hub\x7f?agentName=a",
        "https://hub?agentName=a\n",
        "https://hub?agentName=a#%zz",
        ":nothing?agentName=a",
        "1hub:9090?agentName=a",
        "https://hub/%zz?agentName=a",
        "https://hub:port?agentName=a",
        "https://hub:1:2?agentName=a",
        "https://a b?agentName=a",
        "https://h%41?agentName=a",
        "https://u[@hub?agentName=a",
        "https://u%zz@hub?agentName=a",
        "https://a[::1]?agentName=a",
        "https://[::1?agentName=a",
        "https://[::1]x?agentName=a",
        "https://[1.2.3.4]?agentName=a",
        "https://[::1%c3]?agentName=a",
        "https://[fe80::1%25]?agentName=a",
        "https://[fe80::1%25a b]?agentName=a",
        "https://[fe80::1%25a%zz]?agentName=a",
        "https://[fe80::1%25a%2f]?agentName=a",
        "https://[ä]?agentName=a",
    ],
)
def test_go_would_not_parse_the_url(url: str) -> None:
    assert query_parameter(url, "agentName") == ""


@given(st.text(alphabet=st.characters(), max_size=60), st.text(max_size=10))
def test_any_text_has_an_answer(url: str, name: str) -> None:
    assert isinstance(query_parameter(url, name), str)
    assert isinstance(query_parameter(f"https://{url}?agentName=a", "agentName"), str)


@pytest.mark.parametrize(
    ("url", "scheme"),
    [
        ("https://argocd.example.com", "https"),
        ("HTTP://127.0.0.1:8081", "http"),
        ("javascript:alert(1)", "javascript"),
        ("argocd.example.com", ""),
        ("http://a b", ""),
        ("https://host:port", ""),
        ("https://host/%zz", ""),
        ("", ""),
    ],
)
def test_the_scheme_of_a_url_that_go_can_read(url: str, scheme: str) -> None:
    assert net_url.scheme(url) == scheme
