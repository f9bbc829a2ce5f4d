"""Single sign-on, customizations and accounts in argocd-cm."""

import pytest

from tests.argocd.rules.asking import argocd_cm, ask


def messages(rule: str, key: str, text: str) -> list[str]:
    found = ask(rule, argocd_cm(**{key: text}))
    assert all(one.path == f"data[{key}]" for one in found)
    return [one.message for one in found]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", []),
        ("connectors:\n- {type: github, config: {clientID: a}}\n- {type: ldap}", []),
        ("connectors: [", ["no YAML: line "]),
        ("- a", ["no YAML mapping"]),
        ("connector: []", ["connectors is no list, and Dex is not started"]),
        ("connectors: [{id: a}, 3]", ["connectors[0] has no type", "connectors[1] has no type"]),
        ("connectors: [{type: oidc}]", ["connectors[0] of type 'oidc' has no config"]),
    ],
)
def test_dex_is_started_with_connectors(text: str, said: list[str]) -> None:
    found = messages("settings/dex", "dex.config", text)
    assert len(found) == len(said)
    assert all(one.startswith(beginning) for one, beginning in zip(found, said, strict=True))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", []),
        ("issuer: https://id.example.com\nclientID: a\nclientSecret: $oidc.secret", []),
        ("ISSUER: https://id.example.com\nclientid: a", []),
        ("issuer: id.example.com\nclientID: a", ["issuer 'id.example.com' is no URL"]),
        ("issuer: https://id.example.com\nclientID: 7", ["clientID is not text"]),
        ("issuer: https://id.example.com", ["clientID is missing"]),
        (
            "{issuer: https://a, clientID: a, requestedScopes: groups, enableUserInfoGroups: 'true'}",
            ["requestedScopes is not a list of texts", "enableUserInfoGroups is not true or false"],
        ),
        (
            "{issuer: https://a, clientID: a, userInfoCacheExpiration: 5}",
            ["userInfoCacheExpiration is not text"],
        ),
        (
            "{issuer: https://a, clientID: a, userInfoCacheExpiration: 5min}",
            ["userInfoCacheExpiration '5min' is no"],
        ),
        ("issuer: [", ["no YAML"]),
    ],
)
def test_oidc_is_read_with_the_types_of_its_fields(text: str, said: list[str]) -> None:
    found = messages("settings/oidc", "oidc.config", text)
    assert len(found) == len(said), found
    assert all(one.startswith(beginning) for one, beginning in zip(found, said, strict=True))


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("health.apps_Deployment", "hs = {}", ""),
        ("ignoreDifferences.all", "jsonPointers: [/spec/replicas]", ""),
        ("ignoreDifferences.apps_Deployment", "jsonPointer: [/a]", "did you mean jsonPointers?"),
        ("ignoreDifferences.apps_Deployment", "jsonPointers: /a", "jsonPointers is no list of texts"),
        ("ignoreDifferences.apps_Deployment", "- /a", "no YAML mapping"),
        ("ignoreResourceUpdates.all", "jsonPointers: [", "no YAML"),
        ("useOpenLibs.apps_Deployment", "yes", "neither true nor false"),
        ("knownTypeFields.a_B", "field: x", "no YAML list"),
        ("actions.apps_Deployment", "definitions: {}", "definitions is no list"),
        ("healths.apps_Deployment", "x", "did you mean health?"),
        ("health.a_b_C", "x", "more than one _"),
        ("health", "x", "names no kind"),
    ],
)
def test_a_customization_in_a_key_of_its_own(key: str, text: str, said: str) -> None:
    found = messages("settings/customization", f"resource.customizations.{key}", text)
    assert bool(found) == bool(said)
    assert all(said in one for one in found)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "apps/Deployment:\n  health.lua: |\n    hs = {}\n  ignoreDifferences: |\n    jsonPointers: [/a]",
            "",
        ),
        ("apps/Deployment:\n  ignoreDifferences: {jsonPointers: [/a]}", "ignoreDifferences is no text"),
        ("apps/Deployment: {health: x}", "'health' is no customization"),
        ("apps/Deployment: x", "'apps/Deployment' holds no mapping"),
        ("- a", "no YAML mapping"),
    ],
)
def test_customizations_in_one_text(text: str, said: str) -> None:
    found = messages("settings/customization", "resource.customizations", text)
    assert bool(found) == bool(said)
    assert all(said in one for one in found)


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("accounts.ci", "apiKey, login", ""),
        ("accounts.ci", "", ""),
        ("accounts.ci", "apiKey, Login", "no capability 'Login'"),
        ("accounts.ci.enabled", "false", ""),
        ("accounts.ci.enabled", "off", "neither true nor false"),
        ("accounts.ci.password", "x", "accounts.NAME and accounts.NAME.enabled alone"),
        ("accounts.ci.bot.enabled", "true", "accounts.NAME and accounts.NAME.enabled alone"),
    ],
)
def test_an_account_has_capabilities_that_exist(key: str, text: str, said: str) -> None:
    found = messages("settings/account", key, text)
    assert bool(found) == bool(said)
    assert all(said in one for one in found)
