"""Which of many agents get a project, cold and warm, and how that grows with their number.

Of the processor's time, and of the runs that others disturbed least, as in `rules`.
"""

import itertools
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from argocd.agents.messages import project_sendings
from argocd.agents.routing import AgentIndex, AgentMapping, route_project
from argocd.agents.vocabulary import Mode
from scripts.bench.figures import Figure, side_by_side

NAME = "routing a project (6 destinations, 3 source namespaces)"
AGENTS = 1000
MORE = 4
ROUNDS = 25

_fresh = itertools.count()


def agents(count: int) -> AgentIndex:
    index = AgentIndex(mapped_by=AgentMapping.NAMESPACE)
    for number in range(count):
        index.put(f"{('prod', 'test', 'edge')[number % 3]}-{number:05}", Mode.MANAGED)
    return index


def project(*, description: str = "", salt: str = "", unusual: bool = False) -> dict[str, Any]:
    """With a `salt` the patterns are ones that nobody has seen; unusual ones are neither names nor prefixes."""
    patterns = ["prod-*", "test-00001", "{edge,test}-*", f"*-0{salt}", "!test-0009*", f"edge-00{salt}*"]
    namespaces = ["prod-*", "edge-*", f"test-{salt}*"]
    if unusual:
        patterns += [f"edge-???{salt}", f"*[05]{{{salt},}}", f"!?*-*[!{salt}]9", f"{{prod-*,edge}}-{salt}?"]
        namespaces.append(f"/^(edge|test{salt})-/")
    return {
        "metadata": {"name": "shop", "namespace": "argocd"},
        "spec": {
            "description": description,
            "destinations": [{"name": pattern, "namespace": "shop"} for pattern in patterns],
            "sourceNamespaces": namespaces,
        },
    }


def cold(index: AgentIndex, *, unusual: bool = False) -> list[str]:
    return index.for_project(project(salt=str(next(_fresh)), unusual=unusual))


def run() -> list[Figure]:
    index, larger = agents(AGENTS), agents(AGENTS * MORE)
    known = project(unusual=True)
    old, new = project(description="old"), project(description="new")
    first = _best(lambda: cold(index))
    tried = _best(lambda: cold(index, unusual=True))
    warm, one_by_one = side_by_side(
        lambda: index.for_project(known),
        lambda: [name for name in index.names(Mode.MANAGED) if _alone(known, name)],
        rounds=ROUNDS,
    )
    many, few = (_times(partial(cold, each), rounds=ROUNDS * 10)[0] for each in (larger, index))
    many_tried, few_tried = (
        _times(partial(cold, each, unusual=True), rounds=ROUNDS // 5)[0] for each in (larger, index)
    )
    change = _best(lambda: list(project_sendings(old, new, agents=index)))
    linear = MORE * 1.5  # noise included; quadratic growth would be 16
    return [
        Figure("its patterns never seen, 1 000 agents", first * 1e3, "ms", goal=10),
        Figure("the same, and five that are unusual", tried * 1e3, "ms", goal=10),
        Figure("once seen", warm * 1e3, "ms", than="asking each agent", theirs=one_by_one * 1e3, goal=0.2),
        Figure("4 000 agents", many * 1e3, "ms", than="1 000 agents", theirs=few * 1e3, goal=linear),
        Figure(
            "the same, unusual", many_tried * 1e3, "ms", than="1 000", theirs=few_tried * 1e3, goal=linear
        ),
        Figure("an update and all the copies to send", change * 1e3, "ms", goal=40),
    ]


def _alone(known: dict[str, Any], name: str) -> bool:
    return route_project(known, name, mapped_by=AgentMapping.NAMESPACE).goes


def _best(measured: Callable[[], object]) -> float:
    return statistics.quantiles(_times(measured, rounds=ROUNDS), n=10)[0]


def _times(measured: Callable[[], object], *, rounds: int) -> list[float]:
    """Sorted: growth is told from the best ones, which other work on the machine disturbed least."""
    times = []
    for _ in range(rounds):
        started = time.process_time()
        measured()
        times.append(time.process_time() - started)
    return sorted(times)
