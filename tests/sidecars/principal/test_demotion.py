"""A principal that ceases to be active: what it has taken from agents is written and acknowledged, and nothing more is taken."""

import asyncio
from datetime import UTC, datetime

from argocd.agents.vocabulary import Message, Mode, Target
from kube.embedded import Call, EmbeddedStore, Hooks, Phase
from kube.resources import APP_PROJECTS
from sidecars.principal.principal import Principal
from sidecars.principal.roles.active import ActivePrincipal
from sidecars.wire.events import Event, object_event
from sidecars.wire.server.sessions import OpenStreams
from tests.sidecars.pair_in_memory import ARGOCD, PATIENCE, PLAIN, Hub, pipes, project
from tests.sidecars.scripted_ends import AGENT


def created(name: str) -> Event:
    body = project(name)
    body["metadata"] |= {"uid": f"u-{name}", "resourceVersion": "1"}
    return object_event(Message.CREATE, target=Target.PROJECT, obj=body)


async def test_what_was_taken_is_written_before_streams_end_and_nothing_more_is_taken() -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def slowly(call: Call) -> None:
        if (call.verb, call.resource, call.phase) == ("create", APP_PROJECTS, Phase.BEFORE):
            begun.set()
            await goes_on.wait()

    store = EmbeddedStore(namespaces=[ARGOCD, AGENT], hooks=Hooks(faults=slowly))
    hub = Hub(store, allowed_namespaces=(AGENT,))
    await hub.know(AGENT)
    active = ActivePrincipal(
        lambda _promoted: Principal(store, settings=hub.settings, principal_uid="principal-1"),
        sessions=OpenStreams(now=lambda: datetime.now(UTC)),
    )
    running = asyncio.ensure_future(active.run())
    await active.start()
    here, there = pipes()
    serving = asyncio.ensure_future(active.serve(AGENT, Mode.AUTONOMOUS, here, extensions=PLAIN))
    try:
        async with asyncio.timeout(PATIENCE):
            first = created("first")
            await there.send(first)
            await begun.wait()
            stopping = asyncio.ensure_future(active.stop(reason="demoted"))
            await asyncio.sleep(0)  # it has begun
            await there.send(created("second"))
            for _ in range(100):
                await asyncio.sleep(0)
            assert not stopping.done()
            goes_on.set()
            await stopping
            told: list[Event] = []
            while not any(each.is_acknowledgement and each.event_id == first.event_id for each in told):
                event = await there.receive()
                assert event is not None
                told.append(event)
        found = {item["metadata"]["name"] for item in (await store.list(APP_PROJECTS)).items}
        assert found == {f"{AGENT}-first"}
    finally:
        for task in (serving, running):
            task.cancel()
        await asyncio.gather(serving, running, return_exceptions=True)
