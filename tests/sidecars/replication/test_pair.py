"""Two principals over real connections: first sync, promotion by an operator's word, the old one steps back."""

import asyncio
from dataclasses import replace

import pytest

from argocd import names
from kube.resources import APP_PROJECTS, CONFIG_MAPS, EVENTS
from sidecars.fleet.ha_client import HaClient
from sidecars.replication.control import fence
from sidecars.replication.control.handover import HandoverToken
from sidecars.replication.control.settings import PreferredRole, RestartPolicy
from sidecars.replication.states import HaState
from sidecars.wire.generated import hacontrol_pb2
from tests.sidecars import processes
from tests.sidecars.pair_in_memory import ARGOCD, project, until
from tests.sidecars.processes import PATIENCE
from tests.sidecars.replication.paired_principals import JO, FencedStore, Region, following, regions, token_of
from tiphys.errors import CallError


async def test_a_replica_follows_is_promoted_and_the_old_primary_steps_back() -> None:
    a, b = FencedStore(), FencedStore()
    async with regions(a, b) as (one, two):
        await following(one, two)
        await a.create(APP_PROJECTS, project("web"), namespace=ARGOCD)
        await until(b, APP_PROJECTS, lambda there: "web" in there)
        assert await one.health() == (200, "")
        assert await two.health() == (503, "HA state: replicating - not accepting traffic\n")
        assert two.process is not None
        status, words = await processes.fetch(two.process.health.port, "/readyz")
        assert (status, words) == (200, "standing by: replicating\n")
        with pytest.raises(CallError, match="still replicating from peer"):
            await two.controller.promote(JO)
        with pytest.raises(CallError, match="can only demote from active"):
            await two.controller.demote(JO)
        await one.stop()
        await two.until("disconnected")
        assert await two.controller.promote(JO) == "active"
        assert await two.health() == (200, "")
        record = two.controller.role.held_record()
        assert (record.epoch, record.served_epoch, record.role.value) == (2, 2, "active")
        with pytest.raises(CallError, match="already active"):
            await two.controller.promote(JO)
        # Work goes on, and the old one comes back with its flag still saying primary.
        await b.create(APP_PROJECTS, project("later"), namespace=ARGOCD)
        await one.start()
        await one.until("replicating")
        await until(a, APP_PROJECTS, lambda there: {"web", "later"} <= set(there))
        # Failback.
        assert await two.controller.demote(JO) == "disconnected"
        await one.until("disconnected")
        assert await one.controller.promote(JO) == "active"
        await two.until("replicating")
        assert one.controller.role.held_record().epoch == 3
        events = (await a.list(EVENTS, namespace=ARGOCD)).items
        assert {event["reason"] for event in events} == {"Active", "Standby"}


async def test_both_restart_in_any_order_and_the_record_decides() -> None:
    a, b = FencedStore(), FencedStore()
    async with regions(a, b) as (one, two):
        await following(one, two)
        await one.stop()
        await two.until("disconnected")
        await two.controller.promote(JO)
        for first, second in ((one, two), (two, one)):
            await asyncio.gather(one.stop(), two.stop())
            one.role, two.role = PreferredRole.PRIMARY, PreferredRole.PRIMARY
            await first.start()
            await second.start()
            await two.until("active")
            await one.until("replicating")


async def test_one_that_was_active_waits_for_its_peer_or_for_an_operators_word() -> None:
    a, b = FencedStore(), FencedStore()
    async with regions(a, b) as (one, two):
        await following(one, two)
        await two.stop()
        await one.stop()
        await one.start()
        await one.until("recovering")
        assert one.controller.role.detail == "waiting"
        assert "`tiphys ha resume`" in one.controller.role.reason
        assert await one.health() == (503, "HA state: recovering - not accepting traffic\n")
        with pytest.raises(CallError, match="can only promote from"):
            await one.controller.promote(replace(JO, force=True, epoch=1))
        with pytest.raises(CallError, match="resume without --bootstrap"):
            await one.controller.resume(JO, bootstrap=True)
        assert await one.controller.resume(JO) == "active"
        assert one.controller.role.held_record().epoch == 1
        with pytest.raises(CallError, match="nothing waits here"):
            await one.controller.resume(JO)
        await one.stop()
        one.ha = {"restart_policy": RestartPolicy.ACTIVE}
        await one.start()
        await one.until("active")


