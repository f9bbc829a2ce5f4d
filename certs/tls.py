"""TLS contexts for servers, and the certificate inside them swapped while connections stay open."""

import asyncio
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
            raise _unusable_authorities(client_ca, error) from error
    load(context, folder)
    return context


def _unusable_authorities(client_ca: Path, error: Exception) -> CertificateError:
    return CertificateError(f"{client_ca}: the clients' authorities cannot be loaded: {error}")


class FolderContext:
    """TLS for a server from a folder and a file with its clients' authorities, which are followed.

    New handshakes see what has changed, open connections go on.
    """

    def __init__(self, folder: Path, *, client_ca: Path | None = None) -> None:
        self._folder = folder
        self._client_ca = client_ca
        self._current, self._authorities = self._made()
        self.context = self._current
        if client_ca is not None:
            # A context takes further authorities and lets none go: new ones need a new context.
            self.context.sni_callback = self._choose

    def _made(self) -> tuple[ssl.SSLContext, bytes]:
        authorities = self._read_authorities()
        return server_context(self._folder, client_ca=self._client_ca), authorities

    def _read_authorities(self) -> bytes:
        if self._client_ca is None:
            return b""
        try:
            return self._client_ca.read_bytes()
        except OSError as error:
            raise _unusable_authorities(self._client_ca, error) from error

    def _load(self) -> KeyPair:
        if self._read_authorities() != self._authorities:
            self._current, self._authorities = self._made()
        return load(self._current, self._folder)

    async def follow(
        self, *, loaded: Callable[[KeyPair], None], refused: Callable[[CertificateError], None]
    ) -> None:
        """For ever; what must not be served is reported and the last good one stays."""
        told: tuple[str, bytes] | None = None

        async def watch(folder: Path) -> None:
            nonlocal told
            async for _ in changes(folder):
                try:
                    pair = self._load()
                except CertificateError as error:
                    refused(error)
                    told = None  # the same, good again, is news
                    continue
                if told != (pair.fingerprint, self._authorities):
                    told = (pair.fingerprint, self._authorities)
                    loaded(pair)

        async with asyncio.TaskGroup() as group:
            for folder in {self._folder, *([self._client_ca.parent] if self._client_ca else [])}:
                group.create_task(watch(folder))

    def _choose(self, handshake: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        handshake.context = self._current


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
