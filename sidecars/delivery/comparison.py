"""Two ends find out where they differ: one asks about ranges, the other answers from what it has.

Whoever repairs asks, because it learns the differences. It sends the marks of ranges; the other end leaves
out the equal ones and answers each of the others with sixteen smaller marks or, where few keys are left,
with the keys and digests themselves. With d differences among N keys that is O(d log N) bytes in about
log16(N) turns.

The answering end keeps nothing between messages. A question says all that is needed to answer it, an answer
counts once and only while its question is open, so that loss (the outbox sends again), duplicates and any
order do no harm. Both ends run the same code and may ask at the same time.
"""

import asyncio
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from sidecars.delivery.comparison_turns import ComparisonTurns
from sidecars.delivery.inventory import DEPTH, LEAF, MARK_BYTES, WAYS, Inventory, position
from sidecars.wire.errors import MalformedError
from sidecars.wire.events import Event, exact, fresh_id
from sidecars.wire.json_objects import read_struct

PREFIX = "dev.tiphys.event."
COMPARE = PREFIX + "compare"
COMPARED = PREFIX + "compared"
COMPARISON_WANTED = PREFIX + "comparison-wanted"
TARGET = "tiphysComparison"

RANGES = 64
"""Ranges in a question: its answer is 30 to 100 kB."""

LARGEST = 1 << 20
"""Bytes of a message: 64 ranges of 16 keys with the longest names are 600 kB."""

OPEN = 4
"""Questions under way at a time: the peer is never sent more work than that."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A key whose digests differ; None where one end does not have it."""

    key: str
    mine: bytes | None
    theirs: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonQuestion:
    scope: str
    round: str
    number: int
    marks: dict[str, bytes]

    def payload(self) -> bytes:
        marks = {prefix: _text(mark) for prefix, mark in self.marks.items()}
        return orjson.dumps({"scope": self.scope, "round": self.round, "number": self.number, "marks": marks})

    @classmethod
    def read(cls, payload: bytes) -> "ComparisonQuestion":
        value = _read(payload, ("scope", "round", "number", "marks"))
        marks = {
            prefix: _bytes(mark, f"marks.{prefix}", size=MARK_BYTES)
            for prefix, mark in _prefixes(value, "marks").items()
        }
        return cls(**_header(value), marks=marks)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonAnswer:
    """Ranges that differ, either as the sixteen marks below or as their items."""

    scope: str
    round: str
    number: int
    ranges: dict[str, list[bytes]] = field(default_factory=dict)
    items: dict[str, dict[str, bytes]] = field(default_factory=dict)

    def payload(self) -> bytes:
        return orjson.dumps(
            {
                "scope": self.scope,
                "round": self.round,
                "number": self.number,
                "ranges": {prefix: _text(b"".join(marks)) for prefix, marks in self.ranges.items()},
                "items": {
                    prefix: {key: _text(digest) for key, digest in items.items()}
                    for prefix, items in self.items.items()
                },
            }
        )

    @classmethod
    def read(cls, payload: bytes) -> "ComparisonAnswer":
        value = _read(payload, ("scope", "round", "number", "ranges", "items"))
        ranges = {}
        for prefix, joined in _prefixes(value, "ranges").items():
            marks = _bytes(joined, f"ranges.{prefix}", size=MARK_BYTES * len(WAYS))
            ranges[prefix] = [marks[at : at + MARK_BYTES] for at in range(0, len(marks), MARK_BYTES)]
        items = {}
        for prefix, entries in _prefixes(value, "items").items():
            if not isinstance(entries, dict):
                raise MalformedError(f"items.{prefix} must be an object")
            items[prefix] = {key: _bytes(digest, f"items.{prefix}") for key, digest in entries.items()}
        return cls(**_header(value), ranges=ranges, items=items)


def answer(inventory: Inventory, question: ComparisonQuestion) -> ComparisonAnswer:
    reply = ComparisonAnswer(scope=question.scope, round=question.round, number=question.number)
    for prefix, mark in question.marks.items():
        if inventory.mark(prefix) == mark:
            continue
        if inventory.count(prefix) <= LEAF or len(prefix) == DEPTH:
            reply.items[prefix] = inventory.items(prefix)
        else:
            reply.ranges[prefix] = inventory.marks(prefix)
    return reply


