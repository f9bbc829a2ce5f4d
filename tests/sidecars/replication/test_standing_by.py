"""What a principal of a pair that is not the active one says to whoever comes, agents and health checks."""

import asyncio
from datetime import UTC, datetime

import aiohttp
import grpc
import pytest
from grpc import aio

from certs.key_pair import Material
from kube.resources import LEASES
from sidecars.process.serving_gate import REJECTED
from sidecars.wire.data_streams import LOGS, TERMINAL
from sidecars.wire.tls import channel_credentials
from tests.sidecars.pair_in_memory import ARGOCD
from tests.sidecars.replication.hubs import until
from tests.sidecars.replication.paired_principals import FencedStore, Region, following, regions
from tests.sidecars.replication.test_pair import eventually_replicating

CALLS = {
    "Authenticate": "authapi.Authentication/Authenticate",
    "RefreshToken": "authapi.Authentication/RefreshToken",
    "Subscribe": "eventstreamapi.EventStream/Subscribe",
    "StreamLogs": LOGS,
    "StreamTerminal": TERMINAL,
}


async def told(region: Region) -> tuple[int, str]:
    """What a load balancer sees: code and header."""
    assert region.process is not None
    address = f"http://127.0.0.1:{region.process.health.port}/healthz"
    async with aiohttp.ClientSession() as session, session.get(address) as answer:
        return answer.status, answer.headers["X-HA-State"]


async def refused(region: Region, path: str) -> tuple[grpc.StatusCode, str]:
    material = Material(region.pki.pair("agent-a", server=False), region.pki.authority.pair.certificate)
    async with aio.secure_channel(f"localhost:{region.port}", channel_credentials(material)) as channel:
        call = channel.stream_stream(f"/{path}")(iter([b""]), timeout=30)
        with pytest.raises(aio.AioRpcError) as caught:
            await anext(aiter(call))
    return caught.value.code(), caught.value.details() or ""


def rejected(call: str) -> float:
    return float(REJECTED.labels("replicating", call)._value.get())


@pytest.mark.parametrize("call", list(CALLS))
async def test_every_call_of_an_agent_is_turned_away_and_counted(call: str) -> None:
    async with regions(FencedStore(), FencedStore()) as (one, two):
        await following(one, two)
        await eventually_replicating(one, two)
        before = rejected(call)
        assert await refused(two, CALLS[call]) == (
            grpc.StatusCode.UNAVAILABLE,
            "not accepting connections in state replicating",
        )
        assert rejected(call) == before + 1


async def test_every_path_that_the_active_one_serves_agents_on_is_among_these() -> None:
    async with regions(FencedStore(), FencedStore()) as (one, two):
        await following(one, two)
        assert two.process is not None
        assert two.process.server is not None
        served = {path for each in two.process.server._handlers() for path in each._method_handlers}
    assert served - {"/versionapi.Version/Version"} == {f"/{path}" for path in CALLS.values()}


async def test_a_health_check_reads_the_state_in_every_state_also_before_the_lease() -> None:
    a, b = FencedStore(), FencedStore()
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "other", "leaseDurationSeconds": 600, "renewTime": now, "acquireTime": now}
    held = await a.create(LEASES, {"metadata": {"name": "tiphys-principal"}, "spec": spec}, namespace=ARGOCD)
    async with regions(a, b) as (one, two):
        starting = asyncio.ensure_future(asyncio.gather(one.start(), two.start()))
        await until(lambda: one.process is not None and one.process.health.port)
        assert await told(one) == (503, "recovering")
        await a.delete(LEASES, name=held["metadata"]["name"], namespace=ARGOCD)
        await starting
        await one.until("active")
        await two.until("replicating")
        assert await told(one) == (200, "active")
        assert await told(two) == (503, "replicating")
