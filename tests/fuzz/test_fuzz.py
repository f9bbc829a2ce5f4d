"""All fuzz targets for a little while; `python -m tests.fuzz` does it for hours."""

import os
import time
from pathlib import Path

import pytest

from tests.fuzz.target import Target, fuzz, run_here
from tests.fuzz.targets import TARGETS

SECONDS = 60.0 / len(TARGETS)
"""A minute for all of them."""
SEED = 2026
"""What CI finds must be found again; everybody else looks elsewhere each time."""


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_nothing_goes_wrong_for_a_while(name: str, tmp_path: Path) -> None:
    seed = SEED if os.environ.get("CI") else time.time_ns() % 2**32
    outcome = fuzz(name, seconds=SECONDS, seed=seed, folder=tmp_path)
    assert outcome.failure == ""
    assert outcome.inputs > 0


def test_what_takes_too_long_is_noticed(tmp_path: Path) -> None:
    def busy(_: bytes) -> None:
        until = time.process_time() + 0.2
        while time.process_time() < until:
            pass

    slow = Target("slow", make=lambda chance: chance.randbytes(3), run=busy, seconds=0.01, mebibytes=1)
    with pytest.raises(AssertionError, match="it took"):
        run_here(slow, seconds=5, seed=1, folder=tmp_path)
    assert len((tmp_path / "slow").read_bytes()) == 3


def test_a_process_that_dies_is_noticed(tmp_path: Path) -> None:
    assert "ended with 1" in fuzz("no such target", seconds=1, seed=1, folder=tmp_path).failure
