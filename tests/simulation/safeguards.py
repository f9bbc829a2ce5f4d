"""Which safeguards are on and off."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any


def on(safeguards: Any) -> list[str]:
    return [name for name, is_on in _named(safeguards) if is_on]


def off(safeguards: Any) -> list[str]:
    return [name for name, is_on in _named(safeguards) if not is_on]


def _named(safeguards: Any) -> Iterator[tuple[str, bool]]:
    """Those within others too."""
    for each in fields(safeguards):
        value = getattr(safeguards, each.name)
        if is_dataclass(value):
            yield from _named(value)
        elif isinstance(value, bool):
            yield each.name, value
