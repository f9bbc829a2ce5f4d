"""Throw-away certificates with any subject and any fault, made faster than they are read."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from certs.key_pair import KeyPair

CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH
SERVER = ExtendedKeyUsageOID.SERVER_AUTH

OIDS = {
    "CN": NameOID.COMMON_NAME,
    "SERIALNUMBER": NameOID.SERIAL_NUMBER,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "O": NameOID.ORGANIZATION_NAME,
    "POSTALCODE": NameOID.POSTAL_CODE,
    "STREET": NameOID.STREET_ADDRESS,
    "L": NameOID.LOCALITY_NAME,
    "ST": NameOID.STATE_OR_PROVINCE_NAME,
    "C": NameOID.COUNTRY_NAME,
    "EMAIL": NameOID.EMAIL_ADDRESS,
    "TITLE": NameOID.TITLE,
    "OWN": ObjectIdentifier("1.2.3.4"),
}


def name(*parts: tuple[str, str] | list[tuple[str, str]]) -> x509.Name:
    """("CN", "a") is one attribute; a list of such is one set with several values."""
    return x509.Name(
        x509.RelativeDistinguishedName(
            [
                x509.NameAttribute(OIDS[kind], value, _ASN1Type.UTF8String, _validate=False)
                for kind, value in (part if isinstance(part, list) else [part])
            ]
        )
        for part in parts
    )


@dataclass(frozen=True)
class Issued:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def pair(self, *chain: "Issued") -> KeyPair:
        key = self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return KeyPair(b"".join(issued.pem for issued in (self, *chain)), key)


def issue(
    subject: x509.Name | str,
    issuer: Issued | None = None,
    *,
    authority: bool = False,
    usage: Sequence[ObjectIdentifier] = (),
    uris: Sequence[str] = (),
    begins: timedelta = timedelta(hours=-1),
    ends: timedelta = timedelta(days=1),
) -> Issued:
    key = ec.generate_private_key(ec.SECP256R1())
    full = name(("CN", subject)) if isinstance(subject, str) else subject
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(full)
        .issuer_name(issuer.certificate.subject if issuer else full)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begins)
        .not_valid_after(now + ends)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    )
    if usage:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usage), critical=False)
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri) for uri in uris]
    if SERVER in usage:
        names += [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return Issued(builder.sign((issuer.key if issuer else key), hashes.SHA256()), key)
