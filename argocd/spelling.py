"""Which known word somebody meant who wrote an unknown one."""

import difflib
from collections.abc import Collection
from typing import Any

LONGEST = 80
"""Characters that are compared, the longest of Argo CD's keys among them: comparing takes their square."""


CLOSE = 0.6
"""How much two words have in common at least, of 1: as Python's difflib has it."""


def nearest(word: Any, known: Collection[str], *, close: float = CLOSE) -> str:
    """The known word that was meant; empty where nothing is near."""
    return next(iter(difflib.get_close_matches(str(word)[:LONGEST], known, n=1, cutoff=close)), "")


def did_you_mean(word: Any, known: Collection[str]) -> str:
    """The end of a message; empty where nothing is near."""
    meant = nearest(word, known)
    return f", did you mean {meant}?" if meant else ""
