"""The part of a principal that lives only while it is the active one: agents, their queues, what was told to whom.

Each activation has a new one. What a demotion must forget, it forgets with it.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime

from argocd.agents.vocabulary import Mode
from sidecars.delivery.session import Stream
from sidecars.principal.principal import Principal
from sidecars.replication.control.parts import HeldObject
from sidecars.replication.metrics import HELD_OBJECTS
from sidecars.replication.report import ConnectedAgent
from sidecars.wire.server.sessions import Cut, OpenStreams
from tiphys import logs
from tiphys.errors import SurroundingsError

# What agents have told already is written, or told again to whoever is active next.
DRAIN_SECONDS = 20.0
# Links end at once, unless a transport hangs in its clean-up.
STOP_SECONDS = 30.0

log = logs.get_logger()


class ActivePrincipal:
    """`run` belongs into a task group: it ends with the error of what was started."""

    def __init__(
        self,
        make: Callable[[bool], Principal],
        *,
        sessions: OpenStreams,
        announce: Callable[[int, str], None] = lambda _epoch, _pair: None,
    ) -> None:
        """`make` is told whether it is promoted. `announce` has agents told of an epoch and its pair."""
        self._make = make
        self._announce = announce
        self._sessions = sessions
        self._task: asyncio.Task[None] | None = None
        self._started = asyncio.Event()
        self.principal: Principal | None = None

    async def run(self) -> None:
        try:
            while True:
                await self._started.wait()
                self._started.clear()
                task = self._task
                if task is not None:
                    await asyncio.wait({task})
                    if not task.cancelled():
                        task.result()
        finally:
            await self._end()

    @property
    def connected(self) -> int:
        """Agents with a stream."""
        return len(self._sessions)

    def agents(self) -> Sequence[ConnectedAgent]:
        """By name, each with its newest stream."""
        oldest_first = sorted(self._sessions, key=lambda session: session.since)
        found = {session.peer.name: session for session in oldest_first}
        return [
            ConnectedAgent(
                name=name, mode=session.peer.mode.value, since=session.since.strftime("%Y-%m-%dT%H:%M:%SZ")
            )
            for name, session in sorted(found.items())
        ]

    def held(self) -> Sequence[HeldObject]:
        return () if self.principal is None else self.principal.held.all()

    def met(self) -> Sequence[str]:
        return () if self.principal is None else self.principal.met()

    def release(self, agent: str) -> int:
        return 0 if self.principal is None else self.principal.release(agent)

    async def start(self, *, epoch: int = 0, pair: str = "", promoted: bool = False) -> None:
        """Returns when agents may come."""
        assert self._task is None, "one at a time"
        if pair:
            self._announce(epoch, pair)
        principal = self._make(promoted)
        task = self._task = asyncio.get_running_loop().create_task(principal.run(), name="principal")
        self._started.set()
        ready = asyncio.ensure_future(principal.ready.wait())
        try:
            await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
        if task.done():
            if not task.cancelled():
                task.result()
            raise SurroundingsError("the principal ended before it was ready")
        self.principal = principal

    async def stop(self, *, reason: str) -> None:
        """Nothing more is taken, what was taken is written, streams end, and everything is forgotten."""
        principal = self.principal
        if principal is not None:
            try:
                async with asyncio.timeout(DRAIN_SECONDS):
                    await principal.drain()
            except TimeoutError:
                log.warning("agents will tell the rest again, elsewhere", **{logs.REASON: reason})
            for session in self._sessions:
                session.cut(Cut.unavailable(reason))
        await self._end()

    async def serve(
        self,
        agent: str,
        mode: Mode,
        stream: Stream,
        *,
        extensions: frozenset[str],
        certificate_end: datetime | None = None,
    ) -> None:
        if self.principal is None:
            raise SurroundingsError("the principal has ceased to be active")
        await self.principal.serve(
            agent, mode, stream, extensions=extensions, certificate_end=certificate_end
        )

    async def _end(self) -> None:
        self.principal, task, self._task = None, self._task, None
        HELD_OBJECTS.set(0)
        if task is not None:
            task.cancel()
            _, pending = await asyncio.wait({task}, timeout=STOP_SECONDS)
            if pending:
                raise SurroundingsError(f"the principal did not end within {STOP_SECONDS:.0f} s")
