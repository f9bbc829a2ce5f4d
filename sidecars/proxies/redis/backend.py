"""A Redis that stands behind us: where it is, how it is told who we are, and with which TLS."""

import ssl
from dataclasses import dataclass, field
from pathlib import Path

from certs.folder import read
from tiphys.errors import CallError, SurroundingsError

DEFAULT_ADDRESS = "argocd-redis:6379"
DEFAULT_PORT = 6379
# The files of a mounted Secret, as Argo CD reads them.
USERNAME_FILE = "auth_username"
PASSWORD_FILE = "auth"  # noqa: S105 - a file's name


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisBackend:
    """With `tls` the certificate is verified by these authorities, or the system's, unless it is `insecure`."""

    host: str
    port: int = DEFAULT_PORT
    username: str = ""
    password: str = field(default="", repr=False)
    credentials: Path | None = None
    """A folder, read at each connection: passwords are changed."""
    tls: bool = False
    authorities: bytes = b""
    insecure: bool = False

    def context(self) -> ssl.SSLContext | None:
        """None for plaintext."""
        if not self.tls:
            return None
        if self.insecure:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            return context
        try:
            return ssl.create_default_context(cadata=self.authorities.decode() if self.authorities else None)
        except (ssl.SSLError, ValueError) as error:
            raise SurroundingsError(
                f"the authorities of Redis' certificate cannot be read: {error}"
            ) from error

    def login(self) -> tuple[str, str]:
        """User and password; either may be empty."""
        if self.credentials is None:
            return self.username, self.password
        there = {path.name for path in self.credentials.iterdir()} if self.credentials.is_dir() else set()
        if PASSWORD_FILE not in there:
            raise SurroundingsError(
                f"--redis-creds-dir-path {self.credentials}: no file {PASSWORD_FILE} is there"
            )
        username = _file(self.credentials, USERNAME_FILE) if USERNAME_FILE in there else ""
        return username, _file(self.credentials, PASSWORD_FILE)


def parse_address(address: str, *, flag: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon:
        return address, DEFAULT_PORT
    if not host or not port.isdecimal():
        raise CallError(f"{flag} {address}: write host:port")
    return host.strip("[]"), int(port)


def _file(folder: Path, name: str) -> str:
    return read(folder, name).decode(errors="replace").strip()
