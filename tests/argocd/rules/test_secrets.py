import base64
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
import yaml

from argocd.engine.judge import judge
from argocd.judging.case import Case, Kind, Operation, Surroundings, User, kind_of
from argocd.judging.configuration import Configuration
from argocd.judging.neighbours import KnownCluster
from argocd.rules.catalogue import CATALOGUE
from argocd.settings.argocd_cm import Settings
from tests.argocd.cases import case_of
from tests.argocd.fake_neighbours import Neighbourhood, Nothing
from tests.argocd.rules.asking import RULES, ask, secret

GIT = "https://git.example.com/shop.git"
CANARY = "canary-4711-do-not-show"
OF_SECRETS = [rule.id for rule in CATALOGUE if rule.kinds & {Kind.REPOSITORY, Kind.CLUSTER}]


@pytest.mark.parametrize("key", ["insecure", "enableLfs", "useAzureWorkloadIdentity"])
@pytest.mark.parametrize("text", ["yes", "", "tRUE"])
def test_a_switch_that_go_cannot_read(key: str, text: str) -> None:
    (finding,) = ask("repository/boolean", secret("repository", url=GIT, **{key: text}))
    assert finding.path == f"data.{key}"
    assert not text or text not in finding.message


def test_templates_of_credentials_are_judged_by_their_own_keys() -> None:
    assert not ask("repository/boolean", secret("repo-creds", url=GIT, insecure="yes"))
    assert ask("repository/boolean", secret("repo-creds", url=GIT, enableOCI="yes"))
    assert not ask("repository/integer", secret("repo-creds", url=GIT, depth="deep"))
    assert ask("repository/integer", secret("repository", url=GIT, depth="deep"))


@pytest.mark.parametrize("kind", ["scm-creds", "unheard-of"])
def test_other_secrets_need_no_url_and_may_live_anywhere(kind: str) -> None:
    other = secret(kind, Token="x")
    other["metadata"]["namespace"] = "elsewhere"
    for rule in ("repository/url-missing", "secret/elsewhere", "secret/key-case"):
        assert not ask(rule, other)


def test_a_type_that_argo_cd_does_not_know_is_told() -> None:
    assert ask("secret/unknown-type", secret("repo"))
    assert not ask("secret/unknown-type", secret("scm-creds"))


def test_a_secret_in_a_file_without_a_namespace_is_not_elsewhere() -> None:
    here = secret("cluster", server="https://a")
    del here["metadata"]["namespace"]
    assert not ask("secret/elsewhere", here)


@pytest.mark.parametrize(
    ("kind", "values", "found"),
    [
        ("repository", {"type": "helm"}, 1),
        ("repository", {"type": "helm", "name": "charts"}, 0),
        ("repository", {"type": "git"}, 0),
        ("repo-creds", {"type": "helm"}, 0),
    ],
)
def test_a_helm_repository_has_a_name(kind: str, values: dict[str, str], found: int) -> None:
    assert len(ask("repository/helm-name", secret(kind, url=GIT, **values))) == found


def test_another_secret_for_the_same_repository_is_named() -> None:
    known = Neighbourhood(repositories=[("older", GIT, ""), ("shop", GIT, ""), ("scoped", GIT, "shop")])
    (finding,) = ask("repository/repeated", secret("repository", url=GIT), neighbours=known)
    assert finding.message.startswith("older describes")
    for quiet in (secret("repository"), secret("repo-creds", url=GIT)):
        assert not ask("repository/repeated", quiet, neighbours=known)
    assert not ask("repository/repeated", secret("repository", url=GIT), neighbours=Nothing())


@pytest.mark.parametrize(
    ("server", "found"),
    [("https://east:6443", 0), ("east:6443", 1), ("https://[", 1), ("ftp://east", 1), ("", 0)],
)
def test_a_server_is_a_url(server: str, found: int) -> None:
    assert len(ask("cluster/server-address", secret("cluster", server=server))) == found


def test_other_secrets_for_the_same_cluster_are_named() -> None:
    east = KnownCluster(server="https://east", name="east", secret="older")
    known = Neighbourhood(clusters=[east])
    twin = secret("cluster", server="https://east/", name="east")
    for rule in ("cluster/name-repeated", "cluster/server-repeated"):
        (finding,) = ask(rule, twin, neighbours=known)
        assert finding.message.startswith("older")
        assert not ask(rule, twin, neighbours=Nothing())
        assert not ask(rule, secret("cluster"), neighbours=known)
        itself = Neighbourhood(clusters=[KnownCluster(server="https://east", name="east", secret="shop")])
        assert not ask(rule, twin, neighbours=itself)


