"""A certificate authority of our own and the leaves that it signs; no I/O, the clock is the caller's."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs.key_pair import CertificateError, KeyPair

AUTHORITY_LIFETIME = timedelta(days=365)
LEAF_LIFETIME = timedelta(days=7)
"""Short, so that renewal is exercised every week instead of failing first after a year."""

RSA_BITS = 3072
"""As strong as P-256 by NIST's tables; 4096 would only be slower."""

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

BACKDATING = timedelta(hours=1)
"""An API server whose clock lags behind ours must not find a new leaf "not yet valid"."""


class KeyType(StrEnum):
    # P-256: a handshake costs half of RSA's and every API server speaks it.
    EC = "ec"
    RSA = "rsa"

    def generate(self) -> PrivateKey:
        if self is KeyType.RSA:
            return rsa.generate_private_key(public_exponent=65537, key_size=RSA_BITS)
        return ec.generate_private_key(ec.SECP256R1())


@dataclass(frozen=True, slots=True)
class LeafSubject:
    """Whom a leaf names: one common name, and the names under which it is dialled."""

    common_name: str
    dns_names: Sequence[str] = ()
    addresses: Sequence[str] = ()
    uris: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Authority:
    """A CA certificate that can sign; build it with `create` or `from_pair`."""

    pair: KeyPair
    certificate: x509.Certificate
    key: PrivateKey

    def __repr__(self) -> str:
        return f"Authority({self.certificate.subject.rfc4514_string()})"

    @classmethod
    def create(
        cls,
        common_name: str,
        *,
        now: datetime,
        lifetime: timedelta = AUTHORITY_LIFETIME,
        key_type: KeyType = KeyType.EC,
    ) -> Self:
        key = key_type.generate()
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        certificate = (
            _builder(name, key.public_key(), issuer=name, now=now, lifetime=lifetime)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(pair=_pair(certificate, key), certificate=certificate, key=key)

    @classmethod
    def from_pair(cls, pair: KeyPair, *, origin: str) -> Self:
        certificate = pair.leaf
        key = serialization.load_pem_private_key(pair.key, password=None)
        try:
            constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
        except x509.ExtensionNotFound:
            constraints = x509.BasicConstraints(ca=False, path_length=None)
        if not constraints.ca:
            raise CertificateError(
                f"{origin}: the certificate is not an authority (basicConstraints CA is missing)"
            )
        if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
            raise CertificateError(f"{origin}: the key cannot sign certificates; use an EC or RSA key")
        return cls(pair=pair, certificate=certificate, key=key)

    def issue(
        self,
        subject: LeafSubject,
        *,
        now: datetime,
        lifetime: timedelta = LEAF_LIFETIME,
        server: bool = True,
        client: bool = False,
        key_type: KeyType = KeyType.EC,
    ) -> KeyPair:
        """A leaf that never outlives its authority; `server` and `client` are its extended key usages."""
        key = key_type.generate()
        lifetime = min(lifetime, self.certificate.not_valid_after_utc - now)
        names: list[x509.GeneralName] = [
            *(x509.DNSName(name) for name in subject.dns_names),
            *(x509.IPAddress(ipaddress.ip_address(address)) for address in subject.addresses),
            *(x509.UniformResourceIdentifier(uri) for uri in subject.uris),
        ]
        usages = [
            *([ExtendedKeyUsageOID.SERVER_AUTH] if server else []),
            *([ExtendedKeyUsageOID.CLIENT_AUTH] if client else []),
        ]
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject.common_name)])
        builder = (
            _builder(name, key.public_key(), issuer=self.certificate.subject, now=now, lifetime=lifetime)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.certificate.public_key()),  # type: ignore[arg-type]
                critical=False,
            )
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return _pair(builder.sign(self.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name,
    public: ec.EllipticCurvePublicKey | rsa.RSAPublicKey,
    *,
    issuer: x509.Name,
    now: datetime,
    lifetime: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATING)
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pair(certificate: x509.Certificate, key: PrivateKey) -> KeyPair:
    return KeyPair(
        certificate=certificate.public_bytes(serialization.Encoding.PEM),
        key=key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )
