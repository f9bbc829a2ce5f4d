"""What a standby does when something is wrong with it, with its primary or with the way between them."""

import asyncio

from argocd import names
from kube import queries
from kube.embedded import Call, EmbeddedStore, Phase
from kube.errors import ApiError, InvalidError, UnavailableError
from kube.resources import APPLICATIONS, CONFIG_MAPS
from sidecars.replication.primary.session import SessionLimits
from tests.sidecars.replication.hubs import (
    ARGOCD,
    PATIENCE,
    Hub,
    Pair,
    application,
    create,
    embedded,
    everything,
    figure,
    fill,
    until,
)

WRITES = {"create", "replace", "delete", "patch"}


class Writes:
    """Counts what is written to a store, and makes some of it fail."""

    def __init__(self, store: EmbeddedStore) -> None:
        self.names: list[str] = []
        self.failing: dict[str, ApiError] = {}
        store.hooks.faults = self._note

    async def _note(self, call: Call) -> None:
        if call.verb not in WRITES or call.name == names.HA_CURSOR or call.phase is Phase.AFTER:
            return
        if call.name in self.failing:
            raise self.failing[call.name]
        self.names.append(call.name)


async def test_a_standby_that_comes_back_gets_what_it_missed_and_writes_nothing_twice() -> None:
    one, two = embedded(), embedded()
    await fill(one, 30)
    async with Pair(Hub(one), Hub(two)).running() as pair:
        await pair.equal()
        await pair.follower.stop()
        resumes = figure("tiphys_replication_resumes_total")
        writes = Writes(two)
        await fill(one, 3, prefix="new")
        pair.follower = pair.new_follower()
        await pair.follower.load()
        await pair.follower.start()
        await until(lambda: len(pair.standby.objects.inventories["applications"]) == 33)
        await pair.equal()
        assert sorted(writes.names) == ["new-00000", "new-00001", "new-00002"]
        assert figure("tiphys_replication_resumes_total") == resumes + 1


async def test_what_was_written_and_not_acknowledged_comes_again_and_is_not_written_again() -> None:
    one, two = embedded(), embedded()
    await fill(one, 5)
    async with Pair(Hub(one), Hub(two)).running() as pair:
        await pair.equal()
        await fill(one, 5, prefix="new")
        await until(lambda: pair.source.last_sequence == 5)
        await pair.equal()
        await pair.follower.stop()
        # As if it had been killed before its cursor was kept.
        cursor = await two.get(CONFIG_MAPS, name=names.HA_CURSOR, namespace=ARGOCD)
        cursor["data"]["sequence"] = "2"
        await two.replace(CONFIG_MAPS, cursor)
        writes = Writes(two)
        pair.follower = pair.new_follower()
        await pair.follower.load()
        await pair.follower.start()
        await pair.equal()
        assert writes.names == []


async def test_a_standby_behind_the_log_is_compared_and_gets_only_what_differs() -> None:
    one, two = embedded(), embedded()
    await fill(one, 60)
    async with Pair(Hub(one), Hub(two), log_bytes=4_000).running() as pair:
        await pair.equal()
        await pair.follower.stop()
        writes = Writes(two)
        await fill(one, 20, prefix="new")
        for number in range(3):
            await one.delete(APPLICATIONS, name=f"app-{number:05}", namespace="agent-a")
        await until(lambda: pair.source.last_sequence == 23)
        pair.follower = pair.new_follower()
        await pair.follower.load()
        await pair.follower.start()
        await pair.equal()
        assert len(writes.names) == 23


async def test_an_empty_primary_deletes_nothing_until_an_operator_says_so() -> None:
    one, two = embedded(), embedded()
    await fill(two, 5)
    async with Pair(Hub(one), Hub(two)).running() as pair:
        await until(lambda: pair.follower.progress().held_deletions == {"applications": 5})
        assert not pair.follower.progress().is_complete
        await until(lambda: [each.held_deletions for each in pair.source.replicas()] == [{"applications": 5}])
        assert len(pair.standby.objects.inventories["applications"]) == 5
        assert pair.follower.accept_deletions("applications") == 5
        await pair.equal()
        assert len(pair.standby.objects.inventories["applications"]) == 0


async def test_many_deletions_wait_few_do_not_and_a_return_takes_them_back() -> None:
    one, two = embedded(), embedded()
    await fill(one, 30)
    await fill(two, 60)
    async with Pair(Hub(one), Hub(two), limits=SessionLimits(compare_seconds=0.2)).running() as pair:
        await until(lambda: pair.follower.progress().held_deletions == {"applications": 30})
        for number in range(30, 45):
            await create(one, APPLICATIONS, application(f"app-{number:05}"), namespace="agent-a")
        await pair.equal()
        assert len(pair.standby.objects.inventories["applications"]) == 45
        assert pair.follower.progress().held_deletions == {}


async def test_a_write_that_fails_is_tried_again_and_holds_up_no_other() -> None:
    one, two = embedded(), embedded()
    async with Pair(Hub(one), Hub(two)).running() as pair:
        await until(lambda: "in sync" in pair.passive.told)
        writes = Writes(two)
        writes.failing["app-00000"] = UnavailableError("no answer")
        await fill(one, 20)
        await until(lambda: len(pair.standby.objects.inventories["applications"]) == 19)
        assert [replica.acknowledged for replica in pair.source.replicas()] == [0]
        assert not pair.follower.progress().is_complete
        writes.failing.clear()
        await pair.equal()
        assert writes.names.count("app-00000") == 1


