"""Promises in seconds are for a machine with nothing else to do; others may be at work on this one."""

import os
from pathlib import Path

LOAD = Path("/proc/loadavg")


def crowd() -> float:
    """How many want each processor, by the last minute's average or in this moment; at least one."""
    now = int(LOAD.read_text().split()[3].partition("/")[0]) if LOAD.exists() else 0
    return max(1.0, max(os.getloadavg()[0], now) / (os.cpu_count() or 1))
