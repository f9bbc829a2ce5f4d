"""The metrics of a pair are really filled, as a scrape shows them: lag, digests, epoch, log, how streams began, trouble."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace

from kube.embedded import Call
from kube.errors import InvalidError, UnavailableError
from kube.resources import APP_PROJECTS, SECRETS
from sidecars.principal.roles.held import HeldObjects
from sidecars.replication.kinds import KINDS
from sidecars.replication.metrics import STATE
from sidecars.replication.states import HaState
from tests.sidecars import processes
from tests.sidecars.pair_in_memory import ARGOCD, project, until
from tests.sidecars.processes import PATIENCE
from tests.sidecars.replication.hubs import cluster_secret
from tests.sidecars.replication.paired_principals import JO, FencedStore, Region, following, regions

PROJECTS = 'kind="appprojects"'
REPLICA = 'replica="principal-b"'
Figures = dict[str, float]


async def scraped(region: Region) -> Figures:
    """Both principals are in this process and share counters; gauges are those of whom is asked."""
    assert region.process is not None
    status, page = await processes.fetch(region.process.metrics.port, "/metrics")
    assert status == 200
    lines = (line.rpartition(" ") for line in page.splitlines() if line and not line.startswith("#"))
    return {name: float(figure) for name, _, figure in lines}


async def scraped_until(region: Region, *conditions: Callable[[Figures], bool]) -> Figures:
    figures: Figures = {}
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                figures = await scraped(region)
                if all(condition(figures) for condition in conditions):
                    return figures
                await asyncio.sleep(0.02)
    except TimeoutError:
        shown = {name: figure for name, figure in figures.items() if re.search("_ha_|replication", name)}
        raise AssertionError(shown) from None


def is_at(name: str, *labels: str, value: float) -> Callable[[Figures], bool]:
    return lambda figures: figures.get(_key(name, *labels)) == value


def is_above(name: str, *labels: str, value: float = 0.0) -> Callable[[Figures], bool]:
    return lambda figures: figures.get(_key(name, *labels), 0.0) > value


def _key(name: str, *labels: str) -> str:
    return f"{name}{{{','.join(labels)}}}" if labels else name


def failing(times: int, name: str) -> Callable[[Call], Awaitable[None]]:
    """An API server that is away for some writes, and takes one object never."""
    left = [times]

    async def fault(call: Call) -> None:
        if call.resource != APP_PROJECTS or call.verb not in {"create", "patch", "replace"}:
            return
        if call.name == name:
            raise InvalidError("spec.sourceRepos: too many")
        if left[0]:
            left[0] -= 1
            raise UnavailableError("etcd is away")

    return fault


async def test_a_scrape_shows_lag_digests_log_and_what_could_not_be_written() -> None:
    a, b = FencedStore(), FencedStore()
    async with regions(a, b) as (one, two):
        await following(one, two)
        start = await scraped(one)
        await a.create(SECRETS, cluster_secret("prod"), namespace=ARGOCD)
        for name in ("web", "shop"):
            await a.create(APP_PROJECTS, project(name), namespace=ARGOCD)
        await until(b, APP_PROJECTS, lambda there: {"web", "shop"} <= set(there))
        figures = await scraped_until(
            one,
            is_at("argocd_agent_replication_replicas_connected", value=1),
            is_above("argocd_agent_replication_queue_size"),
            is_above("tiphys_replication_log_bytes"),
            is_above("argocd_agent_replication_last_sequence_number"),
            is_at("tiphys_replication_replica_lag_events", REPLICA, value=0),
            is_at("tiphys_replication_replica_lag_bytes", REPLICA, value=0),
            is_at("tiphys_replication_replica_lag_seconds", REPLICA, value=0),
            *(
                is_at("tiphys_replication_replica_equal", f'kind="{kind.name}"', REPLICA, value=1)
                for kind in KINDS
            ),
            is_at("tiphys_replication_fenced", value=1),
            is_at("argocd_agent_ha_state", 'state="active"', value=1),
        )
        for counter in (
            "argocd_agent_replication_events_queued_total",
            "argocd_agent_replication_events_forwarded_total",
            "tiphys_replication_sent_bytes_total",
            "argocd_agent_replication_client_events_received_total",
            "argocd_agent_replication_client_events_processed_total",
            "argocd_agent_ha_replication_events_total",
        ):
            assert figures[counter] >= start[counter] + 2, counter
        sequence = figures["argocd_agent_replication_last_sequence_number"]
        await scraped_until(
            two,
            is_at("argocd_agent_replication_client_connected", value=1),
            is_at("argocd_agent_replication_client_last_sequence_number", value=sequence),
            is_at("argocd_agent_replication_client_lag_seconds", value=0),
            is_at("argocd_agent_replication_client_snapshot_agents", value=1),
            is_above("argocd_agent_replication_client_reconciliations_total"),
            *(is_at("tiphys_replication_equal", f'kind="{kind.name}"', value=1) for kind in KINDS),
        )
        # A standby whose API server is away lags, in events, bytes and seconds; one object becomes a dead letter.
        before = await scraped(two)
        b.hooks.faults = failing(1_000_000, "bad")
        await a.create(APP_PROJECTS, project("late"), namespace=ARGOCD)
        await scraped_until(
            one,
            is_above("tiphys_replication_replica_lag_events", REPLICA),
            is_above("tiphys_replication_replica_lag_bytes", REPLICA),
            is_above("tiphys_replication_replica_lag_seconds", REPLICA),
            is_above("argocd_agent_ha_replication_lag_seconds"),
        )
        await scraped_until(
            two,
            is_above("argocd_agent_replication_client_lag_seconds"),
            *(
                is_above(name, value=before[name])
                for name in (
                    "argocd_agent_ha_replication_errors_total",
                    "argocd_agent_replication_client_events_errors_total",
                )
            ),
        )
        b.hooks.faults = failing(0, "bad")
        await a.create(APP_PROJECTS, project("bad"), namespace=ARGOCD)
        await until(b, APP_PROJECTS, lambda there: "late" in there)
        figures = await scraped_until(two, is_at("tiphys_replication_dead_letters", PROJECTS, value=1))
        dropped = "argocd_agent_replication_client_events_dropped_total"
        assert figures[dropped] == before[dropped] + 1
        errors = [name for name in figures if name.startswith("argocd_agent_ha_resource_operation_errors")]
        assert any(PROJECTS in name and figures[name] > 0 for name in errors)


async def test_a_scrape_shows_how_streams_began_and_what_is_held() -> None:
    a, b = FencedStore(), FencedStore()
    async with regions(a, b) as (one, two):
        names = [f"project-{number}" for number in range(30)]
        for name in names:
            await a.create(APP_PROJECTS, project(name), namespace=ARGOCD)
        await following(one, two)
        await until(b, APP_PROJECTS, lambda there: set(names) <= set(there))
        await scraped_until(
            one,
            is_above("tiphys_replication_resyncs_total"),
            is_above("tiphys_replication_snapshots_total"),
            is_above("tiphys_replication_snapshot_objects_total", value=29),
        )
        # The standby comes back within the log: it goes on from where it was.
        before = await scraped(one)
        await two.stop()
        await two.start()
        await two.until("replicating")
        await scraped_until(
            one,
            is_above("tiphys_replication_resumes_total", value=before["tiphys_replication_resumes_total"]),
            is_above(
                "argocd_agent_replication_client_reconnect_attempts_total",
                value=before["argocd_agent_replication_client_reconnect_attempts_total"],
            ),
        )
        # The primary comes back with another history and far less: compared, and held.
        before = await scraped(one)
        await one.stop()
        for name in names[:25]:
            await a.delete(APP_PROJECTS, name=name, namespace=ARGOCD)
        await one.start()
        await scraped_until(
            two,
            is_at("tiphys_replication_held_deletions", PROJECTS, value=25),
            *(
                is_above(name, value=before[name])
                for name in (
                    "tiphys_replication_resyncs_total",
                    "tiphys_replication_comparisons_total",
                )
            ),
        )
        # Nothing waits at one that serves, and nothing is lacking there.
        b.hooks.faults = failing(1_000_000, "bad")
        for name in ("bad", "late"):
            await a.create(APP_PROJECTS, project(name), namespace=ARGOCD)
        lag = "argocd_agent_replication_client_lag_seconds"
        await scraped_until(two, is_at("tiphys_replication_dead_letters", PROJECTS, value=1), is_above(lag))
        await two.controller.promote(replace(JO, force=True, epoch=1))
        await scraped_until(
            two,
            is_at("tiphys_replication_held_deletions", PROJECTS, value=0),
            is_at("tiphys_replication_dead_letters", PROJECTS, value=0),
            is_at(lag, value=0),
        )


async def test_all_states_are_told_from_the_start_so_that_nobody_being_active_is_seen() -> None:
    STATE.clear()  # what earlier tests of this process have left
    async with regions(FencedStore(), FencedStore()) as (_, two):
        await two.start()
        figures = await scraped(two)
        told = {state: figures[_key("argocd_agent_ha_state", f'state="{state.value}"')] for state in HaState}
        assert told.pop(HaState.ACTIVE) == 0
        assert sum(told.values()) == 1


async def test_a_scrape_shows_changes_of_role_and_the_epoch() -> None:
    async with regions(FencedStore(), FencedStore()) as (one, two):
        await following(one, two)
        before = await scraped(two)
        await one.stop()
        await two.until("disconnected")
        await two.controller.promote(JO)
        moved = ('from_state="disconnected"', 'to_state="active"')
        figures = await scraped_until(
            two,
            is_at("tiphys_replication_epoch", value=2),
            is_above(
                "argocd_agent_ha_transitions_total",
                *moved,
                value=before.get(_key("argocd_agent_ha_transitions_total", *moved), 0),
            ),
        )
        name = "argocd_agent_ha_failovers_total"
        assert figures[name] == before[name] + 1
        await two.controller.demote(JO)
        name = "argocd_agent_ha_failbacks_total"
        assert (await scraped(two))[name] == before[name] + 1


async def test_objects_that_only_agents_know_are_counted() -> None:
    async with regions(FencedStore(), FencedStore()) as (one, two):
        await following(one, two)
        held = HeldObjects(holding=True)
        for name in ("shop", "web"):
            assert held.holds("prod", kind="Application", namespace="prod", name=name)
        assert (await scraped(one))["tiphys_replication_held_objects"] == 2
        held.release("prod")
        assert (await scraped(one))["tiphys_replication_held_objects"] == 0
        # Whoever does not serve any more holds nothing back.
        assert held.holds("other", kind="Application", namespace="other", name="shop")
        assert (await scraped(one))["tiphys_replication_held_objects"] == 1
        await one.controller.demote(JO)
        assert (await scraped(one))["tiphys_replication_held_objects"] == 0
