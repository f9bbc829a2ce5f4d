"""A principal whose agent is the test, and an agent whose principal is."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from argocd.agents.vocabulary import Mode
from kube.embedded import EmbeddedStore
from sidecars.wire.events import Event
from tests.sidecars.pair_in_memory import ARGOCD, PATIENCE, PLAIN, Hub, Pipe, pipes, running_agent

AGENT = "agent-a"


@asynccontextmanager
async def scripted(
    mode: Mode, *, store: EmbeddedStore | None = None, promoted: bool = False
) -> AsyncIterator[tuple[Hub, Pipe]]:
    """A principal, and the end of a stream at which the test is the agent."""
    hub = Hub(store or EmbeddedStore(namespaces=[ARGOCD, AGENT]), allowed_namespaces=(AGENT,))
    hub.promoted = promoted
    await hub.know(AGENT)
    async with hub.running() as principal:
        here, there = pipes()
        async with _serving(principal.serve(AGENT, mode, here, extensions=PLAIN)):
            yield hub, there


@asynccontextmanager
async def scripted_agent(store: EmbeddedStore, **settings: Any) -> AsyncIterator[Pipe]:
    """An agent, and the end of a stream at which the test is the principal."""
    async with running_agent(store, **settings) as agent:
        here, there = pipes()
        serving = agent.serve(here, name=AGENT, principal_namespace=ARGOCD, extensions=PLAIN)
        async with _serving(serving):
            yield there


@asynccontextmanager
async def _serving(work: Any) -> AsyncIterator[None]:
    serving = asyncio.ensure_future(work)
    try:
        yield
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def acknowledged(pipe: Pipe, event: Event) -> list[Event]:
    """What the other end said before it acknowledged the event."""
    said: list[Event] = []
    async with asyncio.timeout(PATIENCE):
        await pipe.send(event)
        while True:
            answer = await pipe.receive()
            assert answer is not None
            if answer.is_acknowledgement and answer.event_id == event.event_id:
                assert answer.resource_id == event.resource_id
                return said
            said.append(answer)


async def heard(pipe: Pipe, kind: str) -> Event:
    """The next event of a type."""
    async with asyncio.timeout(PATIENCE):
        while True:
            event = await pipe.receive()
            assert event is not None
            if event.type == kind:
                return event
