"""The certificate and the authorities of the resource proxy's port: taken when they come, left alone when they are none."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from kube.embedded import EmbeddedStore
from sidecars.principal.process import PrincipalProcess
from tests.sidecars import processes
from tests.sidecars.captured_logs import logged
from tests.sidecars.proxies.hub_caller import hub_caller, resource_port
from tests.sidecars.proxies.redis.redis_servers import PATIENCE, eventually

PAIR = "argocd-agent-resource-proxy-tls"
AUTHORITIES = "argocd-agent-ca"
NOT_SERVED = (
    "no certificate for the resource proxy: live objects are not served; `tiphys pki issue resource-proxy`"
    " makes one, --enable-resource-proxy=false ends this"
)
OLD_STAYS = "the resource proxy's new certificate cannot be used: the old one stays"
NO_AUTHORITIES = [b"", b"none", b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"]


class Scene:
    def __init__(self, store: EmbeddedStore, pki: processes.Pki, process: PrincipalProcess) -> None:
        self.store = store
        self.pki = pki
        self.process = process

    async def put(self, name: str, **data: bytes) -> None:
        parts = {key.replace("_", "."): part for key, part in data.items()}
        await processes.put_secret(self.store, namespace="argocd", name=name, data=parts)

    async def answers(self) -> bool:
        """That the agent is not there."""
        assert self.process.resources is not None
        await asyncio.wait_for(self.process.resources.listening.wait(), PATIENCE)
        async with hub_caller(self.pki, self.process.resources.port, agent="agent-a") as caller:
            return (await caller.get("/version")).status == 502


@pytest.fixture
async def at() -> AsyncIterator[Scene]:
    store, pki = EmbeddedStore(namespaces=["argocd"]), processes.Pki()
    options = await resource_port(store, pki, namespace="argocd")
    async with processes.principal(store, pki, serving={"resources": options}) as process:
        yield Scene(store, pki, process)


@pytest.mark.parametrize("authorities", NO_AUTHORITIES, ids=["empty", "no PEM", "no certificate"])
async def test_authorities_that_are_none_end_nothing(at: Scene, authorities: bytes) -> None:
    assert await at.answers()
    lines = logged(level="warning")
    await at.put(AUTHORITIES, ca_crt=authorities)
    await eventually(lambda: lines(OLD_STAYS))
    await eventually(lambda: lines("new certificates cannot be used: the old ones stay"))
    assert await at.answers(), "as before"
    assert lines(NOT_SERVED) == []


async def test_a_certificate_that_is_none_leaves_the_old_one(at: Scene) -> None:
    assert await at.answers()
    lines = logged(level="warning")
    await at.put(PAIR, tls_crt=b"none", tls_key=b"none")
    await eventually(lambda: lines(OLD_STAYS))
    assert await at.answers()
    await at.put(PAIR, tls_crt=b"none", tls_key=b"nothing")
    pair = at.pki.pair("proxy", server=True)
    await at.put(PAIR, tls_crt=pair.certificate, tls_key=pair.key)
    held = at.process.resources
    assert held is not None
    await eventually(lambda: held._held is not None and held._held.pair == pair)
    assert await at.answers()
    assert len(lines(OLD_STAYS)) == 1, "once, however often it looks"


async def test_without_a_certificate_nothing_listens_and_a_later_one_opens_the_port() -> None:
    store, pki = EmbeddedStore(namespaces=["argocd"]), processes.Pki()
    options = await resource_port(store, pki, namespace="argocd")
    pair = pki.pair("proxy", server=True)
    lines = logged(level="warning")
    await processes.put_secret(store, namespace="argocd", name=PAIR, data={"tls.crt": b"", "tls.key": b""})
    async with processes.principal(store, pki, serving={"resources": options}) as process:
        at = Scene(store, pki, process)
        await eventually(lambda: lines(NOT_SERVED))
        assert process.resources is not None
        assert not process.resources.listening.is_set()
        await at.put(PAIR, tls_crt=pair.certificate, tls_key=pair.key)
        assert await at.answers()
