"""Which keys Argo CD reads in its three ConfigMaps, and in which form."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from argocd import names
from argocd.judging.configuration import Version
from argocd.settings import argocd_cm_keys, command_parameter_keys

RBAC_TABLE = """
policy.csv
policy.*.csv
policy.default
policy.matchMode
scopes
"""

SECRET_KEYS = frozenset(
    {
        "admin.password",
        "admin.passwordMtime",
        "admin.tokens",
        "server.secretkey",
        "tls.crt",
        "tls.key",
        "webhook.azuredevops.password",
        "webhook.azuredevops.username",
        "webhook.bitbucket.uuid",
        "webhook.bitbucketserver.secret",
        "webhook.github.secret",
        "webhook.gitlab.secret",
        "webhook.gogs.secret",
    }
)
"""Read from the Secret argocd-secret, and nowhere else."""

_TABLES = {
    names.ARGOCD_CM: argocd_cm_keys.TABLE,
    names.ARGOCD_CMD_PARAMS_CM: command_parameter_keys.TABLE,
    names.ARGOCD_RBAC_CM: RBAC_TABLE,
}


@dataclass(frozen=True, slots=True)
class KnownKey:
    """`since` is the first release that reads it and `until` the last, where that is known; `form` its value's."""

    form: str = ""
    since: Version = ()
    until: Version = ()

    def is_read_by(self, version: Version) -> bool:
        return self.since <= version and (not self.until or version[:2] <= self.until)


@dataclass(frozen=True, slots=True)
class KeyTable:
    exact: Mapping[str, KnownKey]
    patterns: tuple[tuple[re.Pattern[str], KnownKey], ...]

    def find(self, key: str) -> KnownKey | None:
        found = self.exact.get(key)
        if found is not None:
            return found
        return next((known for pattern, known in self.patterns if pattern.fullmatch(key)), None)


@cache
def keys_of(config_map: str) -> KeyTable:
    """The table of one of the three ConfigMaps, made when it is asked for first; of another one, an empty one."""
    exact: dict[str, KnownKey] = {}
    patterns: list[tuple[re.Pattern[str], KnownKey]] = []
    for line in _TABLES.get(config_map, "").strip().splitlines():
        key, *rest = line.split()
        known = _known(rest)
        if "*" in key:
            # Kubernetes allows letters, digits, - _ and . in a key; only resource customizations and versions have dots.
            patterns.append((re.compile(re.escape(key).replace(r"\*", ".+")), known))
        else:
            exact[key] = known
    return KeyTable(exact, tuple(patterns))


def _known(words: list[str]) -> KnownKey:
    options = dict(word.split("=") for word in words if "=" in word)
    form = next((word for word in words if "=" not in word), "")
    return KnownKey(form, _version(options.get("since", "")), _version(options.get("until", "")))


def _version(text: str) -> Version:
    return tuple(int(part) for part in text.split(".") if part)


def home_of(key: str) -> str:
    """The object that Argo CD reads the key from, where there is one."""
    if key in SECRET_KEYS:
        return "Secret argocd-secret"
    found = next((name for name in _TABLES if key in keys_of(name).exact), "")
    return f"ConfigMap {found}" if found else ""