async def test_what_is_invalid_on_the_standby_is_a_dead_letter_until_it_changes() -> None:
    one, two = embedded(), embedded()
    async with Pair(Hub(one), Hub(two)).running() as pair:
        await until(lambda: "in sync" in pair.passive.told)
        writes = Writes(two)
        writes.failing["app-00001"] = InvalidError("spec.source: not here")
        await fill(one, 3)
        await until(lambda: [each.acknowledged for each in pair.source.replicas()] == [3])
        (letter,) = pair.follower.progress().dead_letters
        assert (letter.kind, letter.name, letter.reason) == (
            "applications",
            "app-00001",
            "spec.source: not here",
        )
        assert not pair.follower.progress().is_complete
        writes.failing.clear()
        item = await one.get(APPLICATIONS, name="app-00001", namespace="agent-a")
        item["spec"]["source"]["targetRevision"] = "v2"
        await one.replace(APPLICATIONS, item)
        await pair.equal()
        assert pair.follower.progress().dead_letters == []


async def test_what_is_invalid_in_a_snapshot_is_counted_apart() -> None:
    one, two = embedded(), embedded()
    await fill(one, 3)
    Writes(two).failing["app-00001"] = InvalidError("spec.source: not here")
    counters = (
        "argocd_agent_replication_client_snapshot_apply_errors_total",
        "argocd_agent_replication_client_events_dropped_total",
    )
    before = [figure(counter) for counter in counters]
    async with Pair(Hub(one), Hub(two)).running() as pair:
        await until(lambda: "in sync" in pair.passive.told)
        apart, all_of_them = (
            figure(counter) - count for counter, count in zip(counters, before, strict=True)
        )
        assert apart == all_of_them > 0  # the comparison that ends a snapshot brings it once more


async def test_watches_that_end_with_410_and_meddling_are_found_by_comparing() -> None:
    one, two = embedded(), embedded()
    await everything(one)
    async with Pair(Hub(one), Hub(two), limits=SessionLimits(compare_seconds=0.2)).running() as pair:
        await pair.equal()
        one.compact()
        one.cut_watches()
        await fill(one, 3)
        await one.delete(APPLICATIONS, name="web", namespace="agent-a")
        copy = await two.get(CONFIG_MAPS, name="tiphys-agent-modes", namespace=ARGOCD)
        await two.replace(CONFIG_MAPS, {**copy, "data": {"somebody": "else"}})
        await until(lambda: len(pair.primary.objects.inventories["applications"]) == 3)
        await pair.equal()
        assert await queries.find(two, APPLICATIONS, name="web", namespace="agent-a") is None


async def test_stopping_waits_for_every_write_under_way() -> None:
    one, two = embedded(), embedded()
    begun, finish = asyncio.Event(), asyncio.Event()

    async def slowly(call: Call) -> None:
        if call.verb == "create" and call.name == "app-00000" and call.phase is Phase.BEFORE:
            begun.set()
            await finish.wait()

    async with Pair(Hub(one), Hub(two)).running() as pair:
        await until(lambda: "in sync" in pair.passive.told)
        two.hooks.faults = slowly
        await fill(one, 1)
        await begun.wait()
        stopping = asyncio.ensure_future(pair.follower.stop())
        await asyncio.sleep(0.05)
        assert not stopping.done()
        finish.set()
        await stopping
        there = await queries.find(two, APPLICATIONS, name="app-00000", namespace="agent-a")
        assert there is not None
        await fill(one, 2, prefix="late")
        await until(lambda: pair.source.last_sequence == 3)
        assert await queries.find(two, APPLICATIONS, name="late-00000", namespace="agent-a") is None


async def test_stopping_ends_also_where_it_is_started_again_meanwhile() -> None:
    async with Pair(Hub(embedded()), Hub(embedded())).running() as pair:
        await until(lambda: "in sync" in pair.passive.told)
        stopping = asyncio.ensure_future(pair.follower.stop())
        await asyncio.sleep(0)
        await pair.follower.start()
        async with asyncio.timeout(PATIENCE):
            await stopping


async def test_a_slow_replica_costs_nobody_else_anything() -> None:
    one, two, three = embedded(), embedded(), embedded()
    gate = asyncio.Event()

    async def stuck(call: Call) -> None:
        if call.verb in WRITES and call.phase is Phase.BEFORE:
            await gate.wait()

    two.hooks.faults = stuck
    limits = SessionLimits(window=8_000, chunk=4_000, compare_seconds=0.5)
    pair = Pair(Hub(one), Hub(two), limits=limits, log_bytes=40_000, allowed=frozenset({"standby", "other"}))
    async with pair.running():
        other = Pair(Hub(one), Hub(three))
        other.listening, other.source = pair.listening, pair.source
        other.follower = other.new_follower(name="other")
        async with other.standby.running():
            await other.follower.start()
            await until(lambda: len(pair.source.replicas()) == 2)
            overflows = figure("argocd_agent_replication_events_dropped_total")
            await fill(one, 200)
            await until(lambda: other.standby.objects.counts()["applications"] == 200)
            assert pair.standby.objects.counts()["applications"] == 0
            assert pair.source.log_size[1] <= 40_000
            gate.set()
            await until(lambda: pair.standby.objects.digests() == pair.primary.objects.digests())
            assert figure("argocd_agent_replication_events_dropped_total") > overflows
            await other.follower.stop()
            assert other.link is not None
            await other.link.close()
