"""What argocd-agent's own tests pin of its proxies, as tables."""

import json
from pathlib import Path
from typing import Any

import pytest

TABLES = Path(__file__).resolve().parents[3] / "shared" / "oracle" / "proxies.json"

MARKS = [
    pytest.mark.oracle,
    pytest.mark.skipif(not TABLES.is_file(), reason=f"no {TABLES.name} beside the repository"),
]


def table(*about: str) -> list[Any]:
    """The cases of all tables that begin so."""
    if not TABLES.is_file():
        return []
    found = [each for each in json.loads(TABLES.read_text())["tables"] if each["about"].startswith(about)]
    return [pytest.param(case, id=case["id"]) for each in found for case in each["cases"]]
