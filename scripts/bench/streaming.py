"""An Application's way from a control plane to a workload cluster and its status' way back, on real API servers.

Where `ARGOCD_AGENT_BIN` names one, a real argocd-agent is measured in the same way afterwards.
"""

import statistics
from collections.abc import Callable, Coroutine
from typing import Any

from scripts.argocd_agent import BINARY
from scripts.bench.figures import Figure
from scripts.bench.paired import (
    AGENT,
    ASIDE,
    GO,
    Pair,
    Sight,
    argocd_agents,
    ours,
    pair_with,
    tell,
)
from scripts.bench.sidecar_processes import NAMESPACE

NAME = "streaming: one managed agent, principal and agent in processes of their own, two API servers, TLS"

BARE = "bare write and watch"
ROUNDS = 60
PROPAGATION_GOAL = 3.0


Way = Callable[[], Coroutine[Any, Any, float]]
Times = dict[str, tuple[list[float], list[float]]]
"""Milliseconds through the sidecars and of a bare write, by what was written."""


async def _propagation(pair: Pair) -> Times:
    """In turns with the bare write, so that a busy moment meets both."""
    async with (
        pair.arrival.open() as arrival,
        Sight(pair.hub, AGENT).open() as back,
        pair.aside.open() as aside,
    ):
        await pair.create(pair.hub, AGENT, arrival)
        await pair.create(pair.workload, ASIDE, aside)
        streamed, bare = "app-0", "app-1"
        ways: dict[str, tuple[Way, Way]] = {
            "create": (
                lambda: pair.create(pair.hub, AGENT, arrival),
                lambda: pair.create(pair.workload, ASIDE, aside),
            ),
            "update": (
                lambda: pair.update(pair.hub, AGENT, arrival, streamed),
                lambda: pair.update(pair.workload, ASIDE, aside, bare),
            ),
            "status back": (
                lambda: pair.status(pair.workload, NAMESPACE, back, streamed),
                lambda: pair.status(pair.workload, ASIDE, aside, bare),
            ),
        }
        times: Times = {}
        for what, (through, barely) in ways.items():
            tell(what)
            times[what] = ([], [])
            for _ in range(ROUNDS):
                times[what][0].append(await through() * 1e3)
                times[what][1].append(await barely() * 1e3)
    return times


def _quantile(times: list[float], at: float) -> float:
    return statistics.quantiles(times, n=100, method="inclusive")[round(at * 100) - 1]


def _figures(measured: Times, others: Times) -> list[Figure]:
    figures = []
    for what, (through, barely) in measured.items():
        for quantile, goal in ((0.5, PROPAGATION_GOAL), (0.99, None)):
            title, value = f"{what}, p{quantile * 100:.0f}", _quantile(through, quantile)
            theirs = _quantile(barely, quantile)
            figures.append(Figure(title, value, "ms", than=BARE, theirs=theirs, goal=goal))
            if what in others:
                theirs = _quantile(others[what][0], quantile)
                figures.append(Figure(title, value, "ms", than=GO, theirs=theirs))
    return figures


async def run() -> list[Figure]:
    async with pair_with(ours) as pair:
        measured = await _propagation(pair)
    others: Times = {}
    if BINARY:
        async with pair_with(argocd_agents) as pair:
            others = await _propagation(pair)
    return _figures(measured, others)
