"""What an agent does whose events are refused delays nobody: counted in lines that the principal executes, not in time."""

import asyncio
import statistics
import sys
from contextlib import AsyncExitStack
from types import FrameType
from typing import Any, Self

from argocd.agents.vocabulary import Mode
from kube.embedded import AdmissionRequest, Admitted, EmbeddedStore, Hooks
from kube.errors import InvalidError
from kube.resources import APP_PROJECTS
from kube.store import PatchKind
from sidecars.principal.principal import Principal
from sidecars.wire.events import acknowledgement
from tests.cluster import rogue_agent
from tests.sidecars.pair_in_memory import ARGOCD, OURS, PATIENCE, PLAIN, Hub, Pipe, pipes, project
from tests.sidecars.virtual_clock import runtime
from tests.simulation.virtual_time import run

ROOMS = ("/sidecars/", "/argocd/")
TURNS, EACH = 4, 6
MOST = 5_000
"""Refused events that are sent at most: many more than are taken from an agent that rests."""
BETWEEN = 0.055
"""Seconds of a virtual clock: a few events of an agent that rests."""
GOOD, ROGUE = "agent-a", "rogue"


class Lines:
    """Executed lines of the principal."""

    def __init__(self) -> None:
        self.seen = 0

    def __enter__(self) -> Self:
        sys.settrace(self._entered)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _entered(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        name = frame.f_code.co_filename
        return self._inside if "/tests/" not in name and any(room in name for room in ROOMS) else None

    def _inside(self, _frame: FrameType, event: str, _argument: Any) -> Any:
        self.seen += event == "line"
        return self._inside


async def refuse_bad_names(request: AdmissionRequest) -> Admitted:
    if "Bad_Name" in request.name:
        raise InvalidError("a bad name")
    return Admitted()


class RogueAgent:
    """Keeps a peer's window full of what is refused and of comparisons, while it is let."""

    def __init__(self, pipe: Pipe) -> None:
        self.acknowledged = 0
        self.goes = asyncio.Event()
        self._pipe = pipe
        self._room = asyncio.Semaphore(rogue_agent.WINDOW)

    async def send(self) -> None:
        for number in range(MOST):
            for event in (
                rogue_agent.refused(number),
                *([rogue_agent.question(number)] if number % 10 == 0 else []),
            ):
                await self._room.acquire()
                await self.goes.wait()
                await self._pipe.send(event)
                self._pipe.sent.clear()

    async def read(self) -> None:
        while (event := await self._pipe.receive()) is not None:
            if event.is_acknowledgement:
                self.acknowledged += 1
                self._room.release()
            else:
                await self._pipe.send(acknowledgement(event, source=""))


async def arrived(pipe: Pipe, text: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while (event := await pipe.receive()) is not None:
            if not event.is_acknowledgement:
                await pipe.send(acknowledgement(event, source=""))
                if text.encode() in event.payload:
                    return


def ends(principal: Principal, stack: AsyncExitStack, name: str, mode: Mode) -> Pipe:
    here, there = pipes()
    known = PLAIN if mode is Mode.MANAGED else OURS
    serving = asyncio.ensure_future(principal.serve(name, mode, here, extensions=known))
    stack.callback(serving.cancel)
    return there


def test_an_agent_whose_events_are_refused_at_most_doubles_the_way_of_others() -> None:
    """But for a first burst, after which it rests. A question that is answered now and then changes nothing."""
    calm, busy = run(ways_of_changes())
    assert statistics.median(busy) < 2 * statistics.median(calm), (calm, busy)


async def ways_of_changes() -> tuple[list[int], list[int]]:
    """Lines for each, while the rogue agent is held and while it is not, in turns."""
    store = EmbeddedStore(namespaces=[ARGOCD, GOOD, ROGUE], hooks=Hooks(admission=refuse_bad_names))
    hub = Hub(store, allowed_namespaces=("*",))
    for name in (GOOD, ROGUE):
        await hub.know(name)
    await store.create(APP_PROJECTS, project(), namespace=ARGOCD)
    calm: list[int] = []
    busy: list[int] = []
    async with hub.running(runtime()) as principal, AsyncExitStack() as stack:
        good = ends(principal, stack, GOOD, Mode.MANAGED)
        rogue = RogueAgent(ends(principal, stack, ROGUE, Mode.AUTONOMOUS))
        sending, reading = (asyncio.ensure_future(work) for work in (rogue.send(), rogue.read()))
        stack.callback(sending.cancel)
        stack.callback(reading.cancel)

        async def propagated(text: str) -> int:
            await asyncio.sleep(BETWEEN)
            with Lines() as lines:
                patch = {"spec": {"description": text}}
                await store.patch(APP_PROJECTS, patch, name="web", namespace=ARGOCD, kind=PatchKind.MERGE)
                await arrived(good, text)
            return lines.seen

        for turn in range(TURNS):
            rogue.goes.clear()
            calm += [await propagated(f"calm-{turn}-{number}") for number in range(EACH)]
            rogue.goes.set()
            busy += [await propagated(f"busy-{turn}-{number}") for number in range(EACH)]
        assert not sending.done(), "nothing holds it up"
    assert rogue.acknowledged > TURNS * EACH
    return calm, busy
