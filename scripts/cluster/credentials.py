"""Throw-away keys of one local cluster: its authority, its server, its users, its service accounts."""

import base64
import datetime as dt
import ipaddress
import json
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = dt.timedelta(days=7)  # longer than anybody leaves `make cluster` running
CLOCK_SKEW = dt.timedelta(minutes=5)
SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


@dataclass(frozen=True, slots=True)
class Pair:
    certificate: bytes
    key: bytes


class Authority:
    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "local cluster")])
        now = dt.datetime.now(dt.UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(self._name)
            .issuer_name(self._name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - CLOCK_SKEW)
            .not_valid_after(now + LIFETIME)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = certificate.public_bytes(serialization.Encoding.PEM)

    def client(self, user: str, *, groups: tuple[str, ...] = (), expired: bool = False) -> Pair:
        """Kubernetes reads the user from the common name and the groups from the organizations."""
        subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject.append(x509.NameAttribute(NameOID.COMMON_NAME, user))
        return self._leaf(subject, ExtendedKeyUsageOID.CLIENT_AUTH, names=(), expired=expired)

    def server(self) -> Pair:
        subject = [x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")]
        return self._leaf(subject, ExtendedKeyUsageOID.SERVER_AUTH, names=SERVER_NAMES, expired=False)

    def _leaf(
        self,
        subject: list[x509.NameAttribute[str]],
        usage: x509.ObjectIdentifier,
        *,
        names: tuple[str, ...],
        expired: bool,
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        now = dt.datetime.now(dt.UTC)
        end = now - CLOCK_SKEW if expired else now + LIFETIME
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name(subject))
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 2 * CLOCK_SKEW)
            .not_valid_after(end)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        )
        if names:
            addresses = [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            alternatives = x509.SubjectAlternativeName([*(x509.DNSName(name) for name in names), *addresses])
            builder = builder.add_extension(alternatives, critical=False)
        return Pair(
            builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM), _pem(key)
        )


class TokenSigner:
    """The key of service account tokens; the API server signs with it, and tests can too."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.key = _pem(self._key)

    def sign(self, claims: dict[str, object]) -> str:
        head = _base64url(json.dumps({"alg": "ES256", "typ": "JWT"}).encode())
        signed = f"{head}.{_base64url(json.dumps(claims).encode())}"
        r, s = utils.decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{_base64url(r.to_bytes(32) + s.to_bytes(32))}"


def write_private(path: Path, content: bytes) -> Path:
    path.touch(mode=0o600)
    path.write_bytes(content)
    return path


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    # The form from which kube-apiserver also reads the public half.
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _base64url(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
