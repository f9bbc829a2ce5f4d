"""Takes a glob apart the way gobwas/glob 0.2.3 does, with its verdicts and its blind spots.

A NUL ends the pattern or the word it stands in, braces need not be balanced, a backslash at the end is
dropped, and one class holds either one range or a list of characters.
"""

import re
from dataclasses import dataclass

DEEPEST = 50
"""Braces within braces; nobody writes five, and what follows walks them recursively."""


class GlobError(Exception):
    """The pattern does not compile; the text is Argo CD's."""


class TooCostlyError(Exception):
    """The work on a pattern grew past every limit."""


@dataclass(frozen=True, slots=True)
class Literal:
    text: str


@dataclass(frozen=True, slots=True)
class AnyRun:
    """`*`: what has no separator in it."""


@dataclass(frozen=True, slots=True)
class AnyThing:
    """`**`"""


@dataclass(frozen=True, slots=True)
class AnyOne:
    """`?`"""


@dataclass(frozen=True, slots=True)
class OneOfThese:
    """`[abc]` or `[!abc]`"""

    characters: str
    negated: bool


@dataclass(frozen=True, slots=True)
class OneBetween:
    """`[a-c]` or `[!a-c]`"""

    low: str
    high: str
    negated: bool


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple["Part", ...]


@dataclass(frozen=True, slots=True)
class Empty(Sequence):
    """An alternative of which nothing is left once its common parts are taken out."""

    parts: tuple["Part", ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """`{x,y}`"""

    branches: tuple[Sequence, ...]


Part = Literal | AnyRun | AnyThing | AnyOne | OneOfThese | OneBetween | Sequence | Choice

_UNREADABLE = "\ufffd\ud800-\udfff"
_IS_UNREADABLE = re.compile(f"[{_UNREADABLE}]")
_PLAIN = re.compile(rf"[^\\?*\[{{\0{_UNREADABLE}]+")
_PLAIN_IN_BRACES = re.compile(rf"[^\\?*\[{{}},\0{_UNREADABLE}]+")
_PLAIN_IN_CLASS = re.compile(rf"[^\\\]\0{_UNREADABLE}]+")

_ANY_RUN, _ANY_THING, _ANY_ONE = AnyRun(), AnyThing(), AnyOne()
_ENDS_EARLY = "unexpected end of input"


def parse(pattern: str) -> Sequence:
    return _Parsing(pattern).whole()


class _Parsing:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        # For each open brace the finished branches and what preceded the brace.
        self._open: list[tuple[list[Sequence], list[Part]]] = []
        self._parts: list[Part] = []

    def whole(self) -> Sequence:
        while character := self._read():
            if character == "{" or (character in ",}" and self._open):
                self._brace(character)
            elif character == "*":
                several = self._peek() == "*"
                self._at += several
                self._parts.append(_ANY_THING if several else _ANY_RUN)
            elif character == "?":
                self._parts.append(_ANY_ONE)
            elif character == "[":
                self._parts.append(self._class())
            else:
                self._at -= 1
                if text := self._text(_PLAIN_IN_BRACES if self._open else _PLAIN):
                    self._parts.append(Literal(text))
        while self._open:
            self._brace("}")
        return self._sequence()

    def _brace(self, character: str) -> None:
        if character == "{":
            if len(self._open) >= DEEPEST:
                raise TooCostlyError
            self._open.append(([], self._parts))
            self._parts = []
            return
        self._open[-1][0].append(self._sequence())
        if character == "}":
            branches, self._parts = self._open.pop()
            self._parts.append(Choice(tuple(branches)))

    def _sequence(self) -> Sequence:
        finished = Sequence(tuple(self._parts))
        self._parts = []
        return finished

    def _peek(self) -> str:
        """The next character; empty at the end, and a NUL is one."""
        character = self._pattern[self._at : self._at + 1]
        if _IS_UNREADABLE.match(character):
            raise GlobError("could not read rune")
        return "" if character == "\0" else character

    def _read(self) -> str:
        character = self._peek()
        self._at += len(character)
        return character

    def _text(self, plain: re.Pattern[str]) -> str:
        """What is to be taken literally, less the backslashes, up to the next special character."""
        words: list[str] = []
        while True:
            if found := plain.match(self._pattern, self._at):
                words.append(found[0])
                self._at = found.end()
            character = self._peek()
            if character == "\\":
                self._at += 1
                character = self._read()
                words.append(character)
            elif character:
                return "".join(words)
            if not character:
                # At the end, or at a NUL, which ends the word and is gone.
                self._at += 1
                return "".join(words)

    def _class(self) -> OneOfThese | OneBetween:
        negated = self._peek() == "!"
        if negated:
            self._at += 1
        first = self._read_inside()
        if self._peek() == "-":
            self._at += 1
            last = self._read_inside()
            self._end_class()
            if last < first:
                raise GlobError(f"hi character '{last}' should be greater than lo '{first}'")
            return OneBetween(first, last, negated)
        self._at -= 1
        characters = self._text(_PLAIN_IN_CLASS)
        self._end_class()
        if not characters:
            raise GlobError("could not parse range")
        return OneOfThese(characters, negated)

    def _read_inside(self) -> str:
        character = self._read()
        if not character:
            raise GlobError(_ENDS_EARLY)
        return character

    def _end_class(self) -> None:
        if self._read_inside() != "]":
            raise GlobError("expected close range character")
