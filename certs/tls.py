"""TLS contexts for servers, and the certificate inside them swapped while connections stay open."""

import os
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from certs.folder import CERTIFICATE, KEY, changes, consistently, read_pair
from certs.key_pair import CertificateError, KeyPair, Material


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


class SwappedContext:
    """TLS 1.3 for a listener, with a pair that is in no file: handshakes after a `swap` see the new one.

    What `clients` show is verified by the material's authorities, which are swapped too.
    """

    def __init__(self, material: Material, *, clients: ssl.VerifyMode) -> None:
        self._clients = clients
        self._current = self.context = _material_context(material, clients=clients)
        self.context.sni_callback = self._choose

    def swap(self, material: Material) -> None:
        """Raises CertificateError, and the old one stays."""
        self._current = _material_context(material, clients=self._clients)

    def _choose(self, handshake: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        """Called in every handshake, whether a name is asked for or not."""
        handshake.context = self._current


def _material_context(material: Material, *, clients: ssl.VerifyMode) -> ssl.SSLContext:
    if material.pair is None:
        raise CertificateError("a listener needs a certificate with its key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # as above
    try:
        with _as_file(material.pair.certificate + b"\n" + material.pair.key) as path:
            context.load_cert_chain(path)
        if clients is not ssl.CERT_NONE:
            context.load_verify_locations(cadata=material.roots.decode())
            context.verify_mode = clients
    except (ssl.SSLError, OSError, ValueError) as error:
        raise CertificateError(
            f"the listener's certificate or authorities cannot be loaded: {error}"
        ) from error
    return context


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """For a library that reads files alone; where there is memory that looks like one, nothing is on a disk."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("pair"), "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        yield file.name


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
