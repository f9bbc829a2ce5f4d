"""One election on a real API server too: records, conflicts and watches are as expected there."""

import asyncio

from kube.leases import Election, LeaseTiming
from kube.resources import LEASES
from kube.store import Store
from tests.kube.objects import BOUND

# Nothing here runs out: the first gives it back. A busy API server may be late with a renewal.
PATIENT = LeaseTiming(duration=60.0, renew_deadline=40.0, retry=0.2)


async def test_two_candidates_lead_one_after_the_other(store: Store, home: str) -> None:
    elections = [
        Election(store, name="leader", namespace=home, identity=identity, timing=PATIENT)
        for identity in ("one", "two")
    ]
    tasks = [asyncio.create_task(election.run(asyncio.Future)) for election in elections]
    async with asyncio.timeout(BOUND):
        waiting = [asyncio.create_task(election.leading()) for election in elections]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        first = next(number for number, task in enumerate(waiting) if task.done())
        second = 1 - first
        assert [election.is_leading for election in elections].count(True) == 1
        renewed = (await store.get(LEASES, name="leader", namespace=home))["spec"]["renewTime"]
        tasks[first].cancel()
        await asyncio.wait([tasks[first]])
        await elections[second].leading()
    spec = (await store.get(LEASES, name="leader", namespace=home))["spec"]
    assert spec["holderIdentity"] == ("one", "two")[second]
    assert spec["leaseTransitions"] == 1
    assert spec["renewTime"] > renewed
    tasks[second].cancel()
    await asyncio.wait(tasks)
    released = await store.get(LEASES, name="leader", namespace=home)
    assert released["spec"].get("holderIdentity", "") == ""
