"""A file of known findings, by their fingerprints: they are not reported and do not fail."""

import json
from collections.abc import Iterable
from pathlib import Path

from checks.findings import PlacedFinding
from tiphys.errors import CallError


def baseline_of(findings: Iterable[PlacedFinding]) -> str:
    return json.dumps(sorted({found.fingerprint for found in findings}), indent=1) + "\n"


def without_known(findings: Iterable[PlacedFinding], path: Path) -> list[PlacedFinding]:
    """Those that the baseline does not hold."""
    try:
        known = set(json.loads(path.read_text()))
    except OSError as error:
        raise CallError(f"{path}: {error.strerror}; make it with --write-baseline") from error
    except (ValueError, TypeError) as error:
        raise CallError(f"{path}: not a baseline; make it with --write-baseline") from error
    return [found for found in findings if found.fingerprint not in known]
