"""What the keeper and the workers do not do when they end."""

import subprocess
import sys

from tests.webhook.conftest import ROOT

COUNTED_IN_A_CHILD = """
import gc
from types import SimpleNamespace
from webhook.server import supervisor

def count(options):
    print(gc.get_freeze_count(), len(gc.get_objects()))

supervisor._run(count, SimpleNamespace(log_level="info", log_format="json"))
"""


def test_no_process_looks_for_garbage_among_its_modules_when_it_ends() -> None:
    """Three processes one after the other took seconds for it, and longer on a busy machine."""
    counted = subprocess.run(
        [sys.executable, "-c", COUNTED_IN_A_CHILD],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        timeout=60,
    )
    kept_from_the_collector, looked_through = map(int, counted.stdout.split())
    assert kept_from_the_collector > 100 * looked_through, (
        "all modules are loaded, and frozen, before a child begins"
    )
