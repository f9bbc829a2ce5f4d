"""A pair with its real controllers under storms: an operator promotes, demotes, resumes, forces and switches over, rightly
and wrongly, while processes are killed or stand still for longer than their Lease, an API server refuses the record,
watches end with 410, and the network parts.

One hub serves per epoch, and nobody before its record says so; a killed promotion waits; agents never obey a lower
epoch; nothing is deleted that nobody deleted; and in the end one serves, the other has the same, and so have agents.
"""

import os
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from sidecars.replication.control.safeguards import PairSafeguards
from tests.simulation.paired_hubs import Safeguards
from tests.simulation.promotions import Fate, Promotions
from tests.simulation.safeguards import off, on
from tests.simulation.simulation import Scenario, simulate
from tests.simulation.switchovers import Switchovers
from tests.simulation.world import World

SEEDS = int(os.environ.get("TIPHYS_SEEDS", "200"))
BATCH = 10
STORM = 60.0

# Two fates in which the bad cases come soon: kills at every step, and two that serve at once.
HARD = (
    Fate(killed=0.4, forced=0.25),
    Fate(forced=0.7, astray=0.5, parted=1.0, regions=0, flap_seconds=1.0),
)
# What a good run has met; each batch of seeds adds its own.
SOMETIMES = (
    "processes killed",
    "processes paused",
    "paused in a write of the record",
    "regions lost",
    "hubs parted",
    "records refused",
    "API calls failed",
    "writes failed",
    "conflicts",
    "watches refused with 410",
    "messages lost",
    "messages doubled",
    "fault: watches",
    "fault: slow",
    "two operators at once",
    "agents led to a standby",
    "writers on a standby refused",
    "lower epochs refused by agents",
    "objects held",
    "held objects released",
    "copies deleted",
    "promotions interrupted",
    "promotion done",
    "promotion refused",
    "forced promotion done",
    "demotion done",
    "resume done",
    "switchover refused",
    "recorded: bootstrap",
    "recorded: started as active",
    "recorded: restarted as standby",
    "recorded: stepped down",
    "killed at: promotion begun",
    "killed at: forced promotion begun",
    "killed at: stepped down",
    "killed at: demoted",
)


def simulate_several(make: Callable[[World], Scenario], seeds: range) -> None:
    for seed in seeds:
        simulate(make, seed=seed, storm_seconds=STORM)


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_one_serves_per_epoch_and_nothing_is_deleted_that_nobody_deleted(first: int) -> None:
    simulate_several(Promotions, range(first, first + BATCH))


def test_the_bad_cases_of_promotions_were_reached() -> None:
    counts: Counter[str] = Counter()
    for seed in range(1000, 1100):
        make = partial(Promotions, fate=HARD[seed % 2])
        counts += simulate(make, seed=seed, storm_seconds=STORM).counts
        if all(counts[each] for each in SOMETIMES):
            return
    assert [each for each in SOMETIMES if not counts[each]] == []


def test_a_seed_of_promotions_replays_exactly() -> None:
    first, second = (simulate(Promotions, seed=7, storm_seconds=STORM) for _ in range(2))
    assert first.lines == second.lines


SWITCHED_OFF: list[tuple[type[Promotions], Safeguards, Fate, str, int]] = [
    (
        Promotions,
        Safeguards(pair=PairSafeguards(asks_peer=False)),
        Fate(regions=1.0, replicas=(1,)),
        "starts under",
        3,
    ),
    (
        Promotions,
        Safeguards(pair=PairSafeguards(waits_when_interrupted=False)),
        Fate(killed=0.6),
        "by a promotion that was killed",
        3,
    ),
    (
        Promotions,
        Safeguards(pair=PairSafeguards(steps_down=False)),
        Fate(forced=0.5),
        "is disconnected|is active",
        0,
    ),
    (Promotions, Safeguards(pair=PairSafeguards(checks_promotion=False)), Fate(), "is promoted with", 6),
    (
        Promotions,
        Safeguards(pair=PairSafeguards(stops_following=False)),
        Fate(forced=0.5),
        "writes a copy",
        0,
    ),
    (
        Promotions,
        Safeguards(pair=PairSafeguards(compares_and_sets=False)),
        Fate(paused=0.3, replicas=(2,)),
        "which it had not read",
        0,
    ),
    (
        Switchovers,
        Safeguards(pair=PairSafeguards(proves_fence=False)),
        Fate(killed=0, paused=0, regions=0, parted=0, replayed=0),
        "was taken",
        41,
    ),
    (
        Switchovers,
        Safeguards(pair=PairSafeguards(checks_token=False)),
        Fate(replayed=0.5, killed=0, paused=0, regions=0),
        "which nobody had deleted|was taken",
        9,
    ),
    (
        Switchovers,
        Safeguards(restored=False),
        Fate(killed=0, paused=0, regions=0, parted=0, replayed=0),
        "ran again",
        3,
    ),
    (Switchovers, Safeguards(fence=False), Fate(), "was taken", 0),
    (
        Promotions,
        Safeguards(epoch_memory=False),
        Fate(forced=0.7, astray=0.5, parted=1.0, regions=0, flap_seconds=1.0),
        "obeys epoch",
        13,
    ),
    (Promotions, Safeguards(holding=False), Fate(forced=0.5, regions=0.7), "which nobody had deleted", 0),
    (
        Promotions,
        Safeguards(lease=False),
        Fate(paused=0.3, replicas=(2,)),
        "while another has the Lease",
        0,
    ),
    (
        Promotions,
        Safeguards(parity=False),
        Fate(forced=0.5, parted=1.0, regions=0),
        "served under epoch",
        38,
    ),
]
"""What somebody complains of then, and the first of twenty seeds: one that shows it, where the simulation has changed since."""


@pytest.mark.parametrize(
    ("scenario", "safeguards", "fate", "complaint", "first"),
    SWITCHED_OFF,
    ids=[
        "asking the peer before serving",
        "waiting after an interrupted promotion",
        "stepping down",
        "hearing what speaks against a promotion",
        "stopping to follow before the epoch is raised",
        "compare-and-set of the record",
        "canary of the fence",
        "token of a switchover",
        "marks of restored operations",
        "fence",
        "epoch memory of agents",
        "held objects",
        "Lease",
        "epochs of one's own",
    ],
)
def test_without_one_of_the_pairs_safeguards_somebody_notices(
    scenario: type[Promotions], safeguards: Safeguards, fate: Fate, complaint: str, first: int
) -> None:
    make = partial(scenario, safeguards=safeguards, fate=fate)
    with pytest.raises(AssertionError, match=complaint):
        simulate_several(make, range(first, first + 20))


def test_every_safeguard_of_a_pair_is_switched_off_once() -> None:
    switched_off = [safeguards for _, safeguards, *_ in SWITCHED_OFF]
    assert Counter(name for each in switched_off for name in off(each)) == Counter(on(Safeguards()))
