"""Certificates that are valid and yet must not be let in: keys of a ConfigMap, each a fingerprint.

argocd-agent's format: upper-case hex of the SHA-256 of the leaf's DER form, with empty values.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cryptography import x509

from certs.key_pair import fingerprint

_FINGERPRINT = re.compile(r"[0-9A-F]{64}")


@dataclass(frozen=True, slots=True)
class Blocklist:
    """`unreadable` are keys that block nothing because they are no fingerprints; somebody meant them to."""

    fingerprints: frozenset[str] = frozenset()
    unreadable: tuple[str, ...] = ()

    @classmethod
    def of(cls, config_map: Mapping[str, Any] | None) -> "Blocklist":
        """The list in a ConfigMap; an absent one blocks nobody."""
        data = (config_map or {}).get("data")
        keys = [str(key) for key in data] if isinstance(data, Mapping) else []
        readable = frozenset(key.upper() for key in keys if _FINGERPRINT.fullmatch(key.upper()))
        return cls(readable, tuple(key for key in keys if key.upper() not in readable))

    def blocks(self, certificate: x509.Certificate) -> bool:
        return bool(self.fingerprints) and fingerprint(certificate) in self.fingerprints
