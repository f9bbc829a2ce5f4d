"""Whether a caller's certificate still counts: its authority, its dates, its purpose, the blocklist.

The handshake asked the same when the connection was made. Connections live for months, so every call asks
again, and open streams are asked whenever authorities or the blocklist change.
"""

from collections.abc import Callable, Sequence
from datetime import datetime

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import (
    ClientVerifier,
    Criticality,
    ExtensionPolicy,
    PolicyBuilder,
    Store,
    VerificationError,
)

from certs.key_pair import CertificateError, trusted
from sidecars.wire.auth.blocklist import Blocklist
from sidecars.wire.auth.methods import IdentityError, Refusal

_CLIENT = {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}


class Trust:
    def __init__(self, roots: bytes, *, now: Callable[[], datetime]) -> None:
        self._now = now
        self._roots = _store(roots, now=now())
        self._blocklist = Blocklist()

    def swap_roots(self, roots: bytes) -> None:
        self._roots = _store(roots, now=self._now())

    def swap_blocklist(self, blocklist: Blocklist) -> None:
        self._blocklist = blocklist

    def check(self, chain: Sequence[x509.Certificate]) -> None:
        """`chain` is what the caller showed, leaf first. Raises IdentityError."""
        if not chain:
            raise IdentityError(Refusal.ABSENT, "the call came without a client certificate")
        leaf, *intermediates = chain
        if self._blocklist.blocks(leaf):
            raise IdentityError(Refusal.BLOCKED, "the certificate is on the blocklist")
        try:
            usage = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
            if _CLIENT.isdisjoint(usage):
                raise IdentityError(Refusal.BAD_CERTIFICATE, "the certificate is not meant for clients")
        except x509.ExtensionNotFound:
            pass  # Go, too, takes a certificate without a stated purpose
        except ValueError as error:
            raise IdentityError(Refusal.BAD_CERTIFICATE, f"the certificate's extensions: {error}") from error
        try:
            self._verifier().verify(leaf, intermediates)
        except VerificationError as error:
            raise IdentityError(
                Refusal.UNTRUSTED, f"the certificate does not verify now: {str(error)[:300]}"
            ) from error

    def _verifier(self) -> ClientVerifier:
        # Agents' certificates need none of the web's extensions; authorities must say that they are some.
        leaves = ExtensionPolicy.permit_all()
        authorities = leaves.require_present(x509.BasicConstraints, Criticality.AGNOSTIC, None)
        builder = PolicyBuilder().store(self._roots).time(self._now())
        return builder.extension_policies(ca_policy=authorities, ee_policy=leaves).build_client_verifier()


def _store(roots: bytes, *, now: datetime) -> Store:
    certificates = trusted(roots, now=now)
    if not certificates:
        raise CertificateError("the bundle of client authorities holds no valid certificate in PEM")
    return Store(certificates)
