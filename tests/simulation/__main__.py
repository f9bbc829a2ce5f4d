"""`python -m tests.simulation delivery --seed 17` replays one seed, `--seeds 5000` runs many."""

import argparse
import logging
import sys
from collections import Counter
from collections.abc import Callable

import click
import structlog

from tests.simulation.cramped_sidecars import CrampedEnds, CrampedPlain, CrampedSidecars
from tests.simulation.delivery_world import Delivery
from tests.simulation.live_requests import LiveRequests, PlainRequests
from tests.simulation.mirrored_projects import Mirroring
from tests.simulation.plain_sidecars import PlainSidecars
from tests.simulation.promotions import Promotions
from tests.simulation.redis_callers import PlainRedisCallers, RedisCallers
from tests.simulation.replicated_hubs import Replication
from tests.simulation.sidecars import Sidecars
from tests.simulation.simulation import STORM_SECONDS, Scenario, SimulationError, simulate
from tests.simulation.switchovers import Switchovers
from tests.simulation.world import World

SCENARIOS: dict[str, Callable[[World], Scenario]] = {
    scenario.name: scenario
    for scenario in (
        Delivery,
        Mirroring,
        LiveRequests,
        PlainRequests,
        RedisCallers,
        PlainRedisCallers,
        Sidecars,
        PlainSidecars,
        CrampedSidecars,
        CrampedEnds,
        CrampedPlain,
        Replication,
        Promotions,
        Switchovers,
    )
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("scenario", choices=sorted(SCENARIOS))
    parser.add_argument("--seed", type=int, help="replay this one and print its trace")
    parser.add_argument("--seeds", type=int, default=1000, help="how many to run (1000)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (0)")
    parser.add_argument("--storm", type=float, default=STORM_SECONDS, help="seconds of it (%(default)g)")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    make = SCENARIOS[options.scenario]
    if options.seed is not None:
        return _replay(make, options.seed, options.storm)
    counts: Counter[str] = Counter()
    failed = 0
    for seed in range(options.first, options.first + options.seeds):
        try:
            counts += simulate(make, seed=seed, storm_seconds=options.storm).counts
        except SimulationError as error:
            failed += 1
            click.echo(error, err=True)
    for what, count in counts.most_common():
        click.echo(f"{count:9} {what}")
    click.echo(f"{options.seeds} seeds, {failed} failed")
    return 1 if failed else 0


def _replay(make: Callable[[World], Scenario], seed: int, storm_seconds: float) -> int:
    try:
        result = simulate(make, seed=seed, storm_seconds=storm_seconds)
    except SimulationError as error:
        click.echo("\n".join(error.lines))
        click.echo(error, err=True)
        return 1
    click.echo("\n".join(result.lines))
    click.echo(f"digest {result.digest}, converged {result.seconds:.0f} s after the storm")
    return 0


if __name__ == "__main__":
    sys.exit(main())
