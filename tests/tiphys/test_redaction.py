from enum import StrEnum

import pytest

from tests.processor_time import ProcessorTime
from tiphys.redaction import REMOVED, redacted, redacted_text

TOKEN = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJlLW1hcmtlcg"
KEY = "-----BEGIN EC PRIVATE KEY-----\nTUFSS0VS\n-----END EC PRIVATE KEY-----"


@pytest.mark.parametrize(
    "key",
    [
        "password",
        "clientSecret",
        "bearer_token",
        "bearerToken",
        "tls.keyData",
        "Authorization",
        "Set-Cookie",
        "api-key",
    ],
)
def test_a_value_goes_where_its_key_names_a_secret(key: str) -> None:
    assert redacted({key: "marker"}) == {key: REMOVED}


@pytest.mark.parametrize("key", ["secret_name", "token_file", "secretName", "key", "name", "tokens_seen"])
def test_a_value_stays_where_its_key_only_sounds_like_one(key: str) -> None:
    assert redacted({key: "web"}) == {key: "web"}


def test_an_empty_secret_is_worth_seeing() -> None:
    assert redacted({"password": ""}) == {"password": ""}


def test_all_data_of_a_secret_goes_however_deep_it_sits() -> None:
    secret = {
        "kind": "Secret",
        "metadata": {"name": "repo"},
        "data": {"url": "bWFya2Vy"},
        "stringData": {"a": "b"},
    }

    cleaned = redacted({"objects": [{"object": secret}]})

    assert cleaned["objects"][0]["object"] == {
        "kind": "Secret",
        "metadata": {"name": "repo"},
        "data": REMOVED,
        "stringData": REMOVED,
    }


def test_data_of_a_config_map_stays() -> None:
    config = {"kind": "ConfigMap", "data": {"url": "https://argocd.example.org"}}
    assert redacted(config) == config


def test_what_kubectl_remembers_of_a_secret_goes_too() -> None:
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": '{"data": {"url": "bWFya2Vy"}}'}
    assert redacted(annotations) == {"kubectl.kubernetes.io/last-applied-configuration": REMOVED}


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        (f"refused {TOKEN} of bob", f"refused {REMOVED} of bob"),
        (f"read {KEY} from a file", f"read {REMOVED} from a file"),
        (KEY[:40], REMOVED),
        ("Authorization: Bearer abc.def-ghi", f"Authorization: Bearer {REMOVED}"),
        ("authorization: basic Ym9iOm1hcmtlcg==", f"authorization: basic {REMOVED}"),
        ("https://bob:marker@example.org/x", f"https://{REMOVED}@example.org/x"),
        ("'https://ghp_marker@example.org/x' twice", f"'https://{REMOVED}@example.org/x' twice"),
        ("https://bob:mar@ker@example.org", f"https://{REMOVED}@example.org"),
        ("https://bob:mar/ker@example.org/x", f"https://{REMOVED}@example.org/x"),
        ("https://bob:4mar?k#er@example.org", f"https://{REMOVED}@example.org"),
        ("'https://bob:/mar@ker@example.org/x', a@b", f"'https://{REMOVED}@example.org/x', a@b"),
        ("'https://bob:mar'ker@example.org/x'", f"'https://{REMOVED}@example.org/x'"),
        ("'https://mar'ker@example.org/x'", f"'https://{REMOVED}@example.org/x'"),
        ("https://bob:4'mar@example.org/x", f"https://{REMOVED}@example.org/x"),
        ("https://bob:1234567/mar@example.org", f"https://{REMOVED}@example.org"),
        ("https://bob:12/mar@example.org", f"https://{REMOVED}@example.org"),
        ("https://bob@corp.example:mar/ker@example.org", f"https://{REMOVED}@example.org"),
        ("https://bob@corp.example:8443/x@y", f"https://{REMOVED}@corp.example:8443/x@y"),
        (r"https:\/\/bob:mar\/ker@example.org", rf"https:\/\/{REMOVED}@example.org"),
        ('{"url":"https://example.org","mail":"a@b"}', '{"url":"https://example.org","mail":"a@b"}'),
        ("'https://example.org', 'a@b'", "'https://example.org', 'a@b'"),
        ("ssh://git@example.org/x@y", "ssh://git@example.org/x@y"),
        ("https://example.org:8443/x@y", "https://example.org:8443/x@y"),
        ("https://[::1]:8443/x?y@z", "https://[::1]:8443/x?y@z"),
        ("https://example.org/a:b@v1", "https://example.org/a:b@v1"),
        ("oidc: bearer of news", "oidc: bearer of news"),
    ],
)
def test_a_text_loses_what_looks_like_a_secret(text: str, cleaned: str) -> None:
    assert redacted_text(text) == cleaned
    assert redacted(text.encode()) == cleaned


def test_nesting_without_end_ends() -> None:
    endless: dict[str, object] = {}
    endless["self"] = endless
    assert REMOVED in str(redacted(endless))


@pytest.mark.parametrize(
    "hostile",
    [
        *("eyJ" + "a" * 100_000, "-----BEGIN " * 10_000, "-eyJaaaaaaaa" * 20_000),
        *("://" * 30_000, "://a" * 30_000, "@://a:b/" * 30_000, "://a:b@/" * 30_000, "://a:b/@ " * 30_000),
        *(
            "://a@b:" * 30_000,
            "://a'b@:1/" * 30_000,
            "://a:1'" * 30_000,
            "://" + "'" * 90_000,
            "://a@.:1/" * 30_000,
        ),
    ],
)
def test_a_hostile_text_costs_linear_time(hostile: str) -> None:
    with ProcessorTime() as taken:
        redacted_text(hostile)
    assert taken.seconds < 2


def test_an_enumeration_of_texts_is_a_text() -> None:
    class Reason(StrEnum):
        REJECTED = "rejected"

    assert redacted({"reason": Reason.REJECTED}) == {"reason": "rejected"}
