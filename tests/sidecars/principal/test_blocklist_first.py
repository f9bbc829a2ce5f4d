"""A principal lets nobody in before it knows who is blocked."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from argocd import names
from kube.embedded import EmbeddedStore
from kube.errors import ForbiddenError
from kube.resources import CONFIG_MAPS
from kube.store import ListPage, Resource
from sidecars.principal import process as principals
from sidecars.principal import watched_blocklist
from tests.sidecars import processes
from tests.sidecars.pair_in_memory import ARGOCD, Hub
from tests.sidecars.processes import PATIENCE, Pki
from tests.sidecars.wire.listening_principal import until as eventually
from tiphys.errors import SurroundingsError


@dataclass
class SlowBlocklist:
    """Faults of a store: the list of ConfigMaps takes until it is `known`, or is `forbidden`."""

    known: asyncio.Event = field(default_factory=asyncio.Event)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    forbidden: bool = False


def slow_store(slow: SlowBlocklist) -> EmbeddedStore:
    class Store(EmbeddedStore):
        async def list(self, resource: Resource, **more: Any) -> ListPage:
            if resource is CONFIG_MAPS and names.TLS_BLOCKLIST in more.get("field_selector", ""):
                slow.asked.set()
                if slow.forbidden:
                    raise ForbiddenError("configmaps is forbidden")
                await slow.known.wait()
            return await super().list(resource, **more)

    return Store(namespaces=[ARGOCD, "agent-a"])


async def block(store: EmbeddedStore, fingerprint: str) -> None:
    body = {"metadata": {"name": names.TLS_BLOCKLIST}, "data": {fingerprint: ""}}
    await store.create(CONFIG_MAPS, body, namespace=ARGOCD)


async def equipped(store: EmbeddedStore, pki: Pki) -> principals.PrincipalProcess:
    await Hub(store).know("agent-a")
    pair = pki.pair("principal", server=True)
    await pki.equip(store, namespace=ARGOCD, name="argocd-agent-principal-tls", pair=pair)
    return processes.principal_process(store)


async def test_the_port_opens_when_the_blocklist_was_read_and_not_before() -> None:
    slow, pki = SlowBlocklist(), Pki()
    hub, workload = slow_store(slow), EmbeddedStore(namespaces=[ARGOCD])
    process = await equipped(hub, pki)
    await processes.equipped_agent(workload, pki, name="agent-a", port=1)
    async with processes.started(process), asyncio.timeout(PATIENCE):
        await slow.asked.wait()
        await process.health.listening.wait()
        assert not process.listening.is_set()
        status, words = await processes.fetch(process.health.port, "/readyz")
        assert status == 503
        assert names.TLS_BLOCKLIST in words
        shown = await processes.shown_certificate(workload)
        await block(hub, shown.fingerprint)
        slow.known.set()
        await process.listening.wait()
        agent = processes.agent(workload, port=process.port)
        async with processes.started(agent):
            await eventually(lambda: "UNAUTHENTICATED" in agent.link.error)
            assert process.server is not None
            assert len(process.server.sessions) == 0


async def test_a_blocklist_that_may_not_be_read_ends_the_principal_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watched_blocklist, "SYNC_SECONDS", 0.2)
    slow, pki = SlowBlocklist(forbidden=True), Pki()
    process = await equipped(slow_store(slow), pki)
    with pytest.raises(ExceptionGroup) as caught:
        async with asyncio.timeout(PATIENCE):
            await process.run()
    assert caught.group_contains(
        SurroundingsError, match=f"{names.TLS_BLOCKLIST} cannot be read.*list and watch"
    )
    assert not process.listening.is_set()
