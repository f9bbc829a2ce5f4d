"""Replicas of a sidecar: one works, the others wait, and all of them answer."""

import asyncio
import socket

import pytest

from kube.embedded import EmbeddedStore
from kube.resources import LEASES
from sidecars.process.leadership import Leadership, ReplicaOptions
from tests.sidecars import processes
from tests.sidecars.pair_in_memory import ARGOCD
from tests.sidecars.wire.listening_principal import until as eventually
from tiphys.errors import SurroundingsError
from tiphys.http_server import HttpPage


class Replica:
    def __init__(self, store: EmbeddedStore, identity: str, *, health_port: int = 0) -> None:
        options = ReplicaOptions(
            health_host="127.0.0.1", health_port=health_port, metrics_port=0, identity=identity
        )
        self.leadership = Leadership(
            store,
            options,
            role="agent",
            namespace=ARGOCD,
            probes={"/healthz": lambda: HttpPage(b"alive\n")},
            figures=lambda: b"figures_of_work 1\n",
        )
        self.works = False

    async def run(self) -> None:
        await self.leadership.run(self._work)

    async def _work(self) -> None:
        self.works = True
        try:
            await asyncio.Event().wait()
        finally:
            self.works = False


async def test_the_second_waits_for_the_first_and_takes_over_when_it_leaves() -> None:
    store = EmbeddedStore(namespaces=[ARGOCD])
    first, second = Replica(store, "first"), Replica(store, "second")
    async with processes.started(second):
        async with processes.started(first):
            await eventually(lambda: first.works or second.works)
            working, waiting = (first, second) if first.works else (second, first)
            await eventually(lambda: bool(waiting.leadership.waits))
            assert "holds" in waiting.leadership.waits
            assert not waiting.works
            assert not working.leadership.waits
            for replica in (first, second):
                await replica.leadership.health.listening.wait()
                assert await processes.fetch(replica.leadership.health.port, "/healthz") == (200, "alive\n")
                status, figures = await processes.fetch(replica.leadership.metrics.port, "/metrics")
                assert status == 200
                assert "argocd_agent_connection_status" in figures
                assert figures.endswith("figures_of_work 1\n")
        await eventually(lambda: second.works)
        assert second.leadership.waits == ""


async def test_a_port_that_is_taken_ends_a_replica_before_it_asks_for_the_lease() -> None:
    store = EmbeddedStore(namespaces=[ARGOCD])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        replica = Replica(store, "first", health_port=taken.getsockname()[1])
        with pytest.raises(ExceptionGroup) as caught:
            await replica.run()
    assert [type(each) for each in caught.value.exceptions] == [SurroundingsError]
    assert (await store.list(LEASES, namespace=ARGOCD)).items == []
