"""Globs that compile and still do not do what they say, each with a text that shows it.

gobwas/glob and a textbook disagree on alternatives, overlaps and empty texts. A pattern is tried on texts made
from the pattern itself, so that a warning can name one.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from itertools import islice

import re2

from argocd import globs
from argocd.budget import StepBudget, remembered, spend
from argocd.charged_re2 import ChargedPattern
from argocd.globs import Verdict, parsing

# ASCII without \\?*[]{} and zero, said by what it is: the opposite would take 5 ms to compile.
_PLAIN = r"([\x01-)+->@-Z^-z|~\x7f]*+)"
_ONE_STAR = re.compile(rf"{_PLAIN}\*{{0,2}}{_PLAIN}")
"""Text around at most one star or pair of them: the only surprise can be that the two sides overlap."""
_LONG = 300
"""Characters; what is longer is not tried out."""
_SAMPLES = 40
"""Texts for one pattern: enough to vary each of its parts."""
_VARIANTS = 6
"""Texts for one part of it."""
_MANY = 6
"""Wildcards in one pattern after which it is tried on a text that may take for ever."""
_LONG_TEXT = 240
_TRYING = 10
"""Steps to make up a text and to look at it twice."""
_ENOUGH = 50_000
"""Steps after which no further text is tried: the patterns of people take hundreds."""
_BRACES = re.compile(r"\\.|\[[^\]]*\]|[{}]", re.DOTALL)


class SurpriseKind(Enum):
    PANICS = auto()
    HANGS = auto()
    MISLEADS = auto()


@dataclass(frozen=True, slots=True)
class Surprise:
    kind: SurpriseKind
    message: str


def surprises(pattern: str, separators: str = "") -> tuple[Surprise, ...]:
    return _surprises(pattern, separators)


@remembered(longest=_LONG, most=2048)
def _surprises(pattern: str, separators: str) -> tuple[Surprise, ...]:
    glob = globs.compiled(pattern, separators)
    if glob.error:
        return ()
    if glob.matcher is None:
        return (_too_long(),)
    if len(pattern) > _LONG:
        return ()
    if sides := _ONE_STAR.fullmatch(pattern):
        return _overlap(glob, *sides.groups()) if "*" in pattern else ()
    spend(4 * len(pattern))
    tree = parsing.parse(pattern)
    shown = _tried(tree, glob, separators)
    # Beside a panic it does not matter what else the pattern might mean.
    grave = tuple(surprise for surprise in shown if surprise.kind is not SurpriseKind.MISLEADS)
    return grave or (*shown, *(Surprise(SurpriseKind.MISLEADS, note) for note in _notes(pattern, tree)))


def reads_as(pattern: str, text: str, separators: str = "") -> bool | None:
    """Whether a reader would say that the pattern matches; None where that cannot be told."""
    if len(pattern) > _LONG or globs.compiled(pattern, separators).error:
        return None
    return bool(_textbook(parsing.parse(pattern), separators).search(text))


def _too_long() -> Surprise:
    return Surprise(SurpriseKind.HANGS, "Argo CD would hang on this pattern: it takes too long to read")


def _overlap(glob: globs.Glob, left: str, right: str) -> tuple[Surprise, ...]:
    shared = _shared(left, right)
    text = left + right[shared:]
    if not shared or glob.match(text) is Verdict.NO:
        return ()
    return (_misleads(text, matches=True),)


def _shared(left: str, right: str) -> int:
    """How much of the second text the first one ends with."""
    return next((size for size in range(min(len(left), len(right)), 0, -1) if left.endswith(right[:size])), 0)


def _misleads(text: str, *, matches: bool) -> Surprise:
    shown = f"'{text}'" if text else "the empty text"
    said = (
        "matches {} although it reads as if it did not"
        if matches
        else "does not match {} although it reads as if it did"
    )
    return Surprise(SurpriseKind.MISLEADS, f"to Argo CD this {said.format(shown)}")


def _tried(tree: parsing.Sequence, glob: globs.Glob, separators: str) -> list[Surprise]:
    """At most one surprise of each kind: the first text that shows it."""
    shown: dict[SurpriseKind, Surprise] = {}
    with StepBudget() as taken:
        textbook = _textbook(tree, separators)
        for text in dict.fromkeys([*_long_texts(tree), *_samples(tree, separators), ""]):
            surprise = _surprise(text, glob, textbook)
            if surprise is not None:
                shown.setdefault(surprise.kind, surprise)
            if SurpriseKind.HANGS in shown or taken.steps > _ENOUGH:
                break
    return list(shown.values())


def _surprise(text: str, glob: globs.Glob, textbook: ChargedPattern) -> Surprise | None:
    spend(_TRYING)
    verdict = glob.match(text)
    if verdict is Verdict.PANIC:
        return Surprise(SurpriseKind.PANICS, f"Argo CD panics when it compares this with '{text}'")
    if verdict is Verdict.HANG:
        said = f"Argo CD would hang on this: comparing it with '{text[:20]}…' takes for ever"
        return Surprise(SurpriseKind.HANGS, said)
    if bool(textbook.search(text)) != (verdict is Verdict.YES):
        return _misleads(text, matches=verdict is Verdict.YES)
    return None


def _long_texts(tree: parsing.Sequence) -> list[str]:
    """What takes longest to compare: many places where the literal parts could be."""
    wildcards = sum(isinstance(part, parsing.AnyRun | parsing.AnyThing) for part in tree.parts)
    literals = [part.text[0] for part in tree.parts if isinstance(part, parsing.Literal)]
    if wildcards < _MANY or not literals:
        return []
    most = max(set(literals), key=lambda literal: (literals.count(literal), literal))
    return [most * _LONG_TEXT + _FILLER]


_FILLER = "x"


def _samples(tree: parsing.Sequence, separators: str) -> Iterator[str]:
    return islice(_sequence_texts(tree, separators), _SAMPLES)


def _sequence_texts(sequence: parsing.Sequence, separators: str) -> Iterator[str]:
    """The plain case, then each part varied by itself, then all of them, then overlaps."""
    spend(6 * len(sequence.parts))  # each is varied, and all are joined
    options = [list(islice(_texts(part, separators), _VARIANTS)) for part in sequence.parts]
    plain = [texts[0] for texts in options]
    yield "".join(plain)
    for place, texts in enumerate(options):
        for text in texts[1:]:
            yield "".join([*plain[:place], text, *plain[place + 1 :]])
    yield "".join(texts[-1] for texts in options)
    for place in range(len(plain) - 2):
        left, right = sequence.parts[place], sequence.parts[place + 2]
        if isinstance(left, parsing.Literal) and isinstance(right, parsing.Literal):
            shared = _shared(left.text, right.text)
            yield "".join([*plain[: place + 1], right.text[shared:], *plain[place + 3 :]])


def _texts(part: parsing.Part, separators: str) -> Iterator[str]:
    """Texts that the part should match."""
    match part:
        case parsing.Literal(text):
            yield text
        case parsing.AnyRun():
            yield from ("", _FILLER)
        case parsing.AnyThing():
            yield from ("", f"{_FILLER}{separators[:1]}{_FILLER}")
        case parsing.AnyOne():
            yield _FILLER
        case parsing.OneOfThese() | parsing.OneBetween():
            yield from _members(part)
        case parsing.Choice(branches):
            # One text of each first, so that every alternative is tried; nobody takes more than so many.
            taken = [list(islice(_texts(branch, separators), _VARIANTS)) for branch in branches[:_VARIANTS]]
            yield from (texts[0] for texts in taken)
            yield from (text for texts in taken for text in texts[1:])
        case _:
            yield from _sequence_texts(part, separators)


def _members(part: parsing.OneOfThese | parsing.OneBetween) -> tuple[str, ...]:
    if isinstance(part, parsing.OneBetween):
        outside = next((one for one in f"{_FILLER}0~" if not part.low <= one <= part.high), _FILLER)
        return (outside,) if part.negated else (part.low, part.high)
    if not part.negated:
        return part.characters[0], part.characters[-1]
    # The pattern is short, so one of these is not in it.
    candidates = map(chr, range(ord(_FILLER), ord(_FILLER) + 2 * _LONG))
    return (next(one for one in candidates if one not in part.characters),)


def _textbook(tree: parsing.Sequence, separators: str) -> ChargedPattern:
    """What a reader takes the pattern for."""
    return ChargedPattern(rf"(?s)\A(?:{_expression(tree, separators)})\z")


def _expression(part: parsing.Part, separators: str) -> str:
    one = f"[^{re2.escape(separators)}]" if separators else "."
    match part:
        case parsing.Literal(text):
            return str(re2.escape(text))
        case parsing.AnyRun():
            return f"{one}*"
        case parsing.AnyThing():
            return ".*"
        case parsing.AnyOne():
            return one
        case parsing.OneOfThese(characters, negated):
            return f"[{'^' if negated else ''}{re2.escape(characters)}]"
        case parsing.OneBetween(low, high, negated):
            return f"[{'^' if negated else ''}{re2.escape(low)}-{re2.escape(high)}]"
        case parsing.Choice(branches):
            return f"(?:{'|'.join(_expression(branch, separators) for branch in branches)})"
    return "".join(_expression(inner, separators) for inner in part.parts)


def _notes(pattern: str, tree: parsing.Sequence) -> Iterator[str]:
    """What is easily misread, whether or not a text shows it."""
    depth = 0
    for piece in _BRACES.findall(pattern):
        depth += (piece == "{") - (piece == "}")
        if depth < 0:
            yield "a closing brace that nothing opens is a plain character"
            depth = 0
    if depth:
        yield "a brace is not closed"
    if (len(pattern) - len(pattern.rstrip("\\"))) % 2:
        yield "the backslash at the end is dropped"
    if not pattern.isascii():
        yield "characters beyond ASCII are compared byte by byte, and not always rightly"
    found = list(_parts(tree))
    if any(isinstance(part, parsing.Choice) and parsing.Sequence(()) in part.branches for part in found):
        yield "an alternative is empty"
    if any(isinstance(part, parsing.OneOfThese) and part.characters.startswith("^") for part in found):
        yield "`^` negates nothing in a class, that is `!`"
    if any(isinstance(part, parsing.OneBetween) for part in found):
        yield "a class holds one range and nothing else: a second one, as in [a-z0-9], does not compile"


def _parts(tree: parsing.Part) -> Iterator[parsing.Part]:
    """The part and all inside it; not by recursion, which would cost as much again for each level."""
    waiting = [tree]
    while waiting:
        part = waiting.pop()
        yield part
        if isinstance(part, parsing.Sequence):
            waiting += part.parts
        elif isinstance(part, parsing.Choice):
            waiting += part.branches
