"""The two regions of a pair, as replication tells of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionFacts:
    """`lag_seconds` is None where there is nothing to lag behind."""

    name: str
    ours: bool
    state: str
    detail: str = ""
    epoch: int
    lag_seconds: float | None = None


Regions = Callable[[], Sequence[RegionFacts]]
"""Empty where this principal has no peer."""
