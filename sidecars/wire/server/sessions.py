"""The open streams of a principal, so that one can be cut when it is no longer allowed."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

import grpc
from cryptography import x509

from argocd.agents.vocabulary import Mode
from certs.key_pair import fingerprint
from sidecars.wire.auth.tokens import Holder
from sidecars.wire.capabilities import Capabilities
from sidecars.wire.refusals import RefusedError

# An agent has one; during a rolling restart two, of which the newer wins.
MAX_STREAMS_PER_AGENT = 8
# Logs and terminals that people look at, of one agent and of all.
MAX_DATA_STREAMS_PER_AGENT = 384
MAX_DATA_STREAMS = 4096
# A principal of this size has long been split; until then it is a bound and no more.
MAX_STREAMS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticatedAgent:
    """An authenticated agent at the other end of a stream."""

    holder: Holder
    """Whom its token names."""
    address: str = ""
    announced: Capabilities = field(default_factory=Capabilities)
    shown: Sequence[bytes] = field(default=(), repr=False)
    """Its certificates in DER. Read, with all their extensions, they would occupy ten times as much."""

    @property
    def name(self) -> str:
        return self.holder.agent

    @property
    def mode(self) -> Mode:
        return self.holder.mode

    @property
    def chain(self) -> list[x509.Certificate]:
        return [x509.load_der_x509_certificate(each) for each in self.shown]

    @property
    def fingerprint(self) -> str:
        """Of its certificate, as on the blocklist; empty where it showed none."""
        return fingerprint(self.chain[0]) if self.shown else ""


@dataclass(frozen=True, slots=True)
class Cut:
    """`words` are for the agent, `reason` is for the log. Either code makes a Go agent connect anew."""

    code: grpc.StatusCode
    words: str
    reason: str

    @classmethod
    def distrusted(cls, reason: str) -> "Cut":
        return cls(grpc.StatusCode.UNAUTHENTICATED, "authentication is no longer valid", reason)

    @classmethod
    def unavailable(cls, reason: str) -> "Cut":
        return cls(grpc.StatusCode.UNAVAILABLE, reason, reason)


class OpenStream:
    def __init__(self, peer: AuthenticatedAgent, *, since: datetime) -> None:
        self.peer = peer
        self.since = since
        self.cut_because: asyncio.Future[Cut] = asyncio.get_running_loop().create_future()

    def cut(self, cut: Cut) -> None:
        if not self.cut_because.done():
            self.cut_because.set_result(cut)


class OpenStreams:
    def __init__(
        self,
        *,
        now: Callable[[], datetime],
        limit: int = MAX_STREAMS,
        per_agent: int = MAX_STREAMS_PER_AGENT,
    ) -> None:
        self._now = now
        self._limit = limit
        self._per_agent = per_agent
        self._open: dict[str, set[OpenStream]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[OpenStream]:
        return iter([session for sessions in self._open.values() for session in sessions])

    @contextmanager
    def opened(self, peer: AuthenticatedAgent, *, max_age: float) -> Iterator[OpenStream]:
        """A session that is cut when its certificate ends or it has lived for `max_age` seconds.

        Raises RefusedError when this agent, or all of them, have more open than anybody needs.
        """
        if self._count >= self._limit or len(self._open.get(peer.name, ())) >= self._per_agent:
            raise RefusedError(
                grpc.StatusCode.UNAVAILABLE,
                "too many streams",
                reason=f"{peer.name} has {len(self._open.get(peer.name, ()))} of {self._count} open streams",
                label="too many streams",
            )
        session = OpenStream(peer, since=self._now())
        seconds, reason = max_age, "the stream is old: log in again"
        if chain := peer.chain:
            left = (chain[0].not_valid_after_utc - self._now()).total_seconds()
            if left < seconds:
                seconds, reason = left, "the certificate has expired"
        timer = asyncio.get_running_loop().call_later(max(seconds, 0), session.cut, Cut.distrusted(reason))
        self._open.setdefault(peer.name, set()).add(session)
        self._count += 1
        try:
            yield session
        finally:
            timer.cancel()
            self._count -= 1
            self._open[peer.name].discard(session)
            if not self._open[peer.name]:
                del self._open[peer.name]

    def of(self, agent: str) -> list[OpenStream]:
        return list(self._open.get(agent, ()))

    async def recheck(
        self, complaint: Callable[[AuthenticatedAgent], str | None]
    ) -> list[AuthenticatedAgent]:
        """Ask of every open stream whether it may go on; cut those about which there is a complaint."""
        cut = []
        for session in self:
            reason = complaint(session.peer)
            if reason is not None:
                session.cut(Cut.distrusted(reason))
                cut.append(session.peer)
            await asyncio.sleep(0)  # a check costs 0.1 ms: thousands of them must not hold up the loop
        return cut
