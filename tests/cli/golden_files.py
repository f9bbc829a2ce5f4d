"""What commands print, whole, in files of `golden/`; `TIPHYS_GOLDEN=write` renews them."""

import os
import re
from pathlib import Path

from tiphys import __version__

GOLDEN = Path(__file__).with_name("golden")


def compare(name: str, told: str) -> None:
    golden = GOLDEN / name
    if os.environ.get("TIPHYS_GOLDEN") == "write":
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(told)
    assert told == golden.read_text(), f"{name} differs; TIPHYS_GOLDEN=write renews it"


def settled(report: str) -> str:
    """Without what is another thing tomorrow: our version, and the time."""
    report = report.replace(f'"version": "{__version__}"', '"version": "0"')
    return re.sub(r'timestamp="[^"]*"', 'timestamp="2026-01-01T00:00:00"', report)
