"""What is known of a call before anything it says is believed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cryptography import x509

from certs.key_pair import split_bundle
from sidecars.wire.capabilities import grouped


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """`chain` is what TLS verified, leaf first; empty without a client certificate."""

    address: str
    metadata: Mapping[str, Sequence[str]] = field(repr=False)
    chain: Sequence[x509.Certificate] = field(default=(), repr=False)
    tls_version: str = ""


def caller_of(context: Any) -> Caller:
    """What grpc knows of a call. The certificate comes as PEM: the parsed names beside it are ambiguous."""
    known = context.auth_context()
    return Caller(
        address=str(context.peer()),
        metadata=grouped(context.invocation_metadata()),
        chain=_chain(known),
        tls_version=b"".join(known.get("ssl_tls_version", ())[:1]).decode(errors="replace"),
    )


def _chain(known: dict[str, Sequence[bytes]]) -> Sequence[x509.Certificate]:
    leaf = b"".join(known.get("x509_pem_cert", ())[:1])
    shown = split_bundle(b"".join(known.get("x509_pem_cert_chain", ())[:1]))
    try:
        certificates = [x509.load_pem_x509_certificate(pem) for pem in shown]
        first = [x509.load_pem_x509_certificate(leaf)] if leaf else []
    except ValueError:  # readable by TLS but not by us: as good as none
        return ()
    return (*first, *(certificate for certificate in certificates if certificate not in first))
