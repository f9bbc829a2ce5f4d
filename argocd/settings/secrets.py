"""Repository and cluster secrets as Argo CD reads them.

`data` is base64; a file may have `stringData` too, which wins, as it does when the API server stores it.
Values stay inside: what leaves this module for a finding is the names of keys.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from argocd import names, reading
from argocd.go import strconv

SECRET_TYPES = frozenset(
    {
        names.SECRET_TYPE_CLUSTER,
        names.SECRET_TYPE_REPOSITORY,
        names.SECRET_TYPE_REPO_CREDS,
        names.SECRET_TYPE_REPOSITORY_WRITE,
        names.SECRET_TYPE_REPO_WRITE_CREDS,
        names.SECRET_TYPE_SCM_CREDS,
    },
)
CREDENTIAL_TEMPLATES = frozenset({names.SECRET_TYPE_REPO_CREDS, names.SECRET_TYPE_REPO_WRITE_CREDS})
"""Those whose URL is a prefix: they lend their credentials to repositories."""

_REPOSITORY_SECRETS = CREDENTIAL_TEMPLATES | {
    names.SECRET_TYPE_REPOSITORY,
    names.SECRET_TYPE_REPOSITORY_WRITE,
}

REPOSITORY_TYPES = frozenset({"git", "helm", "oci"})

INTEGERS = ("githubAppID", "githubAppInstallationID", "depth")
_TEMPLATE_INTEGERS = ("githubAppID", "githubAppInstallationID")
BOOLEANS = (
    "insecure",
    "insecureIgnoreHostKey",
    "enableLfs",
    "enableOCI",
    "insecureOCIForceHttp",
    "forceHttpBasicAuth",
    "useAzureWorkloadIdentity",
    "webhookManifestCacheWarmDisabled",
)
_TEMPLATE_BOOLEANS = ("enableOCI", "insecureOCIForceHttp", "forceHttpBasicAuth", "useAzureWorkloadIdentity")

_SHARED_KEYS = (
    "url",
    "type",
    "username",
    "password",
    "bearerToken",
    "sshPrivateKey",
    "tlsClientCertData",
    "tlsClientCertKey",
    "githubAppPrivateKey",
    "githubAppEnterpriseBaseUrl",
    "gcpServiceAccountKey",
    "proxy",
    "noProxy",
    "azureServicePrincipalClientSecret",
    "azureActiveDirectoryEndpoint",
)
# The two kinds of secret spell these two keys differently, and each ignores the other's spelling.
_REPOSITORY_KEYS = frozenset(
    {
        *_SHARED_KEYS,
        *BOOLEANS,
        *INTEGERS,
        "name",
        "project",
        "azureServicePrincipalClientId",
        "azureServicePrincipalTenantId",
    },
)
_TEMPLATE_KEYS = frozenset(
    {
        *_SHARED_KEYS,
        *_TEMPLATE_BOOLEANS,
        *_TEMPLATE_INTEGERS,
        "azureServicePrincipalClientID",
        "azureServicePrincipalTenantID",
    },
)
_CLUSTER_KEYS = frozenset(
    {"server", "name", "config", "namespaces", "clusterResources", "project", "shard"},
)


def describes_repository(secret: Mapping[str, Any]) -> bool:
    return secret_type(secret) in _REPOSITORY_SECRETS


def secret_type(secret: Mapping[str, Any]) -> str:
    return reading.text(secret, "metadata", "labels", names.SECRET_TYPE)


def keys(secret: Mapping[str, Any]) -> set[str]:
    every = {*reading.mapping(secret, "data"), *reading.mapping(secret, "stringData")}
    return {key for key in every if isinstance(key, str)}  # YAML allows others


def value(secret: Mapping[str, Any], key: str) -> str | None:
    """The decoded text; None where the key is absent or cannot be decoded."""
    plain = reading.mapping(secret, "stringData")
    if key in plain:
        found = plain[key]
        return found if isinstance(found, str) else None
    data = reading.mapping(secret, "data")
    if key not in data:
        return None
    encoded = data[key]
    if encoded is None:
        return ""
    decoded = strconv.base64(encoded) if isinstance(encoded, str) else None
    return None if decoded is None else decoded.decode(errors="replace")


def lacks(secret: Mapping[str, Any], key: str) -> bool:
    """Whether the key is absent or empty; one that cannot be decoded is there."""
    return key not in keys(secret) or value(secret, key) == ""


def undecodable(secret: Mapping[str, Any]) -> Iterator[str]:
    """The paths of values that no API server would take."""
    for key, encoded in reading.mapping(secret, "data").items():
        if encoded is not None and (not isinstance(encoded, str) or strconv.base64(encoded) is None):
            yield f"data.{key}"
    for key, plain in reading.mapping(secret, "stringData").items():
        if plain is not None and not isinstance(plain, str):
            yield f"stringData.{key}"


def boolean_keys(kind: str) -> tuple[str, ...]:
    return _TEMPLATE_BOOLEANS if kind in CREDENTIAL_TEMPLATES else BOOLEANS


def integer_keys(kind: str) -> tuple[str, ...]:
    return _TEMPLATE_INTEGERS if kind in CREDENTIAL_TEMPLATES else INTEGERS


def _known_keys(kind: str) -> frozenset[str]:
    if kind == names.SECRET_TYPE_CLUSTER:
        return _CLUSTER_KEYS
    return _TEMPLATE_KEYS if kind in CREDENTIAL_TEMPLATES else _REPOSITORY_KEYS


_BY_CASE = {
    kind: {key.lower(): key for key in _known_keys(kind)}
    for kind in (names.SECRET_TYPE_CLUSTER, *_REPOSITORY_SECRETS)
}


def misspelt_keys(secret: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Keys that Argo CD would read if their case were right, each with the spelling that it reads."""
    by_case = _BY_CASE.get(secret_type(secret), {})
    for key in sorted(keys(secret)):
        known = by_case.get(key.lower())
        if known is not None and key != known:
            yield key, known


def server(secret: Mapping[str, Any]) -> str:
    """A cluster's address the way Argo CD compares it."""
    return (value(secret, "server") or "").rstrip("/")
