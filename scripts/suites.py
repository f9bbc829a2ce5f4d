"""`python -m scripts.suites`: all tests in two pytest processes side by side, those on a real Argo CD in the second.

Arguments are pytest's and go to both. What the second prints follows when the first has ended; what it says of its
preparations, on standard error, comes at once.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence

import pytest

APART = "argocd"
"""The marker of tests on a real Argo CD: they share one, and mostly wait for it."""


def commands(arguments: Sequence[str], *, workers: str) -> tuple[list[str], list[str]]:
    """A marker expression of the caller's holds for both."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-m", dest="marked", default="")
    known, others = parser.parse_known_args(arguments)
    also = f" and ({known.marked})" if known.marked else ""
    start = [sys.executable, "-m", "pytest"]
    spread = [f"--numprocesses={workers}", "--dist=worksteal"]
    return (
        [*start, *spread, *others, "-m", f"not {APART}{also}"],
        [*start, *others, "--numprocesses=0", "-m", f"{APART}{also}"],
    )


def verdict(codes: Sequence[int]) -> int:
    """The first failure; that nothing was selected counts only where it holds for both."""
    told = [code for code in codes if code != pytest.ExitCode.NO_TESTS_COLLECTED]
    return next((code for code in told if code), 0) if told else int(pytest.ExitCode.NO_TESTS_COLLECTED)


def main() -> int:
    first, second = commands(sys.argv[1:], workers=os.environ.get("WORKERS", "2"))
    with tempfile.TemporaryFile("w+") as output:
        beside = subprocess.Popen(second, stdout=output)
        try:
            codes = [subprocess.run(first, check=False).returncode, beside.wait()]
        except KeyboardInterrupt:  # a terminal has told both
            beside.wait()
            return int(pytest.ExitCode.INTERRUPTED)
        finally:
            if beside.poll() is None:
                beside.terminate()
                beside.wait()
        if codes[1] != pytest.ExitCode.NO_TESTS_COLLECTED:
            output.seek(0)
            print(f"\nTests on a real Argo CD (-m {APART}):\n{output.read()}", flush=True)
    return verdict(codes)


if __name__ == "__main__":
    sys.exit(main())
