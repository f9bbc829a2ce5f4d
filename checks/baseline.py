"""A file of known findings and unreadable files, for people to review: they are not reported and do not fail."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from checks.findings import CheckResult, PlacedFinding
from checks.manifests import Unreadable
from tiphys.errors import CallError

VERSION = 2
"""The first was a plain list of fingerprints, and is still read."""

UNREADABLE = "unreadable"
"""Stands where other entries have a rule."""

Entry = dict[str, str]


def baseline_of(result: CheckResult) -> str:
    entries = {json.dumps(entry): entry for entry in _entries(result)}
    known = sorted(entries.values(), key=lambda entry: list(entry.values()))
    return json.dumps({"tiphys-baseline": VERSION, "known": known}, indent=1, ensure_ascii=False) + "\n"


def without_known(result: CheckResult, path: Path) -> CheckResult:
    """What the baseline does not hold."""
    known = _read(path)
    return replace(
        result,
        findings=[
            found
            for found in result.findings
            if found.fingerprint not in known and _key(_finding(found)) not in known
        ],
        unreadable=[broken for broken in result.unreadable if _key(_unreadable(broken)) not in known],
    )


def _entries(result: CheckResult) -> Iterator[Entry]:
    yield from map(_finding, result.findings)
    yield from map(_unreadable, result.unreadable)


def _finding(found: PlacedFinding) -> Entry:
    """Without its line: it may move up and down in its file."""
    return {
        "rule": found.rule,
        "file": found.place.file,
        "object": found.about,
        "path": found.path,
        "message": found.message,
    }


def _unreadable(broken: Unreadable) -> Entry:
    return {"rule": UNREADABLE, "file": broken.place.file, "message": broken.message}


def _key(entry: Any) -> tuple[Any, ...]:
    return tuple(entry.get(key, "") for key in ("rule", "file", "object", "path", "message"))


def _read(path: Path) -> set[Any]:
    try:
        data = json.loads(path.read_bytes())
        if isinstance(data, list):
            return set(data)
        if data["tiphys-baseline"] != VERSION:
            raise CallError(f"{path}: a baseline of another version of tiphys; make it with --write-baseline")
        return {_key(entry) for entry in data["known"]}
    except OSError as error:
        raise CallError(f"{path}: {error.strerror}; make it with --write-baseline") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CallError(f"{path}: not a baseline; make it with --write-baseline") from error