async def test_a_first_start_waits_for_a_peer_that_does_not_answer() -> None:
    async with regions(FencedStore(), FencedStore()) as (one, two):
        await one.start()
        await one.until("recovering")
        with pytest.raises(CallError, match="--bootstrap begins a new pair"):
            await one.controller.resume(JO)
        await two.start()
        await one.until("active")
        await two.until("replicating")


async def test_a_killed_promotion_waits_and_never_serves() -> None:
    a, b = FencedStore(), FencedStore()
    async with regions(a, b) as (one, two):
        await following(one, two)
        await one.stop()
        await two.until("disconnected")
        await two.stop()
        held = await b.get(CONFIG_MAPS, name=names.HA_RECORD, namespace=ARGOCD)
        interrupted = {**held["data"], "role": "promoting", "epoch": "2"}
        await b.replace(CONFIG_MAPS, {**held, "data": interrupted})
        await two.start()
        await two.until("recovering")
        assert "was interrupted" in two.controller.role.reason
        # Nobody was served under it: the old primary is not deposed by a promotion that never was.
        await one.start()
        await one.until("active")
        assert two.state == "recovering"
        async with asyncio.timeout(PATIENCE):
            while (view := await two.controller.ask()) is None or view.problem:  # noqa: ASYNC110 - of grpc
                await asyncio.sleep(0.01)  # it may rest after a dial into the restart
        with pytest.raises(CallError, match="the peer is active: this one follows it by itself"):
            await two.controller.resume(JO)
        await two.controller.demote(JO)
        await two.until("replicating")


async def test_without_a_fence_only_a_force_promotes_and_it_names_reason_and_epoch() -> None:
    a, b = FencedStore(), FencedStore()
    async with regions(a, b) as (one, two):
        await following(one, two)
        await one.stop()
        await two.until("disconnected")
        b.fenced = False
        with pytest.raises(CallError, match="this cluster is not fenced"):
            await two.controller.promote(JO)
        assert (two.state, two.controller.role.held_record().epoch) == ("disconnected", 0)
        with pytest.raises(CallError, match="--force needs --reason"):
            await two.controller.promote(replace(JO, force=True, why=" ", epoch=1))
        with pytest.raises(CallError, match="--force needs --epoch 1"):
            await two.controller.promote(replace(JO, force=True, epoch=2))
        assert await two.controller.promote(replace(JO, force=True, epoch=1)) == "active"
        assert two.controller.role.held_record().audit[-1].what == "forced promotion"


async def test_an_active_one_that_is_told_of_a_higher_epoch_steps_down() -> None:
    a, b = FencedStore(), FencedStore()
    async with regions(a, b) as (one, two):
        await following(one, two)
        # A higher epoch of another pair is nobody's word.
        known = one.controller.view
        one.controller.heard(replace(two.controller.handshake, pair="another", epoch=99))
        assert one.controller.view is known
        # Promoted although the other serves: two actives, until the peer's own word arrives.
        assert await two.controller.promote(replace(JO, force=True, epoch=1)) == "active"
        await one.until("replicating")
        assert "stepped down" in {entry.what for entry in one.controller.role.held_record().audit}
        assert two.state == "active"


async def test_two_operators_who_promote_both_sides_raise_two_epochs() -> None:
    a, b = FencedStore(), FencedStore()
    async with regions(a, b) as (one, two):
        await following(one, two)
        await one.controller.demote(JO)
        await two.until("disconnected")
        results = await asyncio.gather(
            one.controller.promote(replace(JO, force=True, epoch=1)),
            two.controller.promote(replace(JO, force=True, epoch=1)),
            return_exceptions=True,
        )
        assert "active" in results
        epochs = {one.controller.role.held_record().epoch, two.controller.role.held_record().epoch}
        assert len(epochs) == 2
        higher = max((one, two), key=lambda each: each.controller.role.held_record().served_epoch)
        lower = one if higher is two else two
        await higher.until("active")
        await lower.until("replicating")


