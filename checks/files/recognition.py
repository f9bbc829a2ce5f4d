"""What a document or a broken file is, as far as `check` must know before it judges."""

import re
from collections.abc import Mapping
from typing import Any

from argocd import reading
from checks.files.reasons import Reason

_ENCRYPTED = "ENC[AES256_GCM,"
_SECRET_SOURCES = frozenset(
    {
        ("bitnami.com", "SealedSecret"),
        ("external-secrets.io", "ClusterExternalSecret"),
        ("external-secrets.io", "ExternalSecret"),
        ("external-secrets.io", "PushSecret"),
        ("isindir.github.com", "SopsSecret"),
        ("secrets.hashicorp.com", "VaultDynamicSecret"),
        ("secrets.hashicorp.com", "VaultStaticSecret"),
    }
)
"""Group and kind of what becomes a Secret only in the cluster."""

_ARGOCD = re.compile(
    rb"argocd\.argoproj\.io/secret-type"
    rb"|\bname[\"']?\s*:\s*[\"']?argocd-(?:cm|rbac-cm|cmd-params-cm)\b"
    rb"|\bkind[\"']?\s*:\s*[\"']?(?:Application|ApplicationSet|AppProject)\b"
)
_ARGOCD_GROUP = re.compile(rb"argoproj\.io/|argocd-(?:cm|rbac-cm|cmd-params-cm)\b")
_STATEMENT = re.compile(
    rb"\{%|\{\{-?\s*(?:/\*|\.(?:Values|Release|Chart|Capabilities|Files)\b"
    rb"|(?:if|else|end|range|with|define|include|template|block|required|tpl)\b)"
)
"""Of Helm and Jinja: what no ApplicationSet has outside of its texts."""
_UNQUOTED = re.compile(rb"(?::|^|-)[ \t]+\{\{", re.MULTILINE)
"""Where only an ApplicationSet could be meant to have it, and forgot the quotes."""


def is_object(body: Mapping[str, Any]) -> bool:
    """Whether it is meant to be one; values, lock files and the like are not."""
    return "kind" in body or ("apiVersion" in body and "metadata" in body)


def holds_argocd_object(data: bytes) -> bool:
    """By its looks: it could not be read."""
    return _ARGOCD.search(data) is not None and _ARGOCD_GROUP.search(data) is not None


def broken_as(data: bytes) -> Reason | None:
    """Why a file that cannot be read may be left alone; None where it must be told."""
    if _STATEMENT.search(data) or (_UNQUOTED.search(data) and b"ApplicationSet" not in data):
        return Reason.TEMPLATE
    if holds_argocd_object(data):
        return None
    return Reason.TEMPLATE if b"{{" in data else Reason.NO_MANIFEST


class Recognition:
    """Of one file's documents: `text` tells what need not be looked for."""

    def __init__(self, text: str) -> None:
        self._patches = "$patch" in text
        self._encrypted = _ENCRYPTED in text

    def reason_of(self, body: Mapping[str, Any]) -> Reason | None:
        """Why a document is no whole object that can be judged."""
        if not is_object(body):
            return Reason.NO_MANIFEST
        group = reading.text(body, "apiVersion").rpartition("/")[0]
        if (group, reading.text(body, "kind")) in _SECRET_SOURCES:
            return Reason.SEALED
        if self._patches and _has_key(body, "$patch"):
            return Reason.PATCH
        if isinstance(body.get("sops"), Mapping) or (self._encrypted and _has_encrypted(body)):
            return Reason.ENCRYPTED
        return None


def _has_key(value: Any, key: str) -> bool:
    if isinstance(value, Mapping):
        return key in value or any(_has_key(one, key) for one in value.values())
    return isinstance(value, list) and any(_has_key(one, key) for one in value)


def _has_encrypted(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_encrypted, value.values()))
    if isinstance(value, list):
        return any(map(_has_encrypted, value))
    return isinstance(value, str) and value.startswith(_ENCRYPTED)
