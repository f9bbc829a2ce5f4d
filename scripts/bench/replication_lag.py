"""How far a standby is behind when one writes now and then, and when one writes without a pause."""

import asyncio
import random as randomness
from collections.abc import Awaitable, Callable
from functools import partial

from scripts.bench.figures import Figure, quantile
from scripts.bench.paired import AGENT, ASIDE, Pair, Sight, tell

BARE = "bare write and watch"
ROUNDS = 60
PAUSE_SECONDS = 0.02
"""Until the machine rests: after five times as much the ratios are the same."""
GOAL = 2.2
MEDIAN = 0.5

Write = Callable[[], Awaitable[float]]
"""Returns the seconds until it was seen."""


async def lag(pair: Pair) -> list[Figure]:
    """The way leads over both API servers, so bare writes go to both of them."""
    tell("lag")
    aside = {pair.hub: Sight(pair.hub, ASIDE), pair.workload: pair.aside}
    async with (
        Sight(pair.workload, AGENT).open() as arrival,
        aside[pair.hub].open(),
        aside[pair.workload].open(),
    ):
        await pair.create(pair.hub, AGENT, arrival)  # app-0
        through: dict[str, Write] = {
            "create": partial(pair.create, pair.hub, AGENT, arrival),
            "update": partial(pair.update, pair.hub, AGENT, arrival, "app-0"),
        }
        bare: dict[str, list[Write]] = {"create": [], "update": []}
        for number, (store, sight) in enumerate(aside.items(), 1):
            await pair.create(store, ASIDE, sight)
            bare["create"].append(partial(pair.create, store, ASIDE, sight))
            bare["update"].append(partial(pair.update, store, ASIDE, sight, f"app-{number}"))
        rested = await _measured(through, bare, pause=PAUSE_SECONDS, when="", goal=GOAL)
        return rested + await _measured(through, bare, pause=0, when=", one right after another", goal=None)


async def _measured(
    through: dict[str, Write], bare: dict[str, list[Write]], *, pause: float, when: str, goal: float | None
) -> list[Figure]:
    """In an order that changes: whoever comes after somebody's work finds the machine warm, and sooner an answer."""
    ours: dict[str, list[float]] = {what: [] for what in through}
    theirs: dict[str, list[float]] = {what: [] for what in through}
    turns = [(ours[what], write) for what, write in through.items()]
    turns += [(theirs[what], write) for what, writes in bare.items() for write in writes]
    random = randomness.Random(ROUNDS)  # noqa: S311 - an order, no secret
    for _ in range(ROUNDS):
        random.shuffle(turns)
        for times, write in turns:
            await asyncio.sleep(pause)
            times.append(await write())
    return [
        Figure(
            f"{what} on the replica{when}, p{at * 100:.0f}",
            quantile(ours[what], at) * 1e3,
            "ms",
            than=BARE,
            theirs=quantile(theirs[what], at) * 1e3,
            goal=goal if at == MEDIAN else None,
        )
        for what in through
        for at in (MEDIAN, 0.99)
    ]
