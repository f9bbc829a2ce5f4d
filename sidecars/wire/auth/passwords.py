"""Agents that log in with a name and a password, checked against a file of bcrypt hashes.

The file has a line `name:hash` for each agent; `#` and `//` begin a comment. Deprecated upstream: prefer
certificates.
"""

import asyncio
import re
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import ClassVar

import bcrypt

from certs.folder import read
from sidecars.wire.auth.methods import CallCredentials, IdentityError, Refusal, is_agent_name
from tiphys import logs
from tiphys.errors import CallError, SurroundingsError

log = logs.get_logger()

_HASH = re.compile(r"\$2[abxy]\$(\d\d)\$[./A-Za-z0-9]{53}")

# bcrypt doubles its work with each step; at 16 one login takes about four seconds of a core.
MAX_COST = 16
# bcrypt reads no further. A longer password would be cut in silence, so it is refused.
MAX_PASSWORD_BYTES = 72
# Hashing is meant to be slow: more at once would only take the cores away from the streams.
SIDE_BY_SIDE = 2
# An agent that waited longer has given up.
PATIENCE_SECONDS = 10.0


class TooManyLoginsError(SurroundingsError):
    """More logins at once than can be checked: come back later."""


@dataclass(frozen=True, slots=True)
class Accounts:
    """`refused` are the numbers of lines that are neither an account nor a comment."""

    hashes: dict[str, bytes] = field(repr=False)
    refused: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Accounts":
        hashes, refused = {}, []
        for number, line in enumerate(text.splitlines(), start=1):
            name, _, hashed = line.strip().partition(":")
            if not line.strip() or line.lstrip().startswith(("#", "//")):
                continue
            found = _HASH.fullmatch(hashed)
            if not is_agent_name(name) or not found or int(found[1]) > MAX_COST:
                refused.append(number)
            else:
                hashes[name] = hashed.encode()
        return cls(hashes, tuple(refused))

    def decoy(self) -> bytes:
        """Checked for names that do not exist, so that they take as long as those that do."""
        cost = max((hashed[4:6] for hashed in self.hashes.values()), default=b"10")
        return b"$2b$" + cost + b"$" + b"." * 53


def read_accounts(path: Path) -> Accounts:
    accounts = Accounts.parse(read(path.parent, path.name).decode(errors="replace"))
    if accounts.refused:
        log.warning(
            "lines of the password file are no accounts",
            **{logs.ERROR: f"{path}: lines {', '.join(map(str, accounts.refused[:5]))}"},
        )
    return accounts


class PasswordMethod:
    name: ClassVar[str] = "userpass"

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._turn = asyncio.Semaphore(SIDE_BY_SIDE)

    def swap(self, accounts: Accounts) -> None:
        """Later logins are checked against these."""
        self._accounts = accounts

    def seal(self, agent: str) -> str:
        """Stands in tokens, and ends with the password that earned them; empty for one without a password."""
        hashed = self._accounts.hashes.get(agent)
        return "" if hashed is None else blake2b(hashed, digest_size=16, person=b"password").hexdigest()

    async def identify(self, evidence: CallCredentials) -> str:
        name = evidence.credentials.get("clientid", "")
        password = evidence.credentials.get("clientsecret", "").encode()
        known = self._accounts.hashes.get(name)
        readable = 0 < len(password) <= MAX_PASSWORD_BYTES and b"\0" not in password
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._turn.acquire()
        except TimeoutError as error:
            raise TooManyLoginsError("too many logins with a password at once; try again later") from error
        check = asyncio.ensure_future(
            asyncio.to_thread(_matches, password if readable else b"-", known or self._accounts.decoy())
        )
        # A thread runs on when its caller hangs up: its turn ends with it, not with the call.
        check.add_done_callback(lambda _: self._turn.release())
        right = await asyncio.shield(check)
        if not (right and known and readable):
            raise IdentityError(Refusal.BAD_PASSWORD, f"wrong name or password for {name[:80]!r}")
        return name


def _matches(password: bytes, hashed: bytes) -> bool:
    try:
        return bcrypt.checkpw(password, hashed)
    except ValueError:  # looks like a hash, but its salt cannot be read
        return False


@dataclass(frozen=True, slots=True)
class Login:
    """An agent's own name and password."""

    name: str
    password: str = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> "Login":
        """The first line of a file: `name:password`."""
        name, colon, password = (text.splitlines() or [""])[0].strip().partition(":")
        if not colon or not is_agent_name(name) or not password:
            raise CallError("the file with the agent's login must begin with a line <name>:<password>")
        return cls(name, password)
