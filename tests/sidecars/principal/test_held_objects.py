"""A Go agent asks a principal that was promoted about what it has: what the principal never knew is not said to be gone."""

import asyncio
from itertools import count

from argocd.agents.resync import UpdateRequest
from argocd.agents.vocabulary import Message, Mode
from kube.embedded import EmbeddedStore
from kube.resources import APPLICATIONS
from sidecars.mirroring.resync_events import ResyncEvents
from sidecars.replication.control.parts import HeldObject
from sidecars.wire.events import acknowledgement
from tests.sidecars.pair_in_memory import ARGOCD, PATIENCE, Pipe, application
from tests.sidecars.scripted_ends import AGENT, scripted

_NUMBERS = count()
_EVENTS = ResyncEvents(source=AGENT, new_id=lambda: f"question-{next(_NUMBERS)}")


async def ask(pipe: Pipe, kind: str, name: str) -> None:
    """With a checksum that is nobody's."""
    request = UpdateRequest(kind, name, ARGOCD, uid="of-the-old-one", checksum=b"other")
    await pipe.send(_EVENTS.update_request(request))


async def told(pipe: Pipe, message: Message, name: str = "") -> str:
    """The next of the sort, or about an object; like an agent it acknowledges whatever comes."""
    async with asyncio.timeout(PATIENCE):
        while (event := await pipe.receive()) is not None:
            if event.is_acknowledgement:
                continue
            await pipe.send(acknowledgement(event))
            about = event.subject.rpartition("/")[2]
            if event.type == message and name in {"", about}:
                return about
    raise AssertionError("the stream has ended")


async def test_a_question_about_what_a_promoted_principal_never_knew_is_not_answered() -> None:
    store = EmbeddedStore(namespaces=[ARGOCD, AGENT])
    for name in ("known", "brief"):
        await store.create(APPLICATIONS, application(name), namespace=AGENT)
    async with scripted(Mode.MANAGED, store=store, promoted=True) as (hub, pipe):
        await told(pipe, Message.REQUEST_RESOURCE_RESYNC)
        for kind, name in (("Application", "last"), ("AppProject", "last-project")):
            await ask(pipe, kind, name)
        # What it knows it tells, and what it saw go.
        await ask(pipe, "Application", "known")
        await told(pipe, Message.SPEC_UPDATE, "known")
        await store.delete(APPLICATIONS, name="brief", namespace=AGENT)
        assert await told(pipe, Message.DELETE) == "brief"
        await ask(pipe, "Application", "brief")
        assert await told(pipe, Message.DELETE) == "brief"
        assert hub.principal is not None
        assert set(hub.principal.held.all()) == {
            HeldObject(agent=AGENT, kind="Application", namespace=AGENT, name="last"),
            HeldObject(agent=AGENT, kind="AppProject", namespace=ARGOCD, name="last-project"),
        }
        # An operator has looked.
        assert hub.principal.release(AGENT) == 2
        await ask(pipe, "Application", "last")
        assert await told(pipe, Message.DELETE) == "last"


async def test_a_principal_that_was_not_promoted_says_what_is_gone() -> None:
    async with scripted(Mode.MANAGED) as (hub, pipe):
        await told(pipe, Message.REQUEST_RESOURCE_RESYNC)
        await ask(pipe, "Application", "last")
        assert await told(pipe, Message.DELETE) == "last"
        assert hub.principal is not None
        assert hub.principal.held.all() == ()
