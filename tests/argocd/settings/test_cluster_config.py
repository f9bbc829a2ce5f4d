import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argocd.settings import cluster_config
from argocd.settings.cluster_config import ClusterConfig, ConfigDefect, Defect

SECRET = "eyJhbGciOi-do-not-show"


def problems(text: str) -> list[tuple[Defect, str]]:
    return [(problem.defect, problem.field) for problem in cluster_config.read(text).problems]


def test_a_config_with_everything_has_no_problem() -> None:
    text = json.dumps(
        {
            "username": "admin",
            "password": SECRET,
            "bearerToken": SECRET,
            "tlsClientConfig": {"insecure": False, "serverName": "x", "caData": "YQ==", "certData": None},
            "awsAuthConfig": {"clusterName": "c", "roleARN": "arn", "profile": "p"},
            "execProviderConfig": {
                "command": "login",
                "args": ["--now", None],
                "env": {"PATH": "/bin", "path": "other"},
                "apiVersion": "v1",
                "installHint": "install it",
            },
            "disableCompression": True,
            "proxyUrl": "socks5://proxy:1080",
            "somethingNewer": {"a": 1.5, "b": [1]},
        },
    )
    assert cluster_config.read(text) == ClusterConfig(
        has_ca=True,
        has_proxy=True,
        proxy_scheme="socks5",
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "{}",
        " {} ",
        '{"tlsClientConfig": null, "proxyUrl": ""}',
        '{"execProviderConfig": {"args": null, "env": null}}',
    ],
)
def test_a_config_may_say_nothing(text: str) -> None:
    assert cluster_config.read(text) == ClusterConfig()


@pytest.mark.parametrize(
    "text",
    [
        " ",
        "{",
        "[]",
        '"text"',
        "7",
        "{'a': 1}",
        '{"a": NaN}',
        '{"a": 1,}',
        "{} {}",
        "\ufeff{}",
        "[" * 100_000,
    ],
)
def test_a_text_that_is_no_json_object_is_unreadable(text: str) -> None:
    assert problems(text) == [(Defect.UNREADABLE, "")]


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('{"bearerToken": 7}', "bearerToken"),
        ('{"username": ["a"]}', "username"),
        ('{"tlsClientConfig": []}', "tlsClientConfig"),
        ('{"tlsClientConfig": {"insecure": "true"}}', "tlsClientConfig.insecure"),
        ('{"disableCompression": 1}', "disableCompression"),
        ('{"tlsClientConfig": {"caData": "-----BEGIN CERTIFICATE-----"}}', "tlsClientConfig.caData"),
        ('{"tlsClientConfig": {"keyData": 7}}', "tlsClientConfig.keyData"),
        ('{"tlsClientConfig": {"certData": {}}}', "tlsClientConfig.certData"),
        ('{"tlsClientConfig": {"certData": [256]}}', "tlsClientConfig.certData"),
        ('{"tlsClientConfig": {"certData": ["a"]}}', "tlsClientConfig.certData"),
        ('{"execProviderConfig": {"args": "--now"}}', "execProviderConfig.args"),
        ('{"execProviderConfig": {"args": ["a", 7]}}', "execProviderConfig.args"),
        ('{"execProviderConfig": {"env": []}}', "execProviderConfig.env"),
        ('{"execProviderConfig": {"env": {"A": 1}}}', "execProviderConfig.env"),
        ('{"awsAuthConfig": "x"}', "awsAuthConfig"),
    ],
)
def test_a_value_of_the_wrong_type_makes_argo_cd_drop_the_cluster(text: str, field: str) -> None:
    assert problems(text) == [(Defect.UNREADABLE, field)]


