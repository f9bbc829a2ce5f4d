"""Keeps an agent connected: one connection after the other, with growing, scattered pauses."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from random import Random

from certs.key_pair import Material
from sidecars.wire.client.dialer import AgentConnection, DialError, DialOptions, connect
from sidecars.wire.refusals import RefusalLog
from sidecars.wire.streams import StreamLostError
from tiphys import logs, metrics

RECONNECTS = metrics.counter(
    "tiphys_wire_connects_total", "Attempts to connect, by result.", labels=("result",)
)

FIRST_PAUSE_SECONDS = 0.5
FACTOR = 2.0
# A thousand agents of a principal that comes back are all there within this and the time of their logins.
MAX_PAUSE_SECONDS = 8.0
# A refusal lasts until somebody repairs something.
MAX_REFUSED_PAUSE_SECONDS = 60.0
# A stream that lived so long was a good one: the next failure is a new one.
GOOD_SECONDS = 30.0

log = logs.get_logger()


@dataclass(frozen=True, slots=True)
class ConnectionStatus:
    """For health checks and status."""

    connected: bool = False
    attempts: int = 0
    error: str = ""


class Reconnector:
    """`run` serves one connection after the other until it is cancelled."""

    def __init__(
        self,
        dialing: DialOptions,
        *,
        changed: Callable[[ConnectionStatus], None] = lambda _link: None,
        random: Random | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        dialing.check()
        self._dialing = dialing
        self._changed = changed
        self._random = random or Random()  # noqa: S311 - scatters pauses, guards nothing
        self._sleep = sleep
        self._connection: AgentConnection | None = None
        self._renewing = asyncio.Event()
        self._said = RefusalLog(time.monotonic)
        self.link = ConnectionStatus()

    async def swap_material(self, material: Material) -> None:
        """Connect anew with it: certificates are shown once, when a connection begins."""
        self._dialing = replace(self._dialing, material=material)
        self._renewing.set()
        if self._connection is not None:
            await self._connection.close()

    async def run(self, serve: Callable[[AgentConnection], Awaitable[None]]) -> None:
        """`serve` returns or raises StreamLostError when the stream has ended; other errors end this."""
        attempts = 0
        while True:
            began = time.monotonic()
            error: DialError | StreamLostError | None = None
            self._renewing.clear()
            try:
                await self._once(serve)
            except (DialError, StreamLostError) as problem:
                error = problem
            if self._renewing.is_set():
                log.info("connecting anew with other certificates")
                continue
            attempts = 1 if time.monotonic() - began > GOOD_SECONDS else attempts + 1
            pause = self._pause(attempts, hopeless=getattr(error, "hopeless", False))
            self._tell(
                ConnectionStatus(
                    connected=False, attempts=attempts, error=str(error or "the principal hung up")
                )
            )
            # The same words once a minute: an outage may last for days.
            if (missed := self._said.turn(("not connected", self.link.error))) is not None:
                context = {logs.REASON: self.link.error, logs.SECONDS: round(pause, 1), "again": missed}
                log.warning("not connected", **context)
            await self._pause_or_renewal(pause)

    async def _once(self, serve: Callable[[AgentConnection], Awaitable[None]]) -> None:
        try:
            connection = await connect(self._dialing)
        except DialError:
            RECONNECTS.labels("failed").inc()
            raise
        RECONNECTS.labels("connected").inc()
        self._connection = connection
        try:
            if not self._renewing.is_set():  # or the certificates changed on the way
                self._tell(ConnectionStatus(connected=True))
                await serve(connection)
        finally:
            self._connection = None
            # Kept for the next stream only: a principal that was restarted may take more.
            takes = await connection.refused_size()
            self._dialing = replace(self._dialing, principal_takes=takes)
            await connection.close()

    async def _pause_or_renewal(self, seconds: float) -> None:
        """New certificates may be what was missing."""
        pause = asyncio.ensure_future(self._sleep(seconds))
        renewal = asyncio.ensure_future(self._renewing.wait())
        try:
            await asyncio.wait({pause, renewal}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()
            renewal.cancel()

    def _pause(self, attempt: int, *, hopeless: bool) -> float:
        """Anything up to the bound: agents that were cut off together come back apart."""
        ceiling = MAX_REFUSED_PAUSE_SECONDS if hopeless else MAX_PAUSE_SECONDS
        bound = min(FIRST_PAUSE_SECONDS * FACTOR ** min(attempt, 32), ceiling)
        return self._random.uniform(bound / 4, bound)

    def _tell(self, link: ConnectionStatus) -> None:
        self.link = link
        self._changed(link)
