"""RE2 expressions whose work counts: searching takes linear time, and how long that is depends on the program."""

from typing import Any

import re2

from argocd.budget import spend

_COMPILING = 200
"""Steps for the shortest expression; more for each character, and for each instruction that it becomes."""
_TOO_LARGE = 100_000
"""Steps until RE2 gives up on an expression that becomes too large."""
_SEARCHING = 10
"""Steps to begin a search."""
_AT_ONCE = 32
"""Instructions of a program that one step takes for one byte of a text."""

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True  # Nobody asks what a group held.


class ChargedPattern:
    """Raises re2.error where RE2 cannot read it."""

    __slots__ = ("_find", "_size")

    def __init__(self, pattern: str) -> None:
        spend(_COMPILING + len(pattern))
        try:
            compiled = re2.compile(pattern, _OPTIONS)
        except re2.error as error:
            spend(_TOO_LARGE if b"too large" in error.args[0] else 0)
            raise
        self._size = int(compiled.programsize)
        self._find = compiled.search
        spend(self._size)

    def search(self, data: bytes | str) -> Any:
        spend(_SEARCHING + len(data) * self._size // _AT_ONCE)
        return self._find(data)
