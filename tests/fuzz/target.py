"""What a fuzz target is, and one run of it in a process of its own."""

import json
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.processor_time import slowness

STARTING = 60.0
"""Seconds for a process to begin and to end, on a busy machine."""


@dataclass(frozen=True, slots=True)
class Target:
    """`run` raises whatever is wrong; `seconds` of the processor and `mebibytes` are what one input may take."""

    name: str
    make: Callable[[random.Random], bytes]
    run: Callable[[bytes], None]
    seconds: float
    mebibytes: int


@dataclass(frozen=True, slots=True)
class FuzzOutcome:
    """`failure` is empty, or says what went wrong with which file."""

    inputs: int
    failure: str = ""
    slowest: float = 0.0


def fuzz(name: str, *, seconds: float, seed: int, folder: Path) -> FuzzOutcome:
    """One target, until its time is over or something goes wrong; what it was given last stays in the folder."""
    command = [sys.executable, "-m", "tests.fuzz.child", name, str(seconds), str(seed), str(folder)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=seconds + STARTING, env=os.environ
        )
    except subprocess.TimeoutExpired:
        return FuzzOutcome(0, f"{name}: it did not come back from {folder / name}")
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [""])[-1]
        return FuzzOutcome(0, f"{name}: ended with {done.returncode} on {folder / name}: {last}")
    told = json.loads(done.stdout.splitlines()[-1])
    return FuzzOutcome(told["inputs"], slowest=told["slowest"])


def run_here(target: Target, *, seconds: float, seed: int, folder: Path) -> FuzzOutcome:
    """In this process, which ends with the first thing that is wrong."""
    chance = random.Random(seed)
    until = time.monotonic() + seconds
    inputs, slowest = 0, 0.0
    while time.monotonic() < until:
        data = target.make(chance)
        (folder / target.name).write_bytes(data)
        started = time.process_time()
        target.run(data)
        took = time.process_time() - started
        if took > target.seconds:
            took /= slowness()
        assert took < target.seconds, f"it took {took:.1f} s"
        slowest = max(slowest, took)
        inputs += 1
    return FuzzOutcome(inputs, slowest=slowest)


def limit_memory(target: Target) -> None:
    """Of this process, for good: what it has now, and what the target may take."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + target.mebibytes * 1024 * 1024
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
