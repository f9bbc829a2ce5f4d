"""Tells which entries of PENDING.md pass now: `python -m tests.corpus`."""

import re
import sys
import tempfile
from pathlib import Path

from tests.corpus.entries import FOLDER, Entry, entries_of, findings

PENDING = FOLDER / "PENDING.md"
_BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def pending() -> list[Entry]:
    blocks = _BLOCK.findall(PENDING.read_text())
    return [entry for block in blocks for entry in entries_of(block, source="pending")]


def passes(entry: Entry) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        found = findings(entry, Path(folder))
    return (
        found is not None
        and len(found) == len(entry.expected)
        and all(
            any(rule in {"?", is_rule} and path in {"?", is_path} for is_rule, is_path in found)
            for rule, path in entry.expected
        )
    )


if __name__ == "__main__":
    for entry in pending():
        sys.stdout.write(f"{'passes' if passes(entry) else 'not yet'}  {entry.title}\n")
