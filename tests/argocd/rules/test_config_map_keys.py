"""Keys and values of Argo CD's three ConfigMaps."""

from typing import Any

import pytest

from argocd.judging.configuration import ArgoCD, Configuration
from argocd.rules.config_map_data import MOST_TOLD
from tests.argocd.rules.asking import argocd_cm, ask, config_map


def keys(rule: str, name: str, old: dict[str, Any] | None = None, /, **data: Any) -> list[str]:
    before = config_map(name, **old) if old is not None else None
    return [found.path[5:-1] for found in ask(rule, config_map(name, **data), old=before)]


def test_what_is_no_text_is_refused_in_all_three() -> None:
    data = {"a": True, "b": 1, "c": [1], "d": {"e": "f"}, "g": "text", "h": None}
    for name in ("argocd-cm", "argocd-rbac-cm", "argocd-cmd-params-cm"):
        assert keys("settings/value-type", name, **data) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("name", "key", "said"),
    [
        ("argocd-cm", "timeout.reconcilation", "did you mean timeout.reconciliation?"),
        ("argocd-cm", "helm.enabled", "did you mean helm.enable?"),
        ("argocd-cm", "resource.customization", "did you mean resource.customizations?"),
        ("argocd-cm", "policy.default", "from the ConfigMap argocd-rbac-cm"),
        ("argocd-cm", "server.insecure", "from the ConfigMap argocd-cmd-params-cm"),
        ("argocd-cm", "webhook.github.secret", "from the Secret argocd-secret"),
        ("argocd-cm", "repositories", "up to 2.14, and no longer"),
        ("argocd-cmd-params-cm", "server.insecur", "did you mean server.insecure?"),
        ("argocd-cmd-params-cm", "timeout.reconciliation", "from the ConfigMap argocd-cm"),
        ("argocd-cmd-params-cm", "server.login.attempts.expiration", "up to 3.0, and no longer"),
        ("argocd-rbac-cm", "policy.matchmode", "did you mean policy.matchMode?"),
        ("argocd-rbac-cm", "policy-csv", "did you mean policy.csv?"),
    ],
)
def test_a_key_that_is_not_read_is_named_with_what_was_meant(name: str, key: str, said: str) -> None:
    [found] = ask("settings/unknown-key", config_map(name, **{key: "x"}))
    assert found.path == f"data[{key}]"
    assert said in found.message


def test_a_key_may_come_with_a_later_release() -> None:
    older = Configuration(argocd=ArgoCD(version=(3, 2)))
    [found] = ask("settings/unknown-key", argocd_cm(**{"commit.author.name": "x"}), configuration=older)
    assert "since 3.4, and not before" in found.message
    assert not ask("settings/unknown-key", argocd_cm(**{"commit.author.name": "x"}))


def test_an_unknown_field_of_oidc_is_named() -> None:
    text = "issuer: https://id.example.com\nclientid: a\nrequestedScope: [groups]"
    [found] = ask("settings/unknown-key", argocd_cm(**{"oidc.config": text}))
    assert found.message == "'requestedScope' is no field of oidc.config, did you mean requestedScopes?"


def test_a_key_of_which_another_rule_speaks_is_left_to_it() -> None:
    assert not keys("settings/unknown-key", "argocd-cm", trackingMethod="annotation")


@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        ("users.session.duration", "24h", "1d12h"),
        ("timeout.reconciliation", "0", "180"),
        ("server.maxPodLogsToRender", "10", "ten"),
        ("resource.respectRBAC", "strict", "strickt"),
        ("url", "https://argocd.example.com", "argocd.example.com"),
        ("passwordPattern", "^.{8,}$", "^(.{8,}$"),
        ("admin.enabled", "False", "no"),
    ],
)
def test_a_value_that_cannot_be_read_is_refused(key: str, good: str, bad: str) -> None:
    assert keys("settings/value", "argocd-cm", **{key: good}) == []
    assert keys("settings/value", "argocd-cm", **{key: bad}) == [key]


@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        ("server.insecure", "True", "1"),
        ("controller.status.processors", "50", "-1"),
        ("server.webhook.parallelism.limit", "1000", "1001"),
        ("reposerver.git.request.timeout", "30s", "30"),
        ("controller.log.level", "warn", "verbose"),
        ("redis.compression", "none", "zstd"),
        ("otlp.headers", "a=b", "a"),
        ("reposerver.tls.minversion", "1.3", "TLS1.3"),
    ],
)
def test_a_parameter_that_cannot_be_read_is_refused(key: str, good: str, bad: str) -> None:
    assert keys("parameters/value", "argocd-cmd-params-cm", **{key: good}) == []
    assert keys("parameters/value", "argocd-cmd-params-cm", **{key: bad}) == [key]


def test_an_update_answers_for_the_entries_that_it_changes() -> None:
    old = {"typo.key": "x", "url": "nowhere", "exec.shells": 1}
    for rule in ("settings/unknown-key", "settings/value", "settings/value-type"):
        assert keys(rule, "argocd-cm", old, **old, installationID="a") == []
    assert keys("settings/value", "argocd-cm", old, **{**old, "url": "still nowhere"}) == ["url"]


def test_of_very_many_unknown_keys_the_first_are_told() -> None:
    many = {f"unknown.{number}": "x" for number in range(5000)}
    assert len(keys("settings/unknown-key", "argocd-cm", **many)) == MOST_TOLD


@pytest.mark.parametrize("key", ["dex.config", "oidc.config"])
def test_single_sign_on_needs_a_url(key: str) -> None:
    assert keys("settings/sso-url", "argocd-cm", **{key: "a: b"}) == [key]
    assert keys("settings/sso-url", "argocd-cm", **{key: "a: b", "url": "https://argocd.example.com"}) == []
    assert keys("settings/sso-url", "argocd-cm", **{key: ""}) == []
