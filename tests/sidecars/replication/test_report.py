"""What the two of a pair tell each other for people to see."""

from typing import Any

import orjson
import pytest

from kube.embedded import EmbeddedStore
from kube.resources import SECRETS
from sidecars.replication.control.status import status
from sidecars.replication.report import AGENT_LINES, MAX_BYTES, ConnectedAgent, PeerReport
from tests.sidecars import processes
from tests.sidecars.pair_in_memory import ARGOCD
from tests.sidecars.replication.hubs import Hub, Pair, certificate, cluster_secret, embedded
from tests.sidecars.replication.paired_principals import FencedStore, Region, regions
from tests.sidecars.replication.test_refusals import ask

AGENT = "agent-a"


async def reported(region: Region) -> Any:
    await region.controller.ask()
    return status(region.controller)["peer"]["report"]


async def test_a_standby_shows_who_is_connected_there_also_when_that_one_is_gone() -> None:
    a, b, workload = FencedStore(), FencedStore(), EmbeddedStore(namespaces=[ARGOCD])
    async with regions(a, b) as (one, two):
        await two.start()  # first, so that the other reaches it with its first question
        await one.start()
        await one.until("active")
        await two.until("replicating")
        await a.create(SECRETS, cluster_secret(AGENT), namespace=ARGOCD)
        async with processes.connected_agent(workload, one.pki, name=AGENT, port=one.port):
            here = status(one.controller)
            (agent,) = here["agents"]
            assert (agent["name"], agent["mode"], here["connected_agents"]) == (AGENT, "managed", 1)
            there = await reported(two)
            assert (there["connected_agents"], there["agents"]) == (1, [agent])
            assert set(there["digests"]) == set(here["digests"])
            assert (await reported(one))["agents"] == []
            await one.stop()
        assert (await reported(two))["agents"] == [agent]
        assert status(two.controller)["peer"]["reported_seconds"] >= 0


async def test_only_a_peer_of_ours_is_told() -> None:
    async with Pair(Hub(embedded()), Hub(embedded())).running(following=False) as pair:
        answer, _, _ = await ask(pair, certificate("standby"), mine=pair.passive.handshake)
        assert PeerReport.read(answer.report) == PeerReport(agents=[])
        answer, _, _ = await ask(pair, certificate("standby"))
        assert answer.report == b""


def test_a_report_is_read_as_it_was_told_and_in_bounds() -> None:
    agents = [
        ConnectedAgent(name=f"a-{number}", mode="managed", since="now") for number in range(AGENT_LINES)
    ]
    told = PeerReport(
        detail="diverged",
        sequence=7,
        lag_events=2,
        digests={"applications": "ab"},
        connected_agents=300,
        agents=agents,
    )
    assert PeerReport.read(told.encoded()) == told
    more = orjson.loads(told.encoded())
    more |= {"agents": more["agents"] * 2, "sequence": -1, "digests": {"frogs": "x"}, "lag_events": True}
    read = PeerReport.read(orjson.dumps(more))
    assert read is not None
    assert (len(read.agents), read.sequence, read.digests, read.lag_events) == (AGENT_LINES, 0, {}, 0)


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"7", b'"' + b"x" * MAX_BYTES + b'"'])
def test_what_cannot_be_read_is_no_report(raw: bytes) -> None:
    assert PeerReport.read(raw) is None
