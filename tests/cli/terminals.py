"""A command with a terminal of its own, as a person has one."""

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

WITHIN = 60.0


@dataclass(frozen=True)
class Seen:
    code: int
    out: str
    screen: str
    """What was written to standard error, control sequences included."""


def on_a_terminal(arguments: Sequence[str], *, looks: Callable[[str], object] | None = None) -> Seen:
    """Standard error is a terminal of eighty columns, standard output a pipe.

    `looks` is called with what the terminal has shown so far, whenever that is more.
    """
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"}
    environment.pop("NO_COLOR", None)
    try:
        with subprocess.Popen(
            [sys.executable, "-m", "cli", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=theirs,
            env=environment,
        ) as process:
            os.close(theirs)
            assert process.stdout
            screen, out = _read(ours, process.stdout.fileno(), looks=looks)
            return Seen(process.wait(WITHIN), out.decode(), screen.decode())
    finally:
        os.close(ours)


def _read(*ends: int, looks: Callable[[str], object] | None) -> list[bytes]:
    """Everything that is written to all of them, until all are closed."""
    seen = dict.fromkeys(ends, b"")
    still = set(ends)
    until = time.monotonic() + WITHIN
    while still:
        ready, _, _ = select.select(still, [], [], max(until - time.monotonic(), 0))
        assert ready, f"it did not end within {WITHIN:.0f} s"
        for end in ready:
            try:
                data = os.read(end, 65536)
            except OSError:  # how a terminal says that nobody is left
                data = b""
            seen[end] += data
            if looks is not None and end == ends[0]:
                looks(seen[end].decode(errors="replace"))
            if not data:
                still.discard(end)
    return [seen[end] for end in ends]