def test_go_fills_bytes_from_numbers_too() -> None:
    assert cluster_config.read('{"tlsClientConfig": {"caData": [45, 255, null]}}').problems == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"username": "a", "username": "b"}', [(Defect.AMBIGUOUS, "username")]),
        (
            '{"bearerToken": "a", "bearertoken": "b"}',
            [(Defect.SPELLING, "bearerToken"), (Defect.AMBIGUOUS, "bearerToken")],
        ),
        ('{"tlsClientConfig": {}, "tlsClientConfig": {}}', [(Defect.AMBIGUOUS, "tlsClientConfig")]),
        (
            '{"tlsClientConfig": {"insecure": true, "INSECURE": false}}',
            [(Defect.SPELLING, "tlsClientConfig.insecure"), (Defect.AMBIGUOUS, "tlsClientConfig.insecure")],
        ),
        ('{"other": 1, "other": 2}', [(Defect.AMBIGUOUS, "")]),
        (
            '{"execProviderConfig": {"env": {"A": "1", "A": "2"}}}',
            [(Defect.AMBIGUOUS, "execProviderConfig.env")],
        ),
        # The long s and the Kelvin sign are letters that Go folds into s and k.
        (
            '{"pa\u017fsword": "a", "password": "b"}',
            [(Defect.SPELLING, "password"), (Defect.AMBIGUOUS, "password")],
        ),
        ('{"tlsClientConfig": {"\u212aeyData": ""}}', [(Defect.SPELLING, "tlsClientConfig.keyData")]),
    ],
)
def test_keys_that_go_takes_for_the_same_are_told(text: str, expected: object) -> None:
    assert problems(text) == expected


def test_a_sharp_s_is_no_double_s() -> None:
    assert cluster_config.read('{"pa\u00dfword": 7}').problems == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"tlsClientConfig": {"insecure": true, "caData": "YQ=="}}', (True, True)),
        ('{"TLSClientConfig": {"Insecure": true}}', (True, False)),
        ('{"tlsClientConfig": {"caData": []}}', (False, False)),
        ('{"tlsClientConfig": {"caData": ""}}', (False, False)),
    ],
)
def test_the_two_that_contradict_each_other_are_seen(text: str, expected: tuple[bool, bool]) -> None:
    config = cluster_config.read(text)
    assert (config.insecure, config.has_ca) == expected


@pytest.mark.parametrize(
    ("url", "scheme"),
    [
        ("http://p", "http"),
        ("HTTPS://p", "https"),
        ("ftp://p", "ftp"),
        ("proxy:3128", "proxy"),
        ("http://[", ""),
    ],
)
def test_the_scheme_of_the_proxy_is_seen(url: str, scheme: str) -> None:
    config = cluster_config.read(json.dumps({"proxyUrl": url}))
    assert (config.has_proxy, config.proxy_scheme) == (True, scheme)


def test_a_long_text_gives_few_problems() -> None:
    text = '{"execProviderConfig": {"args": [' + "7," * 200_000 + "7]}}"
    assert cluster_config.read(text).problems == (
        ConfigDefect(Defect.UNREADABLE, "execProviderConfig.args", "must be a string"),
    )


def test_no_credential_is_in_a_problem() -> None:
    texts = [
        json.dumps({"bearerToken": [SECRET]}),
        json.dumps({"tlsClientConfig": {"keyData": SECRET}}),
        '{"bearerToken": "' + SECRET,
        json.dumps({SECRET: 1})[:-1] + f', "{SECRET}": 2}}',
    ]
    for text in texts:
        read = cluster_config.read(text)
        assert read.problems
        assert SECRET not in repr(read)


def test_what_is_remembered_is_bounded_and_holds_no_credential() -> None:
    for number in range(2 * cluster_config._MAX_REMEMBERED):
        cluster_config.read(json.dumps({"bearerToken": f"{SECRET}-{number}"}))
    assert 0 < len(cluster_config._REMEMBERED) <= cluster_config._MAX_REMEMBERED
    assert SECRET not in repr(cluster_config._REMEMBERED)


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.text() | json_values.map(json.dumps))
def test_any_text_is_read(text: str) -> None:
    cluster_config.read(text)
