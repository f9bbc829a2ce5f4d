"""What commands print, whole, in files of `golden/`; `TIPHYS_GOLDEN=write` renews them."""

import os
from pathlib import Path

GOLDEN = Path(__file__).with_name("golden")


def compare(name: str, told: str) -> None:
    golden = GOLDEN / name
    if os.environ.get("TIPHYS_GOLDEN") == "write":
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(told)
    assert told == golden.read_text(), f"{name} differs; TIPHYS_GOLDEN=write renews it"
