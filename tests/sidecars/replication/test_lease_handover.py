"""Two replicas of one principal in one cluster, and a peer that nobody can ask: a hand-over of the Lease is a restart with a
fresh proof, any other restart is not.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from argocd import names
from kube.embedded import Call, Phase
from kube.errors import UnavailableError
from kube.resources import CONFIG_MAPS
from scripts.ports import free_port
from sidecars.replication.control import controller
from sidecars.replication.record import RecordChangedError
from tests.sidecars.pair_in_memory import ARGOCD
from tests.sidecars.replication.hubs import until
from tests.sidecars.replication.paired_principals import FencedStore, Region, following, regions
from tests.sidecars.replication.step_store import audit, record


@asynccontextmanager
async def without_its_peer() -> AsyncIterator[Region]:
    """An active principal whose peer is away."""
    async with regions(FencedStore(), FencedStore()) as (one, two):
        await following(one, two)
        await two.stop()
        yield one


async def test_whoever_takes_over_the_lease_goes_on_without_asking_the_peer() -> None:
    async with without_its_peer() as first:
        second = Region("a", first.store, first.pki, role=first.role, port=free_port())
        second.peer = first.peer
        try:
            await second.begin()
            process = second.process
            assert process is not None
            await until(lambda: "waiting for the Lease" in process._waits())
            await first.stop()
            await second.until("active")
            assert record(second).served_epoch == 1
            assert audit(second)[-1] == "started as active"
            assert record(second).why == "another replica of this principal was active a moment ago"
        finally:
            await second.stop()


async def test_whoever_is_alone_and_starts_again_waits_for_an_operator() -> None:
    async with without_its_peer() as one:
        await one.stop()
        await one.start()
        await until(lambda: "whether the peer was promoted since is not known" in one.controller.role.reason)
        assert one.state == "recovering"


async def test_whoever_finds_another_record_than_it_wrote_decides_anew() -> None:
    """Of a replica that lost the Lease with its write on its way, or by hand."""
    async with without_its_peer() as one:
        held = await one.store.get(CONFIG_MAPS, name=names.HA_RECORD, namespace=ARGOCD)
        await one.store.replace(CONFIG_MAPS, {**held, "data": {**held["data"], "role": "standby"}})
        one.controller.peer_due.set()
        with pytest.RaisesGroup(RecordChangedError, flatten_subgroups=True):
            await one.until("disconnected")  # it ends, to be started again
        await one.stop()
        await one.start()
        await one.until("disconnected")
        assert record(one).role == "standby"


async def test_a_first_record_of_which_the_answer_was_lost_is_found_and_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(controller, "ASK_INTERVAL_SECONDS", 0.1)
    store = FencedStore()
    lost: list[str] = []

    async def lose(call: Call) -> None:
        if call.name != names.HA_RECORD or len(lost) == 2:
            return
        if (call.verb, call.phase) == ("create", Phase.AFTER) or (lost and call.verb == "get"):
            lost.append(call.verb)
            raise UnavailableError("the answer was lost", outcome_unknown=True)

    store.hooks.faults = lose
    async with regions(store, FencedStore()) as (one, _):
        one.ha = {"peer_address": ""}
        await one.start()
        await one.until("active")
        assert lost == ["create", "get"]
        assert (record(one).epoch, audit(one)) == (1, ["bootstrap", "started as active"])