@pytest.mark.parametrize(
    ("rule", "config", "message"),
    [
        ("cluster/config-unreadable", "{", "the config is not JSON"),
        ("cluster/config-unreadable", '{"username": 7}', "username must be a string"),
        (
            "cluster/config-ambiguous",
            '{"username": "a", "Username": "b"}',
            "username stands there 2 times",
        ),
        ("cluster/config-spelling", '{"UserName": "b"}', "username is spelt UserName, should be username"),
    ],
)
def test_problems_of_a_config_are_told_one_by_one(rule: str, config: str, message: str) -> None:
    found = ask(rule, secret("cluster", server="https://a", config=config))
    assert [finding.message for finding in found] == [message]


def hostile_secrets() -> list[dict[str, Any]]:
    keys = [
        "url URL type name project insecure depth githubAppID server config shard clusterResources",
        "namespaces password sshPrivateKey",
    ]
    values = dict.fromkeys(" ".join(keys).split(), CANARY)
    config = f'{{"bearerToken": ["{CANARY}"], "tlsClientConfig": {{"keyData": "{CANARY}"}}, "proxyUrl": "{CANARY}"}}'
    kinds = ("repository", "repo-creds", "cluster", "scm-creds")
    plain = [secret(kind, **{**values, "config": text}) for kind in kinds for text in (CANARY, config)]
    encoded = [
        {
            **{key: value for key, value in one.items() if key != "stringData"},
            "data": {
                key: base64.b64encode(value.encode()).decode() for key, value in one["stringData"].items()
            },
        }
        for one in plain
    ]
    broken = [{**one, "data": dict.fromkeys(one["data"], CANARY)} for one in encoded]
    return [*plain, *encoded, *broken]


@pytest.mark.parametrize("rule", OF_SECRETS)
def test_no_value_of_a_secret_is_ever_told(rule: str) -> None:
    known = Neighbourhood(
        repositories=[("older", CANARY, CANARY)],
        clusters=[KnownCluster(server=CANARY, name=CANARY, secret="older")],
    )
    traces = (CANARY, base64.b64encode(CANARY.encode()).decode())
    for one in hostile_secrets():
        for finding in ask(rule, one, neighbours=known):
            told = f"{finding.path} {finding.message} {finding.hint}"
            assert not any(trace in told for trace in traces)


@pytest.mark.parametrize("rule", OF_SECRETS)
def test_a_file_with_plain_text_is_judged_like_what_the_api_server_stores(rule: str) -> None:
    example = list(yaml.safe_load_all(RULES[rule].bad))[-1]
    stored = case_of(RULES[rule].bad, rule=RULES[rule])
    plain = replace(stored, object=example)
    assert [one.finding.rule for one in judge(plain, today=date(2026, 9, 1))] == [
        one.finding.rule for one in judge(stored, today=date(2026, 9, 1))
    ]


@pytest.mark.parametrize("before", [None, "scm-creds", "repository"])
def test_a_secret_that_becomes_a_cluster_is_judged_whole(before: str | None) -> None:
    twice = '{"tlsClientConfig": {}, "TLSClientConfig": {}}'
    new = secret("cluster", server="https://east", config=twice)
    labels = {} if before is None else {"argocd.argoproj.io/secret-type": before}
    old = {**new, "metadata": {**new["metadata"], "labels": labels}}
    rules = {one.finding.rule for one in judge(case_between(old, new), today=date(2026, 9, 1))}
    assert "cluster/config-ambiguous" in rules
    again = {one.finding.rule for one in judge(case_between(new, new), today=date(2026, 9, 1))}
    assert "cluster/config-ambiguous" not in again


def case_between(old: dict[str, Any], new: dict[str, Any]) -> Case:
    return Case(
        kind=kind_of(new),
        object=new,
        old=old,
        operation=Operation.UPDATE,
        writer=User(user="ada"),
        surroundings=Surroundings(Settings(), Configuration(), Nothing()),
    )
