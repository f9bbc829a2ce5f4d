"""The wire with a real argocd-agent at the other end, in both roles; `ARGOCD_AGENT_BIN` names the binary."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from argocd.agents.vocabulary import Message, Mode, Target
from certs.key_pair import Material
from scripts.argocd_agent import BINARY, agent_arguments, principal_arguments
from scripts.cluster.controlplane import Cluster
from scripts.ports import free_port
from sidecars.wire.client.dialer import DialError, DialOptions, connect
from sidecars.wire.events import AGENT_SOURCE, Event, acknowledgement, message_event
from sidecars.wire.json_objects import read_object
from sidecars.wire.payloads import RequestResourceResync, RequestSyncedResourceList, read, write
from tests.sidecars.wire.go_binary import running, said, written
from tests.sidecars.wire.listening_principal import AGENT, AUTHORITY, Principal, started, until
from tests.sidecars.wire.pki import CLIENT, issue

START_SECONDS = 60.0

pytestmark = [
    pytest.mark.skipif(not BINARY, reason="ARGOCD_AGENT_BIN names no argocd-agent"),
    pytest.mark.timeout(180),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return written(tmp_path, agent=AGENT)


@asynccontextmanager
async def listening() -> AsyncIterator[Principal]:
    principal = await started(listening={"port": free_port()})
    try:
        yield principal
    finally:
        await principal.server.stop(grace=0)


@pytest.mark.parametrize("mode", ["managed", "autonomous"])
async def test_a_go_agent_joins_and_understands_us(
    folder: Path, cluster: Cluster, namespace: str, mode: str
) -> None:
    async with (
        listening() as principal,
        running(folder, *agent_arguments(folder, cluster, namespace, principal.port, mode)) as log,
    ):
        try:
            await until(lambda: not principal.recorder.streams.empty())
        except TimeoutError:
            raise AssertionError(said(log)) from None
        peer, stream = await principal.recorder.stream()
        assert (peer.name, peer.mode) == ("agent-1", mode), said(log)
        (admission, *_) = principal.gate.admitted
        assert admission.agent_namespace == namespace

        first = await principal.recorder.event()
        assert first is not None
        assert (first.source, first.target) == (AGENT_SOURCE, Target.RESOURCE_RESYNC)
        if mode == "managed":
            assert first.type == Message.REQUEST_SYNCED_RESOURCE_LIST
            assert not read(RequestSyncedResourceList, first.payload).checksum
        else:
            assert first.type == Message.REQUEST_RESOURCE_RESYNC
        await stream.send(acknowledgement(first))

        ours = message_event(
            Message.REQUEST_RESOURCE_RESYNC,
            target=Target.RESOURCE_RESYNC,
            payload=write(RequestResourceResync()),
        )
        await stream.send(ours)
        await answered(principal, ours)


async def answered(principal: Principal, sent: Event) -> None:
    """An acknowledgement comes back, whatever else the agent has to say meanwhile."""
    async with asyncio.timeout(START_SECONDS):
        while True:
            event = await principal.recorder.event()
            assert event is not None
            if event.is_acknowledgement and event.event_id == sent.event_id:
                return


async def test_we_join_a_go_principal_and_get_its_projects(
    folder: Path, cluster: Cluster, namespace: str
) -> None:
    port = free_port()
    project = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "sourceNamespaces": ["*"],
            "sourceRepos": ["*"],
            "destinations": [{"name": "*", "namespace": "*"}],
        },
    }
    path = f"/apis/argoproj.io/v1alpha1/namespaces/{namespace}/appprojects"
    async with running(folder, *principal_arguments(folder, cluster, namespace, port)) as log:
        connection = await eventually_connected(port, log)
        try:
            assert connection.me.agent == "agent-1"
            assert connection.extensions == frozenset()
            assert connection.principal.namespace == namespace
            await asyncio.to_thread(cluster.request, "POST", path, project)
            async with asyncio.timeout(START_SECONDS):
                while True:
                    event = await connection.receive()
                    assert event is not None, said(log)
                    await connection.send(acknowledgement(event, source=AGENT_SOURCE))
                    if event.target == Target.PROJECT:
                        break
            assert event.type in {Message.CREATE, Message.SPEC_UPDATE}
            assert read_object(event.payload)["metadata"]["name"] == "web"
        finally:
            await connection.close()


async def test_a_go_principal_refuses_who_is_not_its_agent(
    folder: Path, cluster: Cluster, namespace: str
) -> None:
    port = free_port()
    async with running(folder, *principal_arguments(folder, cluster, namespace, port)) as log:
        await (await eventually_connected(port, log)).close()
        nobody = issue("Not-An-Agent", AUTHORITY, usage=[CLIENT])
        with pytest.raises(DialError, match="authentication failed") as caught:
            await connect(dialing(port, nobody))
        assert caught.value.hopeless


def dialing(port: int, agent: Any = AGENT) -> Any:
    return DialOptions(
        host="127.0.0.1",
        port=port,
        material=Material(agent.pair(), AUTHORITY.pem),
        mode=Mode.MANAGED,
        namespace="argocd",
        version="0.1.0",
    )


async def eventually_connected(port: int, log: Path) -> Any:
    """The principal needs a while to read its caches."""
    try:
        async with asyncio.timeout(START_SECONDS):
            while True:
                try:
                    return await connect(dialing(port))
                except DialError:
                    await asyncio.sleep(0.2)
    except TimeoutError:
        raise AssertionError(said(log)) from None
