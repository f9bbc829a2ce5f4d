"""What is remembered between reviews is bounded, whatever was written into them."""

import functools
import gc
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

import pytest

from argocd.budget import LONGEST
from argocd.engine.judge import judge
from argocd.judging import memo
from argocd.judging.case import Case, Operation, User, kind_of
from argocd.rules.catalogue import CATALOGUE
from tests.argocd.altered_objects import at, paths, replaced
from tests.argocd.cases import case_of
from tests.house.test_growth_of_work import WHOLE, around
from tests.webhook.server.test_connections import CACHES_MEBIBYTES

TODAY = date(2026, 9, 1)
PROJECTS, FEW = 300, 3
HELD_MEBIBYTES = 24
"""Of what is remembered of projects, with what Python's own lists take beside it."""

SMALL_AND_FAULTY: dict[str, Callable[[int], dict[str, Any]]] = {
    "windows": lambda number: {"syncWindows": [{}] * (4_900 + number)},
    "roles": lambda number: {"roles": [{}] * (4_900 + number)},
    "repositories": lambda number: {"sourceRepos": [1] * (6_900 + number)},
    "destinations": lambda number: {"destinations": [{}] * (4_900 + number)},
    "accounts": lambda number: {
        "destinationServiceAccounts": [{"server": f"{number}-{index}"} for index in range(600)]
    },
    "policies of a role with a long name": lambda number: {
        "roles": [{"name": "r" * 8_000, "policies": [f"p{number}"] * 60}]
    },
}


def judged(thing: dict[str, Any]) -> None:
    case = Case(
        kind=kind_of(thing),
        object=thing,
        operation=Operation.CREATE,
        writer=User(user="ada"),
        surroundings=around(),
    )
    judge(case, today=TODAY)


@pytest.mark.parametrize("spec", SMALL_AND_FAULTY.values(), ids=SMALL_AND_FAULTY)
def test_what_was_found_in_projects_is_not_kept_without_a_bound(
    spec: Callable[[int], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few of them are judged: what each leaves behind is the same."""
    monkeypatch.setattr(memo, "_MEMORIES", {})
    judged({**WHOLE, "spec": spec(PROJECTS)})
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(FEW):
            judged({**WHOLE, "spec": spec(number)})
        gc.collect()
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(memo._MEMORIES) > 1
    assert held * PROJECTS / FEW < HELD_MEBIBYTES * (1 << 20)


def caches() -> Iterator[tuple[str, Any]]:
    """Every memory of functions in argocd/, those of `remembered` included, and that of RE2's module."""
    for found in gc.get_objects():
        if isinstance(found, functools._lru_cache_wrapper):
            inner = found.__wrapped__
            function = inner.args[0] if isinstance(inner, functools.partial) else inner
            if function.__module__.startswith(("argocd.", "re2")):
                yield f"{function.__module__}.{function.__qualname__}", found


def longest_text(held: Any) -> int:
    """Among the arguments and answers that a memory holds."""
    seen: set[int] = set()
    waiting, longest = list(gc.get_referents(held)), 0
    while waiting:
        one = waiting.pop()
        if isinstance(one, str | bytes):
            longest = max(longest, len(one))
        elif isinstance(one, tuple | list | dict | frozenset) and id(one) not in seen:
            seen.add(id(one))
            waiting += gc.get_referents(one)
    return longest


LONG = ("x" * 40_000, "a*" + "b" * 40_000, "/" + "c" * 40_000 + "/", "p, " + "d" * 40_000)


@pytest.mark.parametrize("text", LONG, ids=lambda text: text[:5])
def test_no_memory_keeps_a_long_text(text: str) -> None:
    """In any place of an object, alone or beside short ones."""
    places = [(WHOLE, path) for path in paths(WHOLE)]
    for thing, path in places:
        if isinstance(at(thing, path), str) and path not in {("apiVersion",), ("kind",)}:
            judged(replaced(thing, path, text))
    for rule in CATALOGUE:
        case = case_of(rule.bad, rule=rule)
        for path in paths(case.object):
            if isinstance(at(case.object, path), str) and path not in {("apiVersion",), ("kind",)}:
                changed = replaced(case.object, path, text)
                rule_case = Case(
                    kind=case.kind, object=changed, surroundings=case.surroundings, writer=case.writer
                )
                judge(rule_case, today=TODAY, rules=(rule,))
    kept = {name: longest_text(cache) for name, cache in caches()}
    assert len(kept) > 15
    assert {name: length for name, length in kept.items() if length > 2 * LONGEST} == {}


def test_all_memories_together_fit_into_a_worker() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.argocd.full_caches"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert float(run.stdout) < CACHES_MEBIBYTES
