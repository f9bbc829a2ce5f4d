"""`python -m scripts.suites`: all tests in two pytest processes side by side, those on a real Argo CD in the second.

Arguments are pytest's and go to both; a report that one of them names is written by each under a name of its own. What
the second prints follows when the first has ended; what it says of its preparations, on standard error, comes at once.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import pytest

APART = "argocd"
"""The marker of tests on a real Argo CD: they share one, and mostly wait for it."""

END_SECONDS = 60.0  # an interrupted pytest ends its clusters and tells what it has seen
OWN_CACHE = f"cache_dir=.pytest_cache/{APART}"
"""Each remembers its own failures for --lf; the one that ends last would forget the other's."""

Process = subprocess.Popen[bytes]


def commands(arguments: Sequence[str], *, workers: str) -> tuple[list[str], list[str]]:
    """A marker expression of the caller's holds for both."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-m", dest="marked", default="")
    parser.add_argument("--junitxml", "--junit-xml", dest="report")
    parser.add_argument("--basetemp", dest="folder")
    known, others = parser.parse_known_args(arguments)
    also = f" and ({known.marked})" if known.marked else ""
    start = [sys.executable, "-m", "pytest"]
    spread = [f"--numprocesses={workers}", "--dist=worksteal"]
    written = {"--junitxml": known.report, "--basetemp": known.folder}
    ours = [f"{option}={path}" for option, path in written.items() if path]
    apart = [f"{option}={_beside(path)}" for option, path in written.items() if path]
    return (
        [*start, *spread, *others, *ours, "-m", f"not {APART}{also}"],
        [*start, *others, *apart, "--numprocesses=0", "-o", OWN_CACHE, "-m", f"{APART}{also}"],
    )


def _beside(path: str) -> Path:
    """reports/all.xml becomes reports/all-argocd.xml."""
    own = Path(path)
    return own.with_name(f"{own.stem}-{APART}{own.suffix}")


def verdict(codes: Sequence[int]) -> int:
    """The first failure; that nothing was selected counts only where it holds for both."""
    told = [code for code in codes if code != pytest.ExitCode.NO_TESTS_COLLECTED]
    return next((code for code in told if code), 0) if told else int(pytest.ExitCode.NO_TESTS_COLLECTED)


def main() -> int:
    first, second = commands(sys.argv[1:], workers=os.environ.get("WORKERS", "2"))
    processes: list[Process] = []

    def terminated(_: int, __: FrameType | None) -> None:
        for process in processes:
            process.send_signal(signal.SIGINT)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, terminated)
    with tempfile.TemporaryFile("w+") as output:
        try:
            processes += [subprocess.Popen(second, stdout=output), subprocess.Popen(first)]
            codes = [process.wait() for process in reversed(processes)]
        except KeyboardInterrupt:  # they have been told, by a terminal or above
            return int(pytest.ExitCode.INTERRUPTED)
        finally:
            _end(processes)
        if codes[1] != pytest.ExitCode.NO_TESTS_COLLECTED:
            output.seek(0)
            print(f"\nTests on a real Argo CD (-m {APART}):\n{output.read()}", flush=True)
    return verdict(codes)


def _end(processes: Sequence[Process]) -> None:
    for process in processes:
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
