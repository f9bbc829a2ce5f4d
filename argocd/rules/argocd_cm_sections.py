"""argocd-cm: values that are small documents of their own: single sign-on, customizations, local accounts."""

from collections.abc import Iterator
from functools import partial

from argocd.go import strconv
from argocd.judging.case import Action, Case, Finding, Kind, Profile, Rule
from argocd.rules import examples
from argocd.rules.config_map_data import at, changed_texts, first
from argocd.settings import customizations, sso, value_forms

CAPABILITIES = ("login", "apiKey")


def _dex(case: Case) -> Iterator[Finding]:
    for key, text in changed_texts(case):
        if key == "dex.config":
            for problem in sso.dex_problems(text):
                yield Finding(
                    "settings/dex", at(key), problem, "Compare with Dex's documentation of the connector."
                )


def _oidc(case: Case) -> Iterator[Finding]:
    for key, text in changed_texts(case):
        if key == "oidc.config":
            for problem in sso.oidc_problems(text):
                yield Finding("settings/oidc", at(key), problem, "Correct the value.")


def _customization(case: Case) -> Iterator[Finding]:
    for key, text in changed_texts(case):
        if key == customizations.PREFIX:
            problems = customizations.whole_problems(text)
        elif key.startswith(f"{customizations.PREFIX}."):
            problems = customizations.split_key_problems(key, text)
        else:
            continue
        for problem in problems:
            hint = f"Write {customizations.PREFIX}.TYPE.GROUP_KIND with a value of that type."
            yield Finding("settings/customization", at(key), problem, hint)


def _account(case: Case) -> Iterator[Finding]:
    for key, text in changed_texts(case):
        if key.startswith("accounts."):
            for problem, hint in _account_problems(key.split("."), text):
                yield Finding("settings/account", at(key), problem, hint)


def _account_problems(parts: list[str], text: str) -> Iterator[tuple[str, str]]:
    _, name, *suffix = parts
    if not suffix:
        for capability in (part.strip() for part in text.split(",")):
            if capability and capability not in CAPABILITIES:
                yield (
                    f"Argo CD has no capability {value_forms.shown(capability)} and passes it over",
                    f"Use {' or '.join(CAPABILITIES)}.",
                )
    elif suffix != ["enabled"]:
        yield (
            f"of the account {value_forms.shown(name)} Argo CD reads accounts.NAME and accounts.NAME.enabled alone",
            "Use a name without dots; passwords and tokens belong into the Secret argocd-secret.",
        )
    elif strconv.boolean(text) is None:
        yield (
            f"{value_forms.shown(text)} is neither true nor false: no account can log in",
            strconv.BOOLEAN_HINT,
        )


_rule = partial(
    Rule,
    kinds=frozenset({Kind.ARGOCD_CM}),
    profile=Profile.RECOMMENDED,
    action=Action.DENY,
    reads=("data",),
)

_URL = "url: https://argocd.example.com\n"
_DEX = _URL + "dex.config: |\n  connectors:\n  - {{type: github, id: github, name: GitHub{config}}}\n"
_OIDC = _URL + "oidc.config: |\n  issuer: {issuer}\n  clientID: argocd\n"

RULES: tuple[Rule, ...] = (
    _rule(
        id="settings/dex",
        title="Dex can be started with dex.config",
        explanation=(
            "Argo CD reads dex.config, adds its own address to the connectors and starts Dex with the result. Without "
            "a list of connectors, or with one that lacks its type or config, that fails and nobody can log in."
        ),
        bad=examples.argocd_cm(_DEX.format(config="")),
        good=examples.argocd_cm(_DEX.format(config=", config: {clientID: a}")),
        check=lambda case: first(_dex(case)),
    ),
    _rule(
        id="settings/oidc",
        title="oidc.config can be read",
        explanation=(
            "A value of a wrong type makes all of oidc.config unreadable, and single sign-on is off with a line in the "
            "log. The issuer is a URL."
        ),
        bad=examples.argocd_cm(_OIDC.format(issuer="id.example.com")),
        good=examples.argocd_cm(_OIDC.format(issuer="https://id.example.com")),
        check=lambda case: first(_oidc(case)),
    ),
    _rule(
        id="settings/customization",
        title="Customizations of resources can be read",
        explanation=(
            "The key is resource.customizations.TYPE.GROUP_KIND, where TYPE is health, actions, ignoreDifferences, "
            "ignoreResourceUpdates, knownTypeFields or useOpenLibs and `all` means every kind. One that cannot be read "
            "makes Argo CD unable to read all of them."
        ),
        bad=examples.argocd_cm(
            "resource.customizations.ignoreDiff.apps_Deployment: 'jsonPointers: [/spec/replicas]'"
        ),
        good=examples.argocd_cm(
            "resource.customizations.ignoreDifferences.apps_Deployment: 'jsonPointers: [/spec/replicas]'"
        ),
        check=lambda case: first(_customization(case)),
    ),
    _rule(
        id="settings/account",
        title="Local accounts have capabilities that exist",
        explanation=(
            "`accounts.NAME: apiKey, login` makes an account, `accounts.NAME.enabled: 'false'` switches it off. Other "
            "capabilities are passed over, and a name with a dot makes no account."
        ),
        bad=examples.argocd_cm("accounts.ci: apikey"),
        good=examples.argocd_cm("accounts.ci: apiKey"),
        check=lambda case: first(_account(case)),
    ),
)
