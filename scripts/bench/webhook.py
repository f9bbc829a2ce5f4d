"""Reviews of one worker, over TLS on kept connections, beside the same server that only decodes and encodes.

Throughput is told per second of the server's own processor time: on a shared machine the wall clock measures the
neighbours. `TIPHYS_BENCH_WEBHOOK` may name the program of another webhook to compare with: it is started with
`--address HOST:PORT --cert FILE --key FILE`, serves /validate and ends by SIGTERM.
"""

import contextlib
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from certs.authority import Authority, LeafSubject
from certs.folder import BUNDLE, CERTIFICATE, KEY, publish
from scripts.bench.asking import Load, ask, calm
from scripts.bench.figures import Figure
from scripts.bench.reviewing import review
from scripts.ports import free_port

NAME = f"reviews of an AppProject ({len(review())} bytes, 16 connections, TLS)"
CONNECTIONS = 16
REVIEWS = 600
ROUNDS = 40
"""Short and many, in turns: a moment in which other programs take the processor spoils few of them."""
APPLICATIONS, PROJECTS = 5_000, 500
EVENTS_A_SECOND = 100
START_SECONDS = 60
UNSEEN = 1_000
"""Projects that differ in all their patterns, more than a worker remembers."""
OTHER = "TIPHYS_BENCH_WEBHOOK"


@dataclass
class Server:
    process: subprocess.Popen[bytes]
    port: int
    authority: bytes

    @property
    def worker(self) -> int:
        """The arbiter's first child; another webhook has none."""
        pid = self.process.pid
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(found[0]) if found else pid

    @property
    def mebibytes(self) -> float:
        lines = Path(f"/proc/{self.worker}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


@contextlib.contextmanager
def serving(mode: str, *, applications: int = 0, projects: int = 0, events: float = 0) -> Iterator[Server]:
    """`ours`, `plain`, or the path of another webhook's program."""
    with tempfile.TemporaryDirectory() as folder:
        now = datetime.now(UTC)
        authority = Authority.create("bench", now=now)
        leaf = authority.issue(LeafSubject("localhost", dns_names=["localhost"]), now=now)
        certificate = authority.pair.certificate
        publish(Path(folder), {CERTIFICATE: leaf.certificate, KEY: leaf.key, BUNDLE: certificate})
        (Path(folder) / "metrics").mkdir()
        port = free_port()
        if mode in {"ours", "plain"}:
            numbers = [str(number) for number in (port, applications, projects, events)]
            command = [sys.executable, "-m", "scripts.bench.reviewing", mode, folder, *numbers]
        else:
            files = ["--cert", f"{folder}/{CERTIFICATE}", "--key", f"{folder}/{KEY}"]
            command = [mode, "--address", f"127.0.0.1:{port}", *files]
        # GOMAXPROCS: one core, as one worker has.
        environment = {"PROMETHEUS_MULTIPROC_DIR": f"{folder}/metrics", "GOMAXPROCS": "1"}
        process = subprocess.Popen(command, env={**os.environ, **environment})
        try:
            _wait(port, process)
            yield Server(process, port, certificate)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise RuntimeError(f"the server did not start (code {process.poll()})")


def measured(server: Server, bodies: Sequence[bytes] = (review(),)) -> Load:
    return ask(
        server.port,
        server.authority,
        bodies,
        server=server.worker,
        count=REVIEWS,
        connections=CONNECTIONS,
    )


def in_turns(servers: Mapping[str, Server]) -> dict[str, list[Load]]:
    """The calm rounds of each, after one that warms up."""
    loads: dict[str, list[Load]] = {mode: [] for mode in servers}
    for turn in range(ROUNDS + 1):
        for mode, server in list(servers.items())[:: 1 if turn % 2 else -1]:
            load = measured(server)
            if turn:
                loads[mode].append(load)
    return {mode: calm(found) for mode, found in loads.items()}


def run() -> list[Figure]:
    with serving("ours") as ours, serving("plain") as plain:
        loads = in_turns({"ours": ours, "plain": plain})
        unseen = [review(salt) for salt in range(1, UNSEEN + 1)]
        others = calm([measured(ours, unseen) for _ in range(ROUNDS)])
    than = "the same server that only decodes and encodes"
    rates, walls = _by_mode(_rate, loads), _by_mode(_seen_rate, loads)
    return [
        Figure("reviews a second of one core's time", rates["ours"], "/s", than, rates["plain"], goal=-0.6),
        Figure("reviews a second as the client saw them", walls["ours"], "/s", than, walls["plain"]),
        Figure("p99", _p99(loads["ours"]), "ms", goal=10),
        Figure(f"p99 of {than}", _p99(loads["plain"]), "ms"),
        Figure("reviews a second of one core's time, each of a project not seen before", _rate(others), "/s"),
        *_among_many(),
        *(_beside(other) if (other := os.environ.get(OTHER)) else ()),
    ]


def _among_many() -> list[Figure]:
    with serving("ours", applications=APPLICATIONS, projects=PROJECTS, events=EVENTS_A_SECOND) as server:
        memory = server.mebibytes
        loads = in_turns({"ours": server})["ours"]
        after = server.mebibytes
    objects = f"with {APPLICATIONS} Applications and {PROJECTS} projects in the caches"
    events = f"while {EVENTS_A_SECOND} status events a second arrive"
    return [
        Figure(f"reviews a second of one core's time {events}", _rate(loads), "/s"),
        Figure(f"p99 {events}", _p99(loads), "ms", goal=10),
        Figure(f"memory of a worker {objects}", max(memory, after), "MiB", goal=120),
    ]


def _beside(program: str) -> list[Figure]:
    with serving("ours") as ours, serving(program) as other:
        loads = in_turns({"ours": ours, "other": other})
    rates, walls = _by_mode(_rate, loads), _by_mode(_seen_rate, loads)
    than = Path(program).name
    return [
        Figure("reviews a second of one core's time", rates["ours"], "/s", than, rates["other"], goal=-2),
        Figure("reviews a second as the client saw them", walls["ours"], "/s", than, walls["other"]),
        Figure("p99", _p99(loads["ours"]), "ms", than, _p99(loads["other"])),
    ]


def _by_mode(
    tell: Callable[[Sequence[Load]], float], loads: Mapping[str, Sequence[Load]]
) -> dict[str, float]:
    return {mode: tell(found) for mode, found in loads.items()}


def _rate(loads: Sequence[Load]) -> float:
    return 1 / statistics.median(load.cost for load in loads)


def _seen_rate(loads: Sequence[Load]) -> float:
    return REVIEWS / statistics.median(load.seconds for load in loads)


def _p99(loads: Sequence[Load]) -> float:
    ordered = sorted(latency for load in loads for latency in load.latencies)
    return ordered[int(len(ordered) * 0.99)] * 1000
