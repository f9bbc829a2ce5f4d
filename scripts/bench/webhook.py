"""Reviews of one worker, over TLS on kept connections, beside the same server that only decodes and encodes.

Throughput is told per second of the server's own processor time: on a shared machine, with the client on it
too, the wall clock measures the neighbours.
"""

import asyncio
import contextlib
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from certs.authority import Authority, Subject
from certs.folder import BUNDLE, CERTIFICATE, KEY, publish
from scripts.bench.figures import Figure
from scripts.bench.reviewing import Load, ask, review

NAME = f"reviews of an AppProject ({len(review())} bytes, 16 connections, TLS)"
CONNECTIONS = 16
REVIEWS = 3_000
ROUNDS = 5
APPLICATIONS, PROJECTS = 5_000, 500
EVENTS_A_SECOND = 100
START_SECONDS = 60
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Server:
    process: subprocess.Popen[bytes]
    port: int
    authority: bytes

    @property
    def worker(self) -> int:
        found = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(found[0])

    @property
    def processor_seconds(self) -> float:
        fields = Path(f"/proc/{self.worker}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    @property
    def mebibytes(self) -> float:
        lines = Path(f"/proc/{self.worker}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


@contextlib.contextmanager
def serving(mode: str, *, applications: int = 0, projects: int = 0, events: float = 0) -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        now = datetime.now(UTC)
        authority = Authority.create("bench", now=now)
        leaf = authority.issue(Subject("localhost", dns_names=["localhost"]), now=now)
        certificate = authority.pair.certificate
        publish(Path(folder), {CERTIFICATE: leaf.certificate, KEY: leaf.key, BUNDLE: certificate})
        (Path(folder) / "metrics").mkdir()
        port = free_port()
        numbers = [str(number) for number in (port, applications, projects, events)]
        process = subprocess.Popen(
            [sys.executable, "-m", "scripts.bench.reviewing", mode, folder, *numbers],
            env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": f"{folder}/metrics"},
        )
        try:
            _wait(port, process)
            yield Server(process, port, certificate)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise RuntimeError(f"the server did not start (code {process.poll()})")


def measured(server: Server) -> tuple[float, Load]:
    """Seconds of the server's processor for one review, and what the client saw."""
    before = server.processor_seconds
    load = asyncio.run(ask(server.port, server.authority, count=REVIEWS, connections=CONNECTIONS))
    return (server.processor_seconds - before) / REVIEWS, load


def run() -> list[Figure]:
    costs: dict[str, list[float]] = {"ours": [], "plain": []}
    loads: dict[str, list[Load]] = {"ours": [], "plain": []}
    with serving("ours") as ours, serving("plain") as plain:
        for server in (ours, plain):
            measured(server)
        for turn in range(ROUNDS):
            for mode, server in (("ours", ours), ("plain", plain))[:: 1 if turn % 2 else -1]:
                cost, load = measured(server)
                costs[mode].append(cost)
                loads[mode].append(load)
    rates = {mode: 1 / statistics.median(found) for mode, found in costs.items()}
    walls = {
        mode: REVIEWS / statistics.median(load.seconds for load in found) for mode, found in loads.items()
    }
    than = "the same server that only decodes and encodes"
    return [
        Figure("reviews a second of one core's time", rates["ours"], "/s", than, rates["plain"], goal=-0.6),
        Figure("reviews a second as the client saw them", walls["ours"], "/s", than, walls["plain"]),
        Figure("p99", _p99(loads["ours"]), "ms", than, _p99(loads["plain"])),
        *_among_many(),
    ]


def _among_many() -> list[Figure]:
    with serving("ours", applications=APPLICATIONS, projects=PROJECTS, events=EVENTS_A_SECOND) as server:
        memory = server.mebibytes
        measured(server)
        found = [measured(server) for _ in range(ROUNDS)]
        after = server.mebibytes
    rate = 1 / statistics.median(cost for cost, _ in found)
    objects = f"with {APPLICATIONS} Applications and {PROJECTS} projects in the caches"
    events = f"while {EVENTS_A_SECOND} status events a second arrive"
    return [
        Figure(f"reviews a second of one core's time {events}", rate, "/s"),
        Figure(f"p99 {events}", _p99([load for _, load in found]), "ms", goal=10),
        Figure(f"memory of a worker {objects}", max(memory, after), "MiB", goal=120),
    ]


def _p99(loads: list[Load]) -> float:
    return statistics.median(load.p99 for load in loads) * 1000
