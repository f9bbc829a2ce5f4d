"""RE2 expressions whose work counts: searching takes linear time, and how long that is depends on the program."""

from typing import Any

import re2

from argocd.budget import spend

_COMPILING = 200
"""Steps for the shortest expression; more for each character, and for each instruction that it becomes."""
_SQUARED = 4_000
"""What may be left out, as in `a?`, takes RE2 the square of all instructions: one step for so many of that."""
_MEMORY = 400_000
"""Bytes for an expression: some twenty thousand instructions, of which nobody's for names has a hundredth."""
_LONGEST = 30_000
"""Characters: RE2 reads a longer one to its end before it finds it too large, which may take seconds."""
_TOO_LARGE = 100_000
"""Steps until RE2 gives up on an expression that becomes too large; more for each character."""
_TOO_LONG = 20
_SEARCHING = 10
"""Steps to begin a search."""
_AT_ONCE = 32
"""Instructions of a program that one step takes for one byte of a text."""

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True  # Nobody asks what a group held.
_OPTIONS.max_mem = _MEMORY


def compiled(pattern: str, options: re2.Options | None = None) -> Any:
    """RE2's module would remember the newest 128, each with its text and whatever its searches have built."""
    found = re2.compile(pattern, options)
    re2.purge()
    return found


def problem(pattern: str) -> str:
    """What Go says to it, which is RE2's reason; Go has no such limit of the size."""
    try:
        ChargedPattern(pattern)
    except re2.error as error:
        reason = str(error.args[0].decode(errors="replace"))
        return "" if "too large" in reason else reason
    return ""


class ChargedPattern:
    """Raises re2.error where RE2 cannot read it."""

    __slots__ = ("_find", "_size")

    def __init__(self, pattern: str) -> None:
        spend(_COMPILING + len(pattern))
        if len(pattern) > _LONGEST:
            raise re2.error(b"pattern too large")
        try:
            program = compiled(pattern, _OPTIONS)
        except re2.error as error:
            spend(_TOO_LARGE + _TOO_LONG * len(pattern) if b"too large" in error.args[0] else 0)
            raise
        self._size = int(program.programsize)
        self._find = program.search
        spend(self._size + self._size**2 // _SQUARED)

    def search(self, data: bytes | str) -> Any:
        spend(_SEARCHING + len(data) * self._size // _AT_ONCE)
        return self._find(data)
