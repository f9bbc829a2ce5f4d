"""The life of a long-running command: its tasks, its signals, its end.

    async def serve(running: Running) -> None:
        running.start(keep_caches(), name="caches")
        await running.stopping.wait()
        await server.drain()

    run(serve)

A task that dies, or ends although nobody asked it to, ends the command with its error: nothing goes on half
alive. SIGTERM and SIGINT set `stopping`; the command then has `grace` seconds to leave, whatever is left of
its tasks is cancelled, and a second signal does not wait for that.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tiphys import logs
from tiphys.errors import SurroundingsError, TiphysError

T = TypeVar("T")

GRACE_SECONDS = 25.0  # within the 30 s that Kubernetes gives a pod
LAST_SECONDS = 3.0  # for tasks that were cancelled; then the process ends under them

log = logs.get_logger()


class InterruptedTwiceError(TiphysError):
    """Somebody did not want to wait."""

    exit_code = 128 + signal.SIGINT


class TaskEndedError(SurroundingsError):
    """A task that should run for ever returned."""


class OverdueError(SurroundingsError):
    """The command did not leave within its grace."""


class Running:
    """What a command gets: tasks that are watched over, and the word that it is time to leave."""

    def __init__(self, group: asyncio.TaskGroup, *, grace: float) -> None:
        self.stopping = asyncio.Event()
        self.error: TiphysError | None = None
        self._group = group
        self._grace = grace
        self._tasks: set[asyncio.Task[Any]] = set()
        self._command = asyncio.current_task()
        self._timers: list[asyncio.TimerHandle] = []

    def start(self, work: Coroutine[Any, Any, T], *, name: str, may_end: bool = False) -> asyncio.Task[T]:
        """A task of this command. Unless it `may_end`, its return before `stopping` is an error."""
        task = self._group.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._may_have_ended if may_end else self._should_not_have_ended)
        return task

    def _should_not_have_ended(self, task: asyncio.Task[Any]) -> None:
        if not self.stopping.is_set() and not task.cancelled() and not task.exception():
            self._give_up(
                TaskEndedError(f"{task.get_name()} ended although nothing asked it to"), within=self._grace
            )
        self._may_have_ended(task)

    def _may_have_ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception():
            # The group cancels the others now; one that does not listen must not keep the process.
            self._later(self._grace, lambda: os._exit(TiphysError.exit_code))

    def _signalled(self, number: signal.Signals) -> None:
        if self.stopping.is_set():
            self._give_up(
                InterruptedTwiceError(f"interrupted by a second {number.name}"), within=LAST_SECONDS
            )
            return
        log.info("stopping", **{logs.REASON: number.name})
        self.stopping.set()
        self._later(self._grace, self._overdue)

    def _overdue(self) -> None:
        names = ", ".join(sorted(task.get_name() for task in self._tasks)) or "the command itself"
        overdue = OverdueError(f"not stopped after {self._grace:g} s, still busy: {names}")
        self._give_up(overdue, within=LAST_SECONDS)

    def _give_up(self, error: TiphysError, *, within: float) -> None:
        self.error = self.error or error
        self._later(within, lambda: os._exit(error.exit_code))
        if self._command:
            self._command.cancel()

    def _later(self, seconds: float, then: Callable[[], None]) -> None:
        self._timers.append(asyncio.get_running_loop().call_later(seconds, then))

    def _finish(self) -> None:
        """The command has returned: tasks that are left have no more to do."""
        self.stopping.set()
        if not self._timers:
            self._later(self._grace, self._overdue)
        for task in self._tasks:
            task.cancel()

    def _forget_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()


def run(command: Callable[[Running], Coroutine[Any, Any, T]], *, grace: float = GRACE_SECONDS) -> T | None:
    """Runs the command to its end in an event loop of its own; None where it was cancelled."""
    return asyncio.run(_supervised(command, grace=grace))


async def _supervised(command: Callable[[Running], Coroutine[Any, Any, T]], *, grace: float) -> T | None:
    loop = asyncio.get_running_loop()
    running: Running | None = None
    result: T | None = None
    try:
        async with asyncio.TaskGroup() as group:
            running = Running(group, grace=grace)
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, running._signalled, number)  # noqa: SLF001 - two halves of one thing
            result = await command(running)
            running._finish()  # noqa: SLF001 - as above
    except asyncio.CancelledError:
        if running and running.error:
            raise running.error from None
        raise
    except BaseExceptionGroup as errors:
        raise first_of(errors) from None
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        if running:
            running._forget_timers()  # noqa: SLF001 - as above
    return result


def first_of(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """One error ends the command; the others, which followed from it or fell together with it, are logged."""
    first, *others = _leaves(errors)
    for other in others:
        log.error("another task failed too", **{logs.ERROR: other})
    return first


def _leaves(errors: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    return [
        leaf
        for error in errors.exceptions
        for leaf in (_leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    ]
