"""TLS contexts for servers, and the certificate inside them swapped while connections stay open."""

import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from certs.folder import CERTIFICATE, KEY, changes, consistently, read_pair
from certs.key_pair import CertificateError, KeyPair


def server_context(folder: Path, *, client_ca: Path | None = None) -> ssl.SSLContext:
    """TLS 1.3 and HTTP/1.1 only, with the folder's pair; raises rather than serving anything else.

    With `client_ca` only for clients whose certificate the authorities in that file signed.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["http/1.1"])
    # A resumed session would not see a new certificate; a handshake costs the API server 2 ms once in 90 s.
    context.num_tickets = 0
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(client_ca)
        except (ssl.SSLError, OSError) as error:
            raise CertificateError(
                f"{client_ca}: the clients' authorities cannot be loaded: {error}"
            ) from error
    load(context, folder)
    return context


def load(context: ssl.SSLContext, folder: Path) -> KeyPair:
    """Put the folder's pair into the context: new handshakes see it, open connections go on."""

    def take(source: Path) -> KeyPair:
        pair = read_pair(source)
        pair.check_valid(now=datetime.now(UTC), origin=str(folder))
        try:
            context.load_cert_chain(source / CERTIFICATE, source / KEY)
        except (ssl.SSLError, OSError) as error:
            raise CertificateError(f"{folder}: the pair cannot be loaded: {error}") from error
        return pair

    return consistently(folder, take)


async def keep_loaded(
    context: ssl.SSLContext,
    folder: Path,
    *,
    loaded: Callable[[KeyPair], None],
    refused: Callable[[CertificateError], None],
) -> None:
    """Follow the folder for ever; a pair that must not be served is reported and the last good one stays."""
    current = ""
    async for _ in changes(folder):
        try:
            pair = load(context, folder)
        except CertificateError as error:
            refused(error)
            current = ""  # the same pair, good again, is news
            continue
        if pair.fingerprint != current:
            current = pair.fingerprint
            loaded(pair)
