import base64
from typing import Any

import pytest

from argocd.settings import secrets


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def labelled(kind: str, **parts: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {"argocd.argoproj.io/secret-type": kind}}, **parts}


def test_a_value_is_decoded() -> None:
    assert secrets.value({"data": {"url": encoded("https://git")}}, "url") == "https://git"


def test_a_file_may_have_the_plain_text_which_wins() -> None:
    secret = {"data": {"url": encoded("old")}, "stringData": {"url": "new"}}
    assert secrets.value(secret, "url") == "new"


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert secrets.value({"data": {"url": "/w=="}}, "url") == "\ufffd"


@pytest.mark.parametrize(
    "secret",
    [{}, {"data": None}, {"data": {"url": "%%%"}}, {"data": {"url": 7}}, {"stringData": {"url": 7}}],
)
def test_what_is_absent_or_broken_has_no_value(secret: dict[str, Any]) -> None:
    assert secrets.value(secret, "url") is None


def test_null_is_an_empty_value() -> None:
    assert secrets.value({"data": {"url": None}}, "url") == ""


def test_what_no_api_server_would_take_is_named() -> None:
    secret = {"data": {"a": "YQ==", "b": "?", "c": 7, "d": None}, "stringData": {"e": "x", "f": 7, "g": None}}
    assert list(secrets.undecodable(secret)) == ["data.b", "data.c", "stringData.f"]


@pytest.mark.parametrize(
    ("kind", "key", "spelling"),
    [
        ("repository", "URL", "url"),
        ("repository", "azureServicePrincipalClientID", "azureServicePrincipalClientId"),
        ("repo-creds", "azureServicePrincipalClientId", "azureServicePrincipalClientID"),
        ("repo-write-creds", "azureServicePrincipalTenantId", "azureServicePrincipalTenantID"),
        ("cluster", "Server", "server"),
    ],
)
def test_each_kind_of_secret_has_its_own_spelling(kind: str, key: str, spelling: str) -> None:
    assert list(secrets.misspelt_keys(labelled(kind, stringData={key: "x"}))) == [(key, spelling)]


def test_keys_that_argo_cd_reads_or_has_never_heard_of_are_fine() -> None:
    assert list(secrets.misspelt_keys(labelled("repository", data={"url": "", "note": "", 7: ""}))) == []
    assert list(secrets.misspelt_keys(labelled("unheard-of", data={"URL": ""}))) == []


def test_templates_of_credentials_have_fewer_switches() -> None:
    assert "insecure" in secrets.boolean_keys("repository")
    assert "insecure" not in secrets.boolean_keys("repo-creds")
    assert "depth" in secrets.integer_keys("repository-write")
    assert "depth" not in secrets.integer_keys("repo-write-creds")


def test_a_server_is_compared_without_slashes_at_its_end() -> None:
    assert secrets.server({"stringData": {"server": "https://east//"}}) == "https://east"
    assert secrets.server({}) == ""
