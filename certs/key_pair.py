"""A certificate with its key, and everything that can be wrong with the two."""

import re
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from tiphys.errors import SurroundingsError

_PEM_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\n?", re.DOTALL)


class CertificateError(SurroundingsError):
    """A certificate, key or bundle that must not be served; the line says which and why."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """PEM as it stands in a Secret or a folder: leaf first in the chain. The key never shows in a repr."""

    certificate: bytes
    key: bytes = field(repr=False)

    @property
    def leaf(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.certificate)

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.leaf)

    @classmethod
    def checked(cls, *, certificate: bytes, key: bytes, origin: str) -> Self:
        """Refuse what does not parse or does not belong together; `origin` names the file or Secret."""
        try:
            leaf = x509.load_pem_x509_certificate(certificate)
        except ValueError as error:
            raise CertificateError(f"{origin}: the certificate is not PEM: write a whole tls.crt") from error
        try:
            private = serialization.load_pem_private_key(key, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise CertificateError(
                f"{origin}: the key is not an unencrypted PEM key: write a whole tls.key"
            ) from error
        if _public(private) != leaf.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        ):
            raise CertificateError(
                f"{origin}: the certificate does not belong to the key: replace both together"
            )
        return cls(certificate=certificate, key=key)

    def check_valid(self, *, now: datetime, origin: str) -> None:
        leaf = self.leaf
        if now >= leaf.not_valid_after_utc:
            raise CertificateError(
                f"{origin}: the certificate expired at {leaf.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}"
            )
        if now < leaf.not_valid_before_utc:
            raise CertificateError(
                f"{origin}: the certificate is not valid before {leaf.not_valid_before_utc:%Y-%m-%dT%H:%M:%SZ}; check the clock"
            )


@dataclass(frozen=True, slots=True)
class Material:
    """Our own certificate with its key, if we show one, and the authorities that the other end must come from."""

    pair: KeyPair | None
    roots: bytes


def _public(key: PrivateKeyTypes) -> bytes:
    return key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of the DER form, upper-case hex: the form in which argocd-agent's blocklist names leaves."""
    return certificate.fingerprint(hashes.SHA256()).hex().upper()


def due(certificate: x509.Certificate) -> datetime:
    """When two thirds of its life are over: time enough to notice and repair a renewal that fails."""
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return begin + (end - begin) * 2 / 3


def split_bundle(bundle: bytes) -> list[bytes]:
    """The certificates of a bundle, each as PEM; text between them is dropped."""
    return [found if found.endswith(b"\n") else found + b"\n" for found in _PEM_CERTIFICATE.findall(bundle)]


def checked_bundle(bundle: bytes, *, origin: str) -> bytes:
    """Without any authority in it, whoever dials would believe those that its machine knows."""
    if not _certificates(bundle):
        raise CertificateError(f"{origin} has no certificate in PEM")
    return bundle


def trusted(bundle: bytes, *, now: datetime) -> list[x509.Certificate]:
    """The certificates of a bundle that are readable and not expired."""
    return [certificate for certificate in _certificates(bundle) if now < certificate.not_valid_after_utc]


def _certificates(bundle: bytes) -> list[x509.Certificate]:
    found = []
    for pem in split_bundle(bundle):
        with suppress(ValueError):
            found.append(x509.load_pem_x509_certificate(pem))
    return found


def verifies(bundle: bytes, leaf: x509.Certificate, *, now: datetime) -> bool:
    """Whether a certificate of the bundle signed the leaf directly, as ours always do."""
    for certificate in trusted(bundle, now=now):
        try:
            leaf.verify_directly_issued_by(certificate)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return True
    return False
