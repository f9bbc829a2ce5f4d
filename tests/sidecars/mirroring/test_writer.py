"""Writes of mirrors and copies: based on what is there, of this object and no later one of its name, and not for ever."""

from typing import Any

import pytest

from argocd import names
from kube import queries
from kube.embedded import Call, EmbeddedStore, Phase
from kube.resources import APPLICATIONS, NAMESPACES
from kube.store import Object
from sidecars.mirroring.writer import MirrorWriter, WriteBusyError
from tests.sidecars.replication.hubs import application, create, embedded

HOME = "agent-a"


async def web(store: EmbeddedStore) -> Object | None:
    return await queries.find(store, APPLICATIONS, name="web", namespace=HOME)


def revised(revision: str) -> Any:
    def decide(there: Object | None) -> Object | None:
        if there is None:
            return application("web", revision=revision)
        source = {**there["spec"]["source"], "targetRevision": revision}
        return {**there, "spec": {**there["spec"], "source": source}}

    return decide


async def made_anew(store: EmbeddedStore, *, finalizers: bool) -> tuple[Object, Object]:
    """One that was there, and the later one of its name."""
    body = application("web")
    if finalizers:
        body["metadata"]["finalizers"] = [names.RESOURCES_FINALIZER]
    former = await create(store, APPLICATIONS, body, namespace=HOME)
    bare = {**former, "metadata": {**former["metadata"], "finalizers": []}}
    gone = await store.replace(APPLICATIONS, bare)
    await store.delete(APPLICATIONS, name="web", namespace=HOME, uid=gone["metadata"]["uid"])
    return former, await create(store, APPLICATIONS, body, namespace=HOME)


@pytest.mark.parametrize("finalizers", [False, True])
async def test_a_later_one_of_the_name_is_neither_deleted_nor_robbed_of_its_finalizers(
    *, finalizers: bool
) -> None:
    store = embedded()
    former, later = await made_anew(store, finalizers=finalizers)
    await MirrorWriter(store).delete_at_once(APPLICATIONS, former)
    await MirrorWriter(store).delete(APPLICATIONS, former, propagation="Background")
    assert await web(store) == later


async def test_what_somebody_else_wrote_meanwhile_is_decided_on_anew() -> None:
    store = embedded()
    old = await create(store, APPLICATIONS, application("web"), namespace=HOME)
    await store.replace(APPLICATIONS, {**old, "operation": {"sync": {}}})
    stored = await MirrorWriter(store).settle(
        APPLICATIONS, name="web", namespace=HOME, cached=old, decide=revised("v2")
    )
    assert stored is not None
    assert stored == await web(store)
    assert stored["operation"] == {"sync": {}}
    assert stored["spec"]["source"]["targetRevision"] == "v2"


async def test_nothing_to_be_written_is_believed_of_a_fresh_object_only() -> None:
    store = embedded()
    old = await create(store, APPLICATIONS, application("web", revision="v2"), namespace=HOME)
    await store.replace(APPLICATIONS, revised("v1")(old))
    await MirrorWriter(store).settle(
        APPLICATIONS, name="web", namespace=HOME, cached=old, decide=revised("v2")
    )
    there = await web(store)
    assert there is not None
    assert there["spec"]["source"]["targetRevision"] == "v2"


async def test_somebody_who_writes_all_the_time_is_not_fought_for_ever() -> None:
    store, writes = embedded(), 0
    await create(store, APPLICATIONS, application("web"), namespace=HOME)

    async def cross(call: Call) -> None:
        nonlocal writes
        if (call.verb, call.phase) == ("replace", Phase.BEFORE) and not crossing:
            writes += 1
            crossing.append(True)
            await store.replace(APPLICATIONS, revised(f"theirs-{writes}")(await web(store)))
            crossing.clear()

    crossing: list[bool] = []
    store.hooks.faults = cross
    with pytest.raises(WriteBusyError, match="is written by somebody else all the time"):
        await MirrorWriter(store).settle(
            APPLICATIONS, name="web", namespace=HOME, cached=None, decide=revised("ours")
        )
    there = await web(store)
    assert there is not None
    assert there["spec"]["source"]["targetRevision"] == f"theirs-{writes}"


async def test_a_namespace_that_is_there_stays_as_it_is() -> None:
    store = embedded()
    writer = MirrorWriter(store)
    await writer.create_namespace("new", labels={"a": "b"})
    await writer.create_namespace("new")
    there = await store.get(NAMESPACES, name="new")
    assert there["metadata"]["labels"]["a"] == "b"
