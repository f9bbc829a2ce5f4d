"""The corpus: manifests written for it, each marked good or with the findings that it must give.

A file of this folder holds entries. One begins with `# good: WHAT` or `# bad: WHAT`, a bad one has lines
`# expect: RULE PATH`, and its documents are judged together, apart from all other entries. `# file: NAME` within
an entry begins another file of the same run.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from argocd.judging.configuration import Configuration
from checks.check import judge_files

TODAY = date(2026, 9, 1)
FOLDER = Path(__file__).parent
_BEGINNING = re.compile(r"^# (good|bad): (.+)\n", re.MULTILINE)
_EXPECTED = re.compile(r"^# expect: (\S+)(?: (\S+))?\n", re.MULTILINE)
_FILE = re.compile(r"^# file: (\S+)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Entry:
    title: str
    text: str
    expected: tuple[tuple[str, str], ...]
    is_good: bool

    def write(self, folder: Path) -> list[str]:
        """Its files, and their names."""
        first, *others = _FILE.split(self.text)
        parts = [("manifest.yaml", first), *zip(others[::2], others[1::2], strict=True)]
        written = []
        for name, text in parts:
            if _EXPECTED.sub("", text).strip():
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
                written.append(str(path))
        return written


def entries_of(text: str, *, source: str) -> Iterator[Entry]:
    beginnings = list(_BEGINNING.finditer(text))
    ends = [found.start() for found in beginnings[1:]] + [len(text)]
    for found, end in zip(beginnings, ends, strict=True):
        body = text[found.end() : end]
        expected = tuple((rule, path) for rule, path in _EXPECTED.findall(body))
        yield Entry(f"{source}: {found[2]}", body, expected, is_good=found[1] == "good")


def corpus() -> list[Entry]:
    return [
        entry
        for file in sorted(FOLDER.glob("*.yaml"))
        for entry in entries_of(file.read_text(), source=file.stem)
    ]


def findings(entry: Entry, folder: Path) -> list[tuple[str, str]] | None:
    """Rule and path of what is found in the entry, as `tiphys check` judges it; None where it cannot be read."""
    result = judge_files(entry.write(folder), Configuration(), today=TODAY)
    return None if result.unreadable else sorted({(found.rule, found.path) for found in result.findings})
