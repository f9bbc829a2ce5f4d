"""A switchover that whoever asked leaves, that cannot be undone at once, whose replica cannot follow in time."""

import asyncio
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest
from grpc import aio

from argocd.agents.replication import DELETING
from argocd.names import HA_RECORD
from certs.key_pair import Material
from kube.embedded import EmbeddedStore
from kube.errors import UnavailableError
from kube.resources import APP_PROJECTS, SECRETS
from kube.store import Object, Resource
from sidecars.fleet import ha_client
from sidecars.fleet.ha_client import HaRefusedError, HaUnknownError
from sidecars.principal import principal
from sidecars.principal.roles import active
from sidecars.replication.control import changes, observer, switchover
from sidecars.replication.envelopes import START_KEY
from sidecars.replication.messages import ReplicaStart
from sidecars.replication.primary.source import ReplicationSource
from sidecars.replication.standby.connection import SUBSCRIBE
from sidecars.replication.states import HaState
from sidecars.wire.tls import channel_credentials
from tests.sidecars import processes
from tests.sidecars.pair_in_memory import ARGOCD, project, until
from tests.sidecars.replication.hubs import cluster_secret
from tests.sidecars.replication.paired_principals import (
    JO,
    NAMES,
    FencedStore,
    deleted_meanwhile,
    following,
    regions,
)
from tests.sidecars.replication.step_store import (
    WORD,
    StepStore,
    audit,
    operator,
    read_what,
    record,
    switched,
)
from tests.sidecars.replication.test_pair import eventually_replicating
from tests.sidecars.wire.listening_principal import until as eventually

AGENT = "agent-a"


@pytest.mark.parametrize("heard", [1, 2, 3])
async def test_a_switchover_goes_on_when_whoever_asked_for_it_leaves(heard: int) -> None:
    async with regions(FencedStore(), FencedStore()) as (one, two):
        await following(one, two)
        await eventually_replicating(one, two)
        lines: Any = operator(one).switchover(WORD, dry_run=False)
        async with aclosing(lines):
            for _ in range(heard):
                await anext(lines)
        await two.until("active")
        await one.until("replicating")
        assert audit(one)[-1] in {"switchover done", "met the peer"}
        assert (record(one).step, record(one).token) == ("", {})


async def test_a_second_operator_hears_that_a_switchover_is_under_way() -> None:
    a = StepStore()
    async with regions(a, FencedStore()) as (one, two):
        await following(one, two)
        await eventually_replicating(one, two)
        a.ends_at = "switchover: closed to writers"
        first = asyncio.ensure_future(switched(one))
        await a.ended.wait()
        with pytest.raises(HaRefusedError, match="a switchover is under way here"):
            await switched(one)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        a.revive()


