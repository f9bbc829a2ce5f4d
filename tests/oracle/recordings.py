"""What real peers said to each other and stored, read from a recording."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WIRE = Path(__file__).resolve().parents[3] / "shared" / "oracle" / "wire"
PREFIX = "io.argoproj.argocd-agent.event."


@dataclass(frozen=True)
class Entry:
    """One line: a step somebody made, what stood there a moment later, or a message."""

    number: int
    what: str
    side: str
    stored: Any
    type: str = ""
    target: str = ""
    payload: Any = None
    attributes: Any = None


@dataclass(frozen=True)
class Recording:
    entries: tuple[Entry, ...]

    def stored(self, side: str, name: str) -> Iterator[Entry]:
        """Each version of an object that was seen on a side."""
        for entry in self.entries:
            metadata = (entry.stored or {}).get("metadata") or {}
            if entry.side == side and metadata.get("name") == name:
                yield entry

    def messages(self, type: str, target: str) -> Iterator[Entry]:  # noqa: A002 - the wire's word
        for entry in self.entries:
            if (entry.type, entry.target) == (type, target):
                yield entry

    def last_before(self, number: int, side: str, name: str) -> Any:
        found = [entry.stored for entry in self.stored(side, name) if entry.number < number]
        return found[-1] if found else None


def read(name: str) -> Recording:
    with (WIRE / f"{name}.jsonl").open() as lines:
        return Recording(tuple(_entry(number, json.loads(line)) for number, line in enumerate(lines)))


def _entry(number: int, line: Any) -> Entry:
    if line["what"] == "step":
        return Entry(number, line["step"], line.get("side", ""), line.get("stored"))
    event = (line.get("decoded") or {}).get("event") or {}
    attributes = {key: next(iter(part.values())) for key, part in event.get("attributes", {}).items()}
    payload = next((part for key, part in event.items() if key.endswith("_json")), None)
    return Entry(
        number,
        line["what"],
        {"request": "agent", "response": "principal"}.get(line["what"], ""),
        None,
        type=event.get("type", "").removeprefix(PREFIX),
        target=attributes.get("dataschema", ""),
        payload=payload,
        attributes=attributes,
    )
