"""The fence, tried: an API server that answers late has one all the same."""

import asyncio
from typing import Any

from argocd import names
from kube.resources import CONFIG_MAPS
from kube.store import Object, Resource
from sidecars.replication.control.fence import Fence
from sidecars.replication.record import HaRecord, HaRole, RecordStore
from tests.sidecars.pair_in_memory import ARGOCD
from tests.sidecars.replication.paired_principals import FencedStore

RECORD = HaRecord(pair="pair-1", principal="principal-1", role=HaRole.STANDBY, epoch=2)


class SlowStore(FencedStore):
    async def create(self, resource: Resource, body: Object, **more: Any) -> Object:
        for _ in range(3):
            await asyncio.sleep(0)
        return await super().create(resource, body, **more)


async def test_a_slow_answer_is_waited_for_and_one_that_says_no_is_believed_in_time() -> None:
    store = SlowStore()
    record = await RecordStore(store, namespace=ARGOCD).create(RECORD)
    fence = Fence(store, namespace=ARGOCD)
    assert (await fence.prove(record, seconds=0.0)).stands
    store.fenced = False
    assert "are not there" in (await fence.prove(record, seconds=0.0)).problem


async def test_a_canary_that_somebody_has_left_there_hides_no_fence_and_poses_as_none() -> None:
    store = FencedStore()
    record = await RecordStore(store, namespace=ARGOCD).create(RECORD)
    left = {"metadata": {"name": names.HA_CANARY}, "data": {"epoch": "2", "role": "standby"}}
    await store.create(CONFIG_MAPS, left, namespace=ARGOCD)
    fence = Fence(store, namespace=ARGOCD)
    assert (await fence.prove(record, seconds=0.0)).stands
    store.fenced = False
    assert "are not there" in (await fence.prove(record, seconds=0.0)).problem