class ComparisonRound:
    """One comparison from the asking end: feed it answers until `done`."""

    def __init__(self, inventory: Inventory, *, scope: str, name: str) -> None:
        self._inventory = inventory
        self._scope = scope
        self.name = name
        self._unasked = [""]
        self._open: dict[int, frozenset[str]] = {}
        self.questions = 0

    @property
    def done(self) -> bool:
        return not self._unasked and not self._open

    def ask(self) -> list[ComparisonQuestion]:
        """What can be asked now."""
        questions = []
        while self._unasked and len(self._open) < OPEN:
            chosen = self._unasked[:RANGES]
            del self._unasked[:RANGES]
            self._open[self.questions] = frozenset(chosen)
            questions.append(
                ComparisonQuestion(
                    scope=self._scope,
                    round=self.name,
                    number=self.questions,
                    marks={prefix: self._inventory.mark(prefix) for prefix in chosen},
                )
            )
            self.questions += 1
        return questions

    def receive(self, reply: ComparisonAnswer) -> list[Difference]:
        """The differences that it shows; afterwards there may be more to `ask`."""
        asked = self._open.pop(reply.number, None) if reply.round == self.name else None
        if asked is None:
            return []
        for prefix, marks in reply.ranges.items():
            if prefix in asked and len(prefix) < DEPTH:
                mine = self._inventory.marks(prefix)
                self._unasked.extend(
                    prefix + way for way, here, there in zip(WAYS, mine, marks, strict=True) if here != there
                )
        return [
            difference
            for prefix, theirs in reply.items.items()
            if prefix in asked
            for difference in self._differences(prefix, theirs)
        ]

    def _differences(self, prefix: str, theirs: Mapping[str, bytes]) -> list[Difference]:
        mine = self._inventory.items(prefix)
        # A key in the wrong range would look like one that the other end lacks or has too many.
        theirs = {key: digest for key, digest in theirs.items() if position(key).startswith(prefix)}
        return [
            Difference(key, mine.get(key), theirs.get(key))
            for key in sorted({*mine, *theirs})
            if mine.get(key) != theirs.get(key)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonReport:
    """How a comparison went: for metrics and the log."""

    scope: str
    complete: bool  # False: given up, because the outbox was full or a new round began
    compared: int
    differences: int
    questions: int


class Comparer:
    """Asks and answers for one peer. `send` is the outbox's `add`; `found` repairs what it is told.

    A scope names an inventory on both ends, for example what the principal gives to an agent. `turns` bound how often
    the other end may begin a round; what has no turn yet is done when it has.
    """

    def __init__(
        self,
        *,
        inventories: Mapping[str, Inventory],
        send: Callable[[Event], bool],
        found: Callable[[str, list[Difference]], None],
        finished: Callable[[ComparisonReport], None] = lambda _: None,
        source: str = "",
        new_id: Callable[[], str] = fresh_id,
        turns: ComparisonTurns | None = None,
    ) -> None:
        self._turns = turns
        self._answering: dict[str, tuple[str, Inventory]] = {}
        """By scope: the other end's round, and what it is answered from."""
        self._awaited: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._inventories = inventories
        self._send = send
        self._found = found
        self._finished = finished
        self._source = source
        self._new_id = new_id
        self._rounds: dict[str, ComparisonRound] = {}
        self._differences: dict[str, int] = {}
        self._unanswered: dict[str, str] = {}
        """By scope: the other end's round that got no answer for want of room."""

    def start(self, scope: str) -> None:
        """Compares; an unfinished round of the same scope is given up."""
        if scope in self._rounds:
            self._end(scope, complete=False)
        self._rounds[scope] = ComparisonRound(self._inventories[scope], scope=scope, name=self._new_id())
        self._differences[scope] = 0
        self._continue(scope)

    def start_in_turn(self, scope: str) -> None:
        if self._turns is None or self._turns.take():
            self.start(scope)
        else:
            self._awaited.add(scope)
            self._wait()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        if self._timer is None and self._turns is not None:
            self._timer = asyncio.get_running_loop().call_later(self._turns.seconds, self._take_turn)

    def _take_turn(self) -> None:
        self._timer = None
        self._answering.clear()  # nobody's round takes so long: its inventory need not be kept
        self.want_unanswered()
        awaited, self._awaited = self._awaited, set()
        for scope in sorted(awaited):
            self.start_in_turn(scope)

    def _answerable(self, question: ComparisonQuestion) -> Inventory | None:
        """What a question is answered from; None where its round has no turn yet."""
        scope = self._known(question.scope)
        if self._turns is None:
            return self._inventories[scope]
        held = self._answering.get(scope)
        if held is None or held[0] != question.round:
            self._wait()
            if not self._turns.take():
                return None
            held = self._answering[scope] = (question.round, self._inventories[scope])
        return held[1]

    def want(self, scope: str, *, instead_of: str = "") -> bool:
        """Asks the other end, which is the one that repairs this scope, to compare; `instead_of` is its round
        that will get no answer.
        """
        return self._post(COMPARISON_WANTED, orjson.dumps({"scope": scope, "round": instead_of}))

    def want_unanswered(self) -> None:
        """There is room again: rounds that stand still begin anew."""
        unanswered, self._unanswered = self._unanswered, {}
        for scope, round_ in unanswered.items():
            self.want(scope, instead_of=round_)

    def handle(self, event: Event) -> None:
        """A message of the types above; raises MalformedError for one that makes no sense."""
        if event.type == COMPARE:
            question = ComparisonQuestion.read(event.payload)
            inventory = self._answerable(question)
            if inventory is None or not self._post(COMPARED, answer(inventory, question).payload()):
                self._unanswered[question.scope] = question.round
        elif event.type == COMPARED:
            self._receive(ComparisonAnswer.read(event.payload))
        elif event.type == COMPARISON_WANTED:
            value = _read(event.payload, ("scope", "round"))
            scope = self._known(_scope(value))
            current = self._rounds.get(scope)
            if current is None or current.name == value.get("round"):  # or what is wanted is being done
                self.start_in_turn(scope)
        else:
            raise MalformedError(f"{event.type[:64]!r} is no message of a comparison")

    def _receive(self, reply: ComparisonAnswer) -> None:
        current = self._rounds.get(reply.scope)
        if current is None:
            return
        differences = current.receive(reply)
        if differences:
            self._differences[reply.scope] += len(differences)
            self._found(reply.scope, differences)
        self._continue(reply.scope)

    def _continue(self, scope: str) -> None:
        current = self._rounds[scope]
        for question in current.ask():
            if not self._post(COMPARE, question.payload()):
                self._end(scope, complete=False)
                return
        if current.done:
            self._end(scope, complete=True)

    def _end(self, scope: str, *, complete: bool) -> None:
        ended = self._rounds.pop(scope)
        self._finished(
            ComparisonReport(
                scope=scope,
                complete=complete,
                compared=len(self._inventories[scope]),
                differences=self._differences.pop(scope),
                questions=ended.questions,
            )
        )

    def _post(self, kind: str, payload: bytes) -> bool:
        name = self._new_id()
        return self._send(
            Event(
                type=kind,
                target=TARGET,
                resource_id=name,
                event_id=name,
                payload=exact(payload),
                source=self._source,
            )
        )

    def _known(self, scope: str) -> str:
        """Without a look at what is there."""
        if scope not in list(self._inventories):
            raise MalformedError(f"there is nothing to compare called {scope[:64]!r}")
        return scope


def _read(payload: bytes, keys: tuple[str, ...]) -> dict[str, Any]:
    if len(payload) > LARGEST:
        raise MalformedError(f"{len(payload)} bytes are no message of a comparison")
    return read_struct(payload, keys=keys)


def _header(value: Mapping[str, Any]) -> dict[str, Any]:
    name, number = value.get("round"), value.get("number")
    if not isinstance(name, str):
        raise MalformedError("round must be a string")
    if type(number) is not int:
        raise MalformedError("number must be an integer")
    return {"scope": _scope(value), "round": name, "number": number}


def _scope(value: Mapping[str, Any]) -> str:
    scope = value.get("scope")
    if not isinstance(scope, str):
        raise MalformedError("scope must be a string")
    return scope


def _prefixes(value: Mapping[str, Any], key: str) -> dict[str, Any]:
    ranges = value.get(key, {})
    if not isinstance(ranges, dict) or len(ranges) > RANGES:
        raise MalformedError(f"{key} must be an object of at most {RANGES} ranges")
    for prefix in ranges:
        if len(prefix) > DEPTH or not set(prefix) <= set(WAYS):
            raise MalformedError(f"{key} has a range that is none: {prefix[:64]!r}")
    return ranges


def _text(value: bytes) -> str:
    return b64encode(value).decode()


def _bytes(value: Any, path: str, *, size: int | None = None) -> bytes:
    try:
        decoded = b64decode(value, validate=True) if isinstance(value, str) else None
    except (Base64Error, ValueError):
        decoded = None
    if decoded is None or (size is not None and len(decoded) != size):
        raise MalformedError(f"{path} must be {'' if size is None else f'{size} '}bytes in base64")
    return decoded
