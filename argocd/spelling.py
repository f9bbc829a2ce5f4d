"""Which known word somebody meant who wrote an unknown one."""

import difflib
from collections.abc import Collection
from typing import Any

LONGEST = 80
"""Characters that are compared, the longest of Argo CD's keys among them: comparing takes their square."""


def did_you_mean(word: Any, known: Collection[str]) -> str:
    """The end of a message; empty where nothing is near."""
    nearest = difflib.get_close_matches(str(word)[:LONGEST], known, n=1)
    return f", did you mean {nearest[0]}?" if nearest else ""
