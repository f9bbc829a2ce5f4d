"""Which entries of a list are new: of a long list an update is judged by these, and only they are charged to its review.

An entry that stood there before, wherever, is none of them: whoever moves entries changes nothing about each.
"""

from collections.abc import Sequence
from typing import Any

import orjson

from argocd.budget import spend

_AT_ONCE = 8
"""Entries that one step compares."""

Entry = tuple[int, Any]
"""A place in a list and what stands there."""


def added(after: Sequence[Any], before: Sequence[Any]) -> list[Entry]:
    """The entries of the first list that the second one has not."""
    spend((len(after) + len(before)) // _AT_ONCE)
    if after == before:
        return []
    known = set(map(_identity, before))
    return [(index, entry) for index, entry in enumerate(after) if _identity(entry) not in known]


def is_reordered(after: Sequence[Any], before: Sequence[Any]) -> bool:
    """Whether entries that both lists have stand in another order in the first."""
    spend((len(after) + len(before)) // _AT_ONCE)
    now, earlier = list(map(_identity, after)), list(map(_identity, before))
    both = set(now) & set(earlier)
    return [one for one in now if one in both] != [one for one in earlier if one in both]


def _identity(entry: Any) -> Any:
    """The same for equal entries; what cannot be written is equal to nothing."""
    if isinstance(entry, str):
        return entry
    try:
        return orjson.dumps(entry, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # orjson.JSONEncodeError is one
        return object()