async def switched(region: Region) -> list[str]:
    assert region.process is not None
    assert region.process.pair is not None
    assert region.process.pair.admin is not None
    client = HaClient(address=f"127.0.0.1:{region.process.pair.admin.port}")
    word = hacontrol_pb2.Word(who="jo", reason="maintenance")
    assert [line async for line in client.switchover(word, dry_run=True)][-1] == "this one follows"
    return [line async for line in client.switchover(word, dry_run=False)]


async def test_a_switchover_goes_there_and_back_and_nothing_is_lost() -> None:
    a, b = FencedStore(), FencedStore()
    async with regions(a, b) as (one, two):
        await following(one, two)
        await eventually_replicating(one, two)
        created: set[str] = set()
        for number, (active, standby) in enumerate([(one, two), (two, one)] * 2):
            store = a if active is one else b
            for count in range(20):
                name = f"project-{number}-{count}"
                await store.create(APP_PROJECTS, project(name), namespace=ARGOCD)
                created.add(name)
            lines = await switched(active)
            assert "this one follows" in lines[-1]
            await standby.until("active")
            await active.until("replicating")
            for hub in (a, b):
                await until(hub, APP_PROJECTS, lambda there: created <= set(there))
            await eventually_replicating(standby, active)
        record = one.controller.role.held_record()
        assert (record.epoch, record.holding, record.step, dict(record.token)) == (5, False, "", {})


async def eventually_replicating(active: Region, standby: Region) -> None:
    """Both say so: the active one has heard it."""
    await standby.until("replicating")
    async with asyncio.timeout(PATIENCE):
        while True:
            view = active.controller.view
            replicas = active.controller.role.source.replicas()
            if view and view.handshake and view.handshake.state == "replicating" and replicas:
                return
            await active.controller.ask()


async def test_forged_old_and_foreign_tokens_are_refused_and_noted() -> None:
    a, b = FencedStore(), FencedStore()
    async with regions(a, b) as (one, two):
        await following(one, two)
        await eventually_replicating(one, two)
        giver = replace(one.controller.handshake, state=HaState.DISCONNECTED)  # as when it hands over
        good = token_of(giver, two)
        for changed, words in (
            ({"pair": "other"}, "another pair"),
            ({"epoch": giver.epoch - 1}, "another epoch"),
            ({"giver": "somebody"}, "not from this principal's peer"),
            ({"taker": giver.principal}, "for another principal"),
            ({"history": "old"}, "another history"),
            ({"sequence": good.sequence + 1}, "exactly its sequence"),
            ({"digest": "0" * 64}, "not those of its digest"),
        ):
            with pytest.raises(CallError, match=words):
                await two.controller.take_over(replace(good, **changed), giver)
        assert two.controller.role.held_record().audit[-1].what == "token refused"
        assert (one.state, two.state) == ("active", "replicating")
        for raw in (b"", b"{}", b"[]", b'{"nonce": 1}', b"x" * 10_000):
            with pytest.raises(CallError, match="cannot be read"):
                HandoverToken.decoded(raw)


async def test_a_switchover_is_undone_where_the_peer_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fence, "PROOF_SECONDS", 2.0)
    a, b = FencedStore(), FencedStore()
    async with regions(a, b) as (one, two):
        await following(one, two)
        await eventually_replicating(one, two)
        b.fenced = False
        with pytest.raises(CallError, match="all is undone"):
            await switched(one)
        await one.until("active")
        assert one.controller.role.held_record().audit[-1].what == "switchover undone"
        await two.until("replicating")
        assert await one.health() == (200, "")
