"""`dex.config` and `oidc.config` of argocd-cm: what Argo CD and Dex trip over."""

from collections.abc import Iterator, Mapping
from typing import Any

from argocd import charged_yaml
from argocd.settings import value_forms
from argocd.spelling import did_you_mean

REDIRECTED = frozenset(
    {
        "oidc",
        "saml",
        "microsoft",
        "linkedin",
        "gitlab",
        "github",
        "bitbucket-cloud",
        "openshift",
        "gitea",
        "google",
        "oauth",
    }
)
"""Connectors of Dex that Argo CD writes its own address into, so that they need a `config`."""

_TEXT, _SWITCH, _TEXTS, _MAPPING = "text", "true or false", "a list of texts", "a mapping"
OIDC_FIELDS: Mapping[str, str] = {
    "name": _TEXT,
    "issuer": _TEXT,
    "clientID": _TEXT,
    "clientSecret": _TEXT,
    "cliClientID": _TEXT,
    "enableUserInfoGroups": _SWITCH,
    "userInfoBaseURL": _TEXT,
    "userInfoPath": _TEXT,
    "userInfoCacheExpiration": _TEXT,
    "requestedScopes": _TEXTS,
    "requestedIDTokenClaims": _MAPPING,
    "logoutURL": _TEXT,
    "rootCA": _TEXT,
    "enablePKCEAuthentication": _SWITCH,
    "domainHint": _TEXT,
    "azure": _MAPPING,
    "refreshTokenThreshold": _TEXT,
    "allowedAudiences": _TEXTS,
    "skipAudienceCheckWhenTokenHasNoAudience": _SWITCH,
}
"""Go finds a field whatever the case of its letters."""
_OIDC_BY_FOLDED = {name.lower(): name for name in OIDC_FIELDS}
_OIDC_URLS = ("issuer", "userInfoBaseURL")
_OIDC_DURATIONS = ("userInfoCacheExpiration", "refreshTokenThreshold")


def dex_problems(text: str) -> Iterator[str]:
    loaded, problem = _mapping(text)
    if problem or not loaded:
        yield from filter(None, [problem])
        return
    connectors = loaded.get("connectors")
    if not isinstance(connectors, list):
        yield "connectors is no list, and Dex is not started"
        return
    for index, connector in enumerate(connectors):
        kind = connector.get("type") if isinstance(connector, Mapping) else None
        if not isinstance(kind, str):
            yield f"connectors[{index}] has no type, and Dex is not started"
        elif kind in REDIRECTED and not isinstance(connector.get("config"), Mapping):
            yield f"connectors[{index}] of type {value_forms.shown(kind)} has no config, and Dex is not started"


def oidc_problems(text: str) -> Iterator[str]:
    loaded, problem = _mapping(text)
    if problem:
        yield problem
    fields = {_OIDC_BY_FOLDED.get(str(name).lower(), ""): value for name, value in loaded.items()}
    for name, value in fields.items():
        if name and value is not None and not _fits(OIDC_FIELDS[name], value):
            yield f"{name} is not {OIDC_FIELDS[name]}, and Argo CD cannot read the whole value"
    for form, names in (("url", _OIDC_URLS), ("duration", _OIDC_DURATIONS)):
        for name in names:
            value = fields.get(name)
            if isinstance(value, str) and (wrong := value_forms.problem(form, value)):
                yield f"{name} {value_forms.shown(value)} {wrong}"
    if loaded and not problem:
        for name in ("issuer", "clientID"):
            if fields.get(name) in (None, ""):
                yield f"{name} is missing, and nobody can log in"


def unknown_oidc_fields(text: str) -> Iterator[str]:
    loaded, _ = _mapping(text)
    for name in loaded:
        if str(name).lower() not in _OIDC_BY_FOLDED:
            yield f"{value_forms.shown(str(name))} is no field of oidc.config{did_you_mean(name, OIDC_FIELDS)}"


def _mapping(text: str) -> tuple[Mapping[Any, Any], str]:
    try:
        loaded = charged_yaml.load(text)
    except charged_yaml.YamlError as error:
        return {}, f"no YAML: {error}"
    if loaded is None or isinstance(loaded, Mapping):
        return loaded or {}, ""
    return {}, "no YAML mapping"


def _fits(wanted: str, value: Any) -> bool:
    if wanted == _TEXT:
        return isinstance(value, str)
    if wanted == _SWITCH:
        return isinstance(value, bool)
    if wanted == _TEXTS:
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    return isinstance(value, Mapping)
