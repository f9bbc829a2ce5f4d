"""Delivery between two ends in a hostile network: after the storm both agree, and every command was carried
out once.

`TIPHYS_SEEDS=3000` runs more; `python -m tests.simulation delivery --seed N` replays one with its trace.
"""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sidecars.delivery.inbox import Inbox, InboxLimits
from sidecars.delivery.seen import SeenLimits
from sidecars.wire.events import Event
from tests.simulation.delivery_world import Delivery, End, Limits
from tests.simulation.ledger import Ledger
from tests.simulation.simulation import SimulationError, simulate
from tests.simulation.world import World

ROOT = Path(__file__).resolve().parents[2]
SEEDS = int(os.environ.get("TIPHYS_SEEDS", "300"))
BATCH = 10

# What the storms must have brought about together, or the run proves nothing.
SOMETIMES = {
    "commands done",
    "commands remembered",
    "duplicates",
    "events resent",
    "events superseded",
    "keys marked",
    "messages doubled",
    "messages lost",
    "messages reordered",
    "processes killed",
    "reconnects",
    "retries",
    "spec repaired",
    "status repaired",
    "streams ended: a newer stream of the same peer took over",
}


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_both_ends_converge_and_no_command_is_lost_or_run_twice(first: int) -> None:
    for seed in range(first, first + BATCH):
        simulate(Delivery, seed=seed)


def test_the_storms_bring_about_everything_that_delivery_guards_against() -> None:
    met: Counter[str] = Counter()
    for seed in range(20):
        met += simulate(Delivery, seed=seed).counts
    assert set(met) >= SOMETIMES


def test_a_seed_replays_exactly_in_another_process() -> None:
    digests = {simulate(Delivery, seed=41).digest for _ in range(2)}
    for hash_seed in ("1", "2"):
        printed = subprocess.run(
            [sys.executable, "-m", "tests.simulation", "delivery", "--seed", "41"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        digests.add(printed.splitlines()[-1].split()[1].rstrip(","))
    assert len(digests) == 1


def test_different_seeds_differ() -> None:
    assert simulate(Delivery, seed=1).digest != simulate(Delivery, seed=2).digest


# Each safeguard is switched off once: a simulation that does not notice would not notice a mistake either.


class _ForgetfulLedger(Ledger):
    def carry_out(self, event: Event) -> bool:
        self.last_commands.clear()
        return super().carry_out(event)


class _WithoutDurableIds(Delivery):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.ledgers = {spoke: _ForgetfulLedger(spoke) for spoke in self.ledgers}


class _NoMemory(Limits):
    inbox = InboxLimits(bytes=12_000, workers=4, memory=SeenLimits(commands=0, state=0))


class _WithoutMemory(Delivery):
    limits = _NoMemory


class _HastyInbox(Inbox):
    """Acknowledges on receipt."""

    async def put(self, event: Event) -> None:
        self._acknowledge(event)
        await super().put(event)


def _failures(make: Callable[[World], Delivery], *, seeds: int = 30) -> Iterator[str]:
    for seed in range(seeds):
        try:
            simulate(make, seed=seed)
        except SimulationError as error:
            yield str(error)


def test_without_the_ids_of_commands_in_the_cluster_a_restart_runs_one_twice() -> None:
    assert "carried out 2 times" in next(_failures(_WithoutDurableIds))


def test_without_a_memory_of_events_older_state_follows_newer() -> None:
    assert any("written over" in failure for failure in _failures(_WithoutMemory))


def test_without_comparison_the_ends_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.simulation.delivery_world.HubEnd.compare", lambda end: end.give())
    assert any("instead of" in failure for failure in _failures(Delivery))


def test_acknowledging_before_applying_loses_what_a_killed_process_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.simulation.delivery_world.Inbox", _HastyInbox)
    assert any("was lost" in failure for failure in _failures(Delivery))


def test_a_process_that_dies_by_itself_fails_the_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(end: End) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("tests.simulation.delivery_world.SpokeEnd.compare", broken)
    assert "ZeroDivisionError" in next(_failures(Delivery))
