"""A principal of a pair whose peer nobody names: it says so, and lives."""

from sidecars.replication.control.settings import PreferredRole
from tests.sidecars.replication.hubs import until
from tests.sidecars.replication.paired_principals import JO, FencedStore, Region, following, regions
from tests.sidecars.replication.step_store import record

WORDS = "no peer is named: --ha-peer-address"


async def follows_nobody(region: Region) -> None:
    await region.until("disconnected")
    await until(lambda: WORDS in region.controller.role.replica.progress().problem)
    assert region._task is not None
    assert not region._task.done()
    assert (await region.health())[0] == 503


async def test_one_that_is_demoted_waits_until_it_is_promoted_again() -> None:
    async with regions(FencedStore(), FencedStore()) as (one, _):
        one.ha = {"peer_address": ""}
        await one.start()
        await one.until("active")
        assert await one.controller.demote(JO) == "disconnected"
        await follows_nobody(one)
        await one.stop()
        await one.start()
        await follows_nobody(one)
        assert await one.controller.promote(JO) == "active"
        assert record(one).epoch == 3


async def test_a_standby_from_which_the_peers_name_was_taken_stays_one() -> None:
    async with regions(FencedStore(), FencedStore()) as (one, two):
        await following(one, two)
        await two.stop()
        two.ha, two.role = {"peer_address": ""}, PreferredRole.PRIMARY
        await two.start()
        await follows_nobody(two)
        assert record(two).role == "standby"