@pytest.mark.parametrize("seconds", [switchover.UNDO_SECONDS, 0.0], ids=["tried again", "settled later"])
async def test_what_cannot_be_undone_at_once_is_undone_later(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(switchover, "UNDO_SECONDS", seconds)
    monkeypatch.setattr(switchover, "RETRY_SECONDS", 0.05)
    a, b = StepStore(), FencedStore()
    async with regions(a, b) as (one, two):
        await following(one, two)
        await eventually_replicating(one, two)
        # The fence closes and cannot be proven: nobody was given anything.
        a.fenced = False
        failed: list[str] = []

        def refuses(what: str) -> bool:
            refused = what == "switchover undone" and not failed
            failed.extend([what] * refused)
            return refused

        a.refuses = refuses
        monkeypatch.setattr(switchover, "REACH_SECONDS", 0.5)
        with pytest.raises(HaRefusedError if seconds else HaUnknownError, match="undone"):
            await switched(one)
        await one.until("active")
        assert failed
        assert audit(one)[-1] == "switchover undone"
        assert await one.health() == (200, "")
        await two.until("replicating")


async def test_a_token_whose_record_is_not_answered_for_is_not_given() -> None:
    """It may be stored, and nobody has it but this process, which knows: it serves on."""
    a = StepStore()
    async with regions(a, FencedStore()) as (one, two):
        await following(one, two)
        await eventually_replicating(one, two)
        a.loses = lambda what: what == "switchover: token given"
        with pytest.raises(HaRefusedError, match="all is undone"):
            await switched(one)
        assert one.state == "active"
        assert (record(one).role, record(one).step, record(one).token) == ("active", "", {})
        assert "switchover: token given" in audit(one)
        await two.until("replicating")


async def test_a_token_of_whose_record_only_the_answer_was_lost_is_given() -> None:
    a = StepStore()
    async with regions(a, FencedStore()) as (one, two):
        await following(one, two)
        await eventually_replicating(one, two)
        a.loses, a.lost_looks = lambda what: what == "switchover: token given", 0
        assert (await switched(one))[-1] == "the peer is active under epoch 2; this one follows"


async def test_what_an_earlier_primary_had_begun_goes_on_after_a_switchover_that_is_undone() -> None:
    a = StepStore()
    async with regions(a, FencedStore()) as (one, two):
        await following(one, two)
        await eventually_replicating(one, two)
        deleted = project("deleted")
        deleted["metadata"]["annotations"] = {DELETING: "2026-11-18T08:00:00Z"}
        await a.create(APP_PROJECTS, deleted, namespace=ARGOCD)
        a.loses = lambda what: what == "switchover: token given"
        with pytest.raises(HaRefusedError, match="all is undone"):
            await switched(one)
        await until(a, APP_PROJECTS, lambda there: "deleted" not in there)


class StuckStore(FencedStore):
    """One object cannot be written here."""

    async def create(self, resource: Resource, body: Object, **more: Any) -> Object:
        if body["metadata"].get("name") == "stuck":
            raise UnavailableError("no answer")
        return await super().create(resource, body, **more)


async def test_a_switchover_is_undone_where_the_replica_does_not_have_everything_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(switchover, "REACH_SECONDS", 1.0)
    a, b, workload = FencedStore(), StuckStore(), EmbeddedStore(namespaces=[ARGOCD])
    async with regions(a, b) as (one, two):
        await following(one, two)
        await eventually_replicating(one, two)
        await a.create(SECRETS, cluster_secret(AGENT), namespace=ARGOCD)
        async with processes.connected_agent(workload, one.pki, name=AGENT, port=one.port):
            await eventually(lambda: one.controller.role.active.connected == 1)
            await a.create(APP_PROJECTS, project("stuck"), namespace=ARGOCD)
            with pytest.raises(HaRefusedError, match="did not have everything within 1 s") as caught:
                await switched(one)
            assert caught.value.exit_code == 1
            assert one.state == "active"
            assert await one.health() == (200, "")
            assert (record(one).role, record(one).step, record(one).token) == ("active", "", {})
            assert audit(one)[-2:] == ["switchover begun", "switchover undone"]
            await eventually(lambda: one.controller.role.active.connected == 1)
            # Nothing of replication was ended by it.
            assert two.state == "replicating"
            await a.create(APP_PROJECTS, project("later"), namespace=ARGOCD)
            await until(b, APP_PROJECTS, lambda there: "later" in there)


async def test_a_switchover_that_held_deletions_would_undo_stops_nobody() -> None:
    b = FencedStore()
    async with regions(FencedStore(), b) as (one, two):
        await following(one, two)
        await deleted_meanwhile(one, two)
        await one.until("active")
        await eventually_replicating(one, two)
        source = one.controller.role.source
        await eventually(lambda: any(each.held_deletions for each in source.replicas()))
        for dry_run in (True, False):
            with pytest.raises(
                HaRefusedError, match="24 appprojects: `tiphys ha accept-deletions` there"
            ) as caught:
                async for _ in operator(one).switchover(WORD, dry_run=dry_run):
                    pass
            assert caught.value.exit_code == 1
        assert "switchover begun" not in audit(one)
        await two.controller.accept_deletions("appprojects", JO)
        await until(b, APP_PROJECTS, lambda found: set(found) == {"project-0"})
        await eventually(lambda: not any(each.held_deletions for each in source.replicas()))
        assert (await switched(one))[-1] == "the peer is active under epoch 2; this one follows"


async def test_a_dry_run_tells_of_differences_that_would_undo_it() -> None:
    async with regions(FencedStore(), FencedStore()) as (one, two):
        await following(one, two)
        await eventually_replicating(one, two)
        source = one.controller.role.source
        assert isinstance(source, ReplicationSource)
        await source.reached(NAMES["b"])  # a comparison of now: the next one is a minute away
        source._replicas[NAMES["b"]].session.equal["applications"] = False
        lines = [line async for line in operator(one).switchover(WORD, dry_run=True)]
        assert (
            "the last comparison found differences in applications: where they stay, all is undone" in lines
        )


async def test_both_looks_at_the_replica_share_one_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one, behind the fence, gets what the first has left."""
    monkeypatch.setattr(switchover, "REACH_SECONDS", 1.0)
    a, b = FencedStore(), FencedStore()
    async with regions(a, b) as (one, two):
        await following(one, two)
        await eventually_replicating(one, two)
        source, waited = one.controller.role.source, []
        reached = source.reached

        async def slow(identity: str) -> None:
            waited.append(identity)
            await asyncio.sleep(0.7)  # of the replica's time, twice
            await reached(identity)

        monkeypatch.setattr(source, "reached", slow)
        with pytest.raises(HaRefusedError, match="did not have everything within 1 s"):
            await switched(one)
        assert waited == [NAMES["b"]] * 2
        assert "switchover: closed to writers" in audit(one)
        assert (one.state, record(one).step) == ("active", "")


def test_an_operator_waits_longer_than_all_that_the_principal_waits_for() -> None:
    longest = (
        observer.TURN_SECONDS
        + active.DRAIN_SECONDS
        + active.STOP_SECONDS
        + switchover.REACH_SECONDS
        + switchover.TAKE_OVER_SECONDS
        + switchover.UNDO_SECONDS
        + changes.NOTE_SECONDS
    )
    assert longest < ha_client.SWITCHOVER_SECONDS


async def test_of_several_replicas_the_peer_is_handed_over_to() -> None:
    a, b = FencedStore(), FencedStore()
    async with regions(a, b) as (one, two):
        third = "principal-c"
        one.ha = {"allowed_clients": frozenset({*NAMES.values(), third})}
        await following(one, two)
        await two.stop()
        pair = one.pki.pair(third, server=False)
        mine = replace(one.controller.handshake, principal="third", state=HaState.REPLICATING, epoch=0)
        credentials = channel_credentials(Material(pair=pair, roots=one.pki.authority.pair.certificate))
        async with aio.secure_channel(f"localhost:{one.port}", credentials) as channel:
            call = channel.stream_stream(SUBSCRIBE)(
                metadata=[*mine.metadata(), (START_KEY, ReplicaStart().text())]
            )
            await eventually(
                lambda: [each.identity for each in one.controller.role.source.replicas()] == [third]
            )
            await two.start()
            await eventually_replicating(one, two)
            await eventually(lambda: len(one.controller.role.source.replicas()) == 2)
            assert (await switched(one))[-1] == "the peer is active under epoch 2; this one follows"
            call.cancel()


class LateServer(FencedStore):
    """Beside whose record another API server takes a write, which has not heard of it yet."""

    def __init__(self, other: FencedStore) -> None:
        super().__init__()
        self._other = other

    async def replace(self, resource: Resource, body: Object, **more: Any) -> Object:
        done = await super().replace(resource, body, **more)
        if body["metadata"]["name"] == HA_RECORD and read_what(body) == "switchover: epoch claimed":
            await self._other.create(APP_PROJECTS, project("late"), namespace=ARGOCD)
        return done


async def test_what_another_api_server_took_after_the_token_is_named() -> None:
    a = FencedStore()
    b = LateServer(a)
    await a.create(APP_PROJECTS, project("web"), namespace=ARGOCD)
    async with regions(a, b) as (one, two):
        await following(one, two)
        await eventually_replicating(one, two)
        lines = await switched(one)
        assert lines[-2:] == [
            "past the closed fence came, and the peer lacks: appprojects argocd/late",
            "the peer is active under epoch 2; this one follows",
        ]
        await until(a, APP_PROJECTS, lambda there: "late" not in there)
        assert [(each.name, each.what) for each in one.controller.role.replica.progress().surplus] == [
            ("late", "deleted")
        ]


async def test_whoever_is_not_fenced_hands_over_nothing() -> None:
    a, b = FencedStore(), FencedStore()
    async with regions(a, b) as (one, two):
        await following(one, two)
        await eventually_replicating(one, two)
        a.fenced = False
        await one.controller.check_fence(seconds=0.0)
        for dry_run in (True, False):
            with pytest.raises(HaRefusedError, match="this cluster is not fenced"):
                async for _ in operator(one).switchover(WORD, dry_run=dry_run):
                    pass
        assert one.state == "active"
        assert "switchover begun" not in audit(one)


async def test_agents_are_compared_once_more_also_after_a_switchover(monkeypatch: pytest.MonkeyPatch) -> None:
    """They know another identity of their principal, and nothing is held: it lacks nothing."""
    monkeypatch.setattr(principal, "SETTLING_SECONDS", 0.1)
    compared, compare_again = [], principal.Principal._compare_again

    def noted(serving: principal.Principal, agent: Any) -> None:
        compared.append(
            (agent.name, serving.held.holds(AGENT, kind="Application", namespace=AGENT, name="x"))
        )
        compare_again(serving, agent)

    monkeypatch.setattr(principal.Principal, "_compare_again", noted)
    a, workload = FencedStore(), EmbeddedStore(namespaces=[ARGOCD])
    async with regions(a, FencedStore()) as (one, two):
        await following(one, two)
        await a.create(SECRETS, cluster_secret(AGENT), namespace=ARGOCD)
        async with processes.connected_agent(workload, one.pki, name=AGENT, port=one.port):
            await eventually(lambda: one.controller.role.active.connected == 1)
        await eventually_replicating(one, two)
        await switched(one)
        assert compared == []  # the first principal of a pair is the one that they know
        async with processes.connected_agent(workload, one.pki, name=AGENT, port=two.port):
            await eventually(lambda: compared == [(AGENT, False)])
