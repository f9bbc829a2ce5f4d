import os
import subprocess
import sys
from pathlib import Path

import pytest

from tiphys import metrics

ROOT = Path(__file__).parents[2]


def test_a_counted_event_is_in_the_exposition() -> None:
    seen = metrics.counter("tiphys_test_seen_total", "Seen in a test.", labels=("rule",))
    seen.labels(rule="project/name").inc(2)

    assert b'tiphys_test_seen_total{rule="project/name"} 2.0' in metrics.exposition()
    assert (
        metrics.Described("tiphys_test_seen_total", "counter", "Seen in a test.", ("rule",))
        in metrics.described
    )


def test_many_values_observed_at_once_count_as_each_would() -> None:
    values = [0.0, 0.0004, 0.0005, 0.00051, 0.3, 10.0, 11.0, 5000.0]
    made = metrics.histogram("tiphys_test_pause_seconds", "Pauses in a test.", labels=("how",))
    metrics.observe_all(made.labels(how="together"), values)
    for value in values:
        made.labels(how="one by one").observe(value)

    told = metrics.exposition().decode()
    together = {line for line in told.splitlines() if 'how="together"' in line and "_created" not in line}
    assert any(line.endswith(" 8.0") for line in together)
    assert {line.replace("together", "one by one") for line in together} <= set(told.splitlines())


def test_the_default_registry_of_the_library_stays_out() -> None:
    assert b"python_info" not in metrics.exposition()


@pytest.mark.parametrize(
    ("make", "name", "complaint"),
    [
        (metrics.counter, "tiphys_test_seen", "does not end in _total"),
        (metrics.counter, "webhook_denials_total", "is not named tiphys_<room>_<what>"),
        (metrics.gauge, "tiphys_Test_size", "is not named tiphys_<room>_<what>"),
        (metrics.histogram, "tiphys_test_latency", "does not end in its unit"),
    ],
)
def test_a_name_against_the_conventions_is_refused(make: object, name: str, complaint: str) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match=complaint):
        make(name, "Never made.")


def test_a_label_that_nobody_bounds_is_refused() -> None:
    with pytest.raises(ValueError, match="a label without bound: user"):
        metrics.counter("tiphys_test_calls_total", "Never made.", labels=("rule", "user"))


COUNTING = """
import os
from tiphys import metrics
calls = metrics.counter("tiphys_test_calls_total", "Calls.")
if os.fork() == 0:
    calls.inc(2)
    os._exit(0)
os.wait()
calls.inc(3)
print(metrics.exposition().decode())
"""


def test_the_counts_of_several_processes_are_added_up(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COUNTING],
        cwd=ROOT,
        env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert "tiphys_test_calls_total 5.0" in done.stdout
