"""An asyncio loop whose clock jumps to the next thing that is due: hours pass in milliseconds, and the same
program does the same things in the same order every time.

Nothing real may happen in it: no threads, sockets or processes. Whoever waits for one of those waits for
ever, and the loop says so instead of hanging.
"""

import asyncio
import selectors
from collections.abc import Coroutine, Mapping
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, TypeVar

T = TypeVar("T")

BEGINNING = datetime(2026, 11, 16, tzinfo=UTC)


class NothingCanHappenError(Exception):
    """Every task waits for another, or for something real."""


class EndlessError(Exception):
    """Too many steps: something spins without time passing, or the program has no end."""


class _Selector(selectors.SelectSelector):
    """Where a real loop would sleep, time passes."""

    def __init__(self, *, steps: int) -> None:
        super().__init__()
        self.seconds = 0.0
        self._steps = steps

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise NothingCanHappenError("all tasks wait and no timer is set")
        self._steps -= 1
        if self._steps < 0:
            raise EndlessError(f"no end in sight at {self.seconds:.3f} s of virtual time")
        self.seconds += max(timeout, 0.0)
        return []


class _Task(asyncio.Task[T]):
    """Sets of tasks, which asyncio iterates over when it cancels, follow the order of creation here instead
    of addresses in memory.
    """

    _numbers = count()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.number = next(_Task._numbers)
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self.number


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, *, steps: int = 10_000_000) -> None:
        self._virtual = _Selector(steps=steps)
        self.problems: list[Mapping[str, Any]] = []
        super().__init__(self._virtual)
        self.set_task_factory(_make_task)
        self.set_exception_handler(lambda _, context: self.problems.append(context))

    def time(self) -> float:
        return self._virtual.seconds

    def now(self) -> datetime:
        """The date that belongs to `time`."""
        return BEGINNING + timedelta(seconds=self.time())


def _make_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    return _Task(coroutine, loop=loop, **options)


def run(program: Coroutine[Any, Any, T]) -> T:
    """The program's result; an exception that nobody fetched from a task is raised too."""
    loop = VirtualLoop()
    _Task._numbers = count()
    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            result = runner.run(program)
    finally:
        problems = loop.problems
    for problem in problems:
        raise AssertionError(problem["message"]) from problem.get("exception")
    return result
