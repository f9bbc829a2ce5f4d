import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tiphys.errors import SurroundingsError
from tiphys.running import InterruptedTwiceError, OverdueError, Running, TaskEndedError, run

ROOT = Path(__file__).parents[2]


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


def test_a_command_returns_its_result_and_its_tasks_are_cancelled() -> None:
    ended: list[str] = []

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("task")

    async def command(running: Running) -> str:
        running.start(endless(), name="endless")
        await asyncio.sleep(0)
        return "done"

    assert run(command) == "done"
    assert ended == ["task"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_command_leave_in_its_own_order(number: signal.Signals) -> None:
    steps: list[str] = []

    async def server(running: Running) -> None:
        await running.stopping.wait()
        steps.append("drained")

    async def command(running: Running) -> None:
        task = running.start(server(running), name="server")
        send(number)
        await running.stopping.wait()
        await task
        steps.append("left")

    run(command)

    assert steps == ["drained", "left"]


def test_the_death_of_a_task_ends_the_command_with_its_error() -> None:
    async def failing() -> None:
        raise SurroundingsError("the stream broke")

    async def command(running: Running) -> None:
        running.start(failing(), name="stream")
        await running.stopping.wait()

    with pytest.raises(SurroundingsError, match="the stream broke"):
        run(command)


def test_a_task_that_just_returns_is_noticed_too() -> None:
    async def short() -> None:
        pass

    async def command(running: Running) -> None:
        running.start(short(), name="watch")
        await running.stopping.wait()

    with pytest.raises(TaskEndedError, match="watch ended although nothing asked it to"):
        run(command)


def test_a_task_that_may_end_may_end() -> None:
    async def short() -> int:
        return 7

    async def command(running: Running) -> int:
        return await running.start(short(), name="once", may_end=True)

    assert run(command) == 7


def test_a_command_may_return_before_its_task_has_taken_its_first_step() -> None:
    async def endless() -> None:
        await asyncio.Event().wait()

    async def command(running: Running) -> None:
        running.start(endless(), name="endless")

    run(command)


def test_of_two_errors_the_first_is_raised() -> None:
    async def failing(text: str) -> None:
        raise SurroundingsError(text)

    async def command(running: Running) -> None:
        running.start(failing("first"), name="one")
        running.start(failing("second"), name="two")
        await running.stopping.wait()

    with pytest.raises(SurroundingsError, match="first"):
        run(command)


def test_an_error_of_the_command_itself_is_raised_and_no_group() -> None:
    async def command(running: Running) -> None:
        raise SurroundingsError("no configuration")

    with pytest.raises(SurroundingsError, match="no configuration"):
        run(command)


def test_a_command_that_does_not_leave_is_cancelled_after_its_grace_and_named() -> None:
    async def stuck() -> None:
        await asyncio.Event().wait()

    async def command(running: Running) -> None:
        task = running.start(stuck(), name="uploading")
        send(signal.SIGTERM)
        await task

    with pytest.raises(OverdueError, match=r"not stopped after 0\.01 s, still busy: uploading"):
        run(command, grace=0.01)


def test_a_second_signal_does_not_wait() -> None:
    async def command(running: Running) -> None:
        send(signal.SIGINT)
        await running.stopping.wait()
        send(signal.SIGINT)
        await asyncio.Event().wait()

    with pytest.raises(InterruptedTwiceError, match="a second SIGINT"):
        run(command)


STUBBORN = """
import asyncio, os, signal, sys
from tiphys import running

running.LAST_SECONDS = 0.1

async def failing():
    raise RuntimeError

async def stubborn():
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

async def command(life):
    life.start(stubborn(), name="stubborn")
    await asyncio.sleep(0)
    if sys.argv[1] == "signal":
        os.kill(os.getpid(), signal.SIGTERM)
    else:
        life.start(failing(), name="failing")
    await life.stopping.wait()

running.run(command, grace=0.1)
"""


@pytest.mark.parametrize("cause", ["signal", "failure"])
def test_a_task_that_ignores_its_cancellation_does_not_keep_the_process(cause: str) -> None:
    done = subprocess.run([sys.executable, "-c", STUBBORN, cause], cwd=ROOT, timeout=30, check=False)
    assert done.returncode == OverdueError.exit_code


def test_signals_mean_what_they_meant_before_when_the_command_is_over() -> None:
    before = signal.getsignal(signal.SIGINT)

    async def command(running: Running) -> None:
        pass

    run(command)

    assert signal.getsignal(signal.SIGINT) is before
