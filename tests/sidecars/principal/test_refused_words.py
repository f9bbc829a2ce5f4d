"""What an agent says and the API server refuses leaves nothing behind, and what two agents say of one name only
what was written.
"""

import asyncio
import gc
import tracemalloc
from contextlib import AsyncExitStack

from argocd.agents.vocabulary import Message, Mode, Target
from argocd.reading import value
from kube.embedded import AdmissionRequest, Admitted, EmbeddedStore, Hooks
from kube.errors import InvalidError
from kube.resources import APP_PROJECTS, APPLICATIONS
from kube.store import Object
from sidecars.mirroring.drift import GUARDED_BYTES
from sidecars.wire.events import Event, object_event
from tests.sidecars.pair_in_memory import ARGOCD, PLAIN, Hub, Pipe, application, pipes, project, until
from tests.sidecars.scripted_ends import AGENT, acknowledged, scripted

MEBIBYTE = 1 << 20


def said(target: Target, obj: Object, *, uid: str, version: int = 1) -> Event:
    obj["metadata"] |= {"uid": uid, "resourceVersion": str(version)}
    return object_event(Message.SPEC_UPDATE, target=target, obj=obj)


async def refuse_argocd(request: AdmissionRequest) -> Admitted:
    if request.resource in {APPLICATIONS, APP_PROJECTS}:
        raise InvalidError("a bad name")
    return Admitted()


async def test_refused_events_of_any_size_do_not_stay_in_memory() -> None:
    store = EmbeddedStore(namespaces=[ARGOCD, AGENT], hooks=Hooks(admission=refuse_argocd))
    async with scripted(Mode.AUTONOMOUS, store=store) as (_, pipe):
        tracemalloc.start()
        try:
            await acknowledged(pipe, said(Target.PROJECT, project("first"), uid="first"))
            gc.collect()
            before, _peak = tracemalloc.get_traced_memory()
            for number in range(20):
                large = application(f"app-{number}", operation={"info": [{"value": "o" * MEBIBYTE}]})
                await acknowledged(pipe, said(Target.APPLICATION, large, uid=f"a{number}"))
                wide = project(f"project-{number}", description="p" * MEBIBYTE)
                await acknowledged(pipe, said(Target.PROJECT, wide, uid=f"p{number}"))
                pipe.sent.clear()
            gc.collect()
            after, _peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert after - before < 4 * MEBIBYTE


async def test_what_is_remembered_of_an_agent_has_a_limit_and_is_forgotten_with_it() -> None:
    async with scripted(Mode.AUTONOMOUS) as (hub, pipe):
        assert hub.principal is not None
        for number in range(20):
            wide = project(f"project-{number}", description="p" * MEBIBYTE)
            await acknowledged(pipe, said(Target.PROJECT, wide, uid=f"p{number}"))
        held = hub.principal.guard.held_bytes(AGENT)
        assert GUARDED_BYTES / 2 < held <= GUARDED_BYTES
        for number in range(20):
            gone = object_event(
                Message.DELETE, target=Target.PROJECT, obj={"metadata": {"name": f"project-{number}"}}
            )
            await acknowledged(pipe, gone)
        assert hub.principal.guard.held_bytes(AGENT) == 0


async def test_an_agent_that_loses_a_race_for_a_name_does_not_win_it_later() -> None:
    """`a` + `b-c` and `a-b` + `c` are one name. The loser's content must not be written over the winner's."""
    ends: dict[str, Pipe] = {}
    both, written = asyncio.Barrier(2), asyncio.Event()

    async def together(request: AdmissionRequest) -> Admitted:
        if request.name == "a-b-c" and request.operation == "CREATE":
            async with asyncio.timeout(10):
                await both.wait()
                if value(request.new, "spec", "description") == "a-b":
                    await written.wait()  # whoever was last to ask is not first to write
        return Admitted()

    async def wins() -> None:
        told = said(Target.PROJECT, project("b-c", description="a"), uid="ua")
        await acknowledged(ends["a"], told)
        written.set()

    store = EmbeddedStore(namespaces=[ARGOCD, "a", "a-b"], hooks=Hooks(admission=together))
    hub = Hub(store, allowed_namespaces=("*",))
    await hub.know("a")
    await hub.know("a-b")
    async with hub.running() as principal, AsyncExitStack() as stack:
        for name in ("a", "a-b"):
            here, ends[name] = pipes()
            serving = asyncio.ensure_future(principal.serve(name, Mode.AUTONOMOUS, here, extensions=PLAIN))
            stack.callback(serving.cancel)
        await asyncio.gather(
            wins(),
            acknowledged(ends["a-b"], said(Target.PROJECT, project("c", description="a-b"), uid="uab")),
        )
        there = await store.get(APP_PROJECTS, name="a-b-c", namespace=ARGOCD)
        winner = there["spec"]["description"]
        assert (winner, there["spec"]["sourceNamespaces"]) == ("a", ["a"])
        # Somebody changes it: what is written back is the winner's.
        changed = {**there, "spec": {**there["spec"], "description": "somebody's"}}
        await store.replace(APP_PROJECTS, changed)
        back = await until(
            store, APP_PROJECTS, lambda there: there["a-b-c"]["spec"]["description"] != "somebody's"
        )
        assert back["a-b-c"]["spec"]["description"] == winner
        assert back["a-b-c"]["spec"]["sourceNamespaces"] == [winner]


async def test_a_change_during_a_write_is_judged_when_it_is_done() -> None:
    async with scripted(Mode.AUTONOMOUS) as (hub, pipe):
        told = application("shop")
        await acknowledged(pipe, said(Target.APPLICATION, told, uid="u"))
        there = await hub.store.get(APPLICATIONS, name="shop", namespace=AGENT)
        changed = {**there, "spec": {**there["spec"], "project": "somebody's"}}
        await hub.store.replace(APPLICATIONS, changed)
        await until(
            hub.store,
            APPLICATIONS,
            lambda there: there["shop"]["spec"]["project"] != "somebody's",
            namespace=AGENT,
        )
