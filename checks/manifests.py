"""Manifests in files and standard input: objects with the place of every field."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
import yaml

from argocd import reading
from checks.files.content import STDIN, STDIN_NAME, UnreadableError, read_text
from tiphys import safe_yaml

Object = Mapping[str, Any]

Position = tuple[int, str]
"""Which object of a file: the document's number, and the path inside a List."""

MOST_VALUES = 500_000
"""In one document, aliases followed: some 200 MB while it is read, and a List of thousands of Applications."""
_MOST_IN_FILE = 8 * MOST_VALUES
"""Half a minute at most; what an honest file of FILE_LIMIT holds."""
_MOST_PIECES = 50_000
"""JSON documents of a file: each takes the time of a hundred values."""
_JSON_SPACE = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True, slots=True)
class Place:
    """An object in a cluster has a name instead of a file, and no line: 0."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Unreadable:
    """What stands where a manifest could not be read."""

    place: Place
    message: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object. `where` is its path inside the document, for the items of a List."""

    file: str
    document: int
    body: Object
    where: str = ""
    node: Any = field(default=None, repr=False, compare=False)

    @property
    def position(self) -> Position:
        return self.document, self.where

    def place(self, path: str = "") -> Place:
        """Of a field in kubectl's notation, or of the nearest thing above it that exists."""
        node = self.node
        for step in reading.steps_of(path):
            found = child(node, step)
            if found is None:
                break
            node = found
        mark = getattr(node, "start_mark", None)
        return Place(self.file, mark.line + 1, mark.column + 1) if mark else Place(self.file, 1, 1)


def read_file(path: str) -> Iterator[Manifest | Unreadable]:
    """Every object of a file; where a document is broken, what is wrong with it, and the rest of the file."""
    name = STDIN_NAME if path == STDIN else path
    try:
        text = read_text(path)
    except UnreadableError as error:
        yield Unreadable(Place(name, error.line, 1), str(error))
    else:
        yield from parse(text, name)


def parse(text: str, name: str) -> Iterator[Manifest | Unreadable]:
    """The same of a text.

    JSON is YAML, and only YAML's reader knows where things are; but what JSON refuses is refused.
    """
    if not name.endswith(".json") and text.lstrip()[:1] != "{":
        yield from _documents(text, name)
        return
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError as error:
        pieces = _json_pieces(text)
        if pieces:
            for index, piece in enumerate(pieces):
                yield from _of_piece(text, piece, name, index)
        elif name.endswith(".json"):
            yield Unreadable(Place(name, error.lineno, error.colno), f"not JSON: {error.msg}")
        else:
            yield from _documents(text, name)
    else:
        yield from _documents(text.replace("\t", " "), name)


def _documents(text: str, name: str) -> Iterator[Manifest | Unreadable]:
    try:
        documents = safe_yaml.compose(text, most=MOST_VALUES, in_all=_MOST_IN_FILE)
        for index, node in enumerate(documents):
            yield from _manifests(node, name, index)
    except safe_yaml.YamlError as error:
        # libyaml cannot go on after an error: what follows in this file is not judged.
        yield _unreadable(error, name)


@dataclass(frozen=True, slots=True)
class _Piece:
    """One of several JSON documents: where it stands in its file."""

    start: int
    end: int
    line: int
    column: int


def _json_pieces(text: str) -> list[_Piece]:
    """Several JSON objects, which need nothing between them; none where something else is there."""
    decoder = json.JSONDecoder()
    found: list[_Piece] = []
    end = reached = line = 0
    newline = -1
    while (start := _after_space(text, end)) < len(text):
        line += text.count("\n", reached, start)
        newline = max(newline, text.rfind("\n", reached, start))
        reached = start
        try:
            document, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            return []
        if not isinstance(document, dict) or len(found) == _MOST_PIECES:
            return []
        found.append(_Piece(start, end, line, start - newline - 1))
    return found


def _after_space(text: str, start: int) -> int:
    space = _JSON_SPACE.match(text, start)
    return space.end() if space else start


def _of_piece(text: str, piece: _Piece, name: str, index: int) -> Iterator[Manifest | Unreadable]:
    alone = text[piece.start : piece.end].replace("\t", " ")
    try:
        for node in safe_yaml.compose(alone, most=MOST_VALUES, in_all=MOST_VALUES):
            _move(node, piece)
            yield from _manifests(node, name, index)
    except safe_yaml.YamlError as error:
        yield _unreadable(error, name, line=piece.line)


def _move(node: Any, piece: _Piece) -> None:
    """To where its text stands in the file. There are no aliases in JSON, so each node is met once."""

    def moved(mark: Any) -> yaml.Mark:
        column = mark.column + (0 if mark.line else piece.column)
        return yaml.Mark(mark.name, mark.index + piece.start, mark.line + piece.line, column, None, 0)

    waiting = [node]
    while waiting:
        one = waiting.pop()
        one.start_mark, one.end_mark = moved(one.start_mark), moved(one.end_mark)
        if isinstance(one, yaml.MappingNode):
            waiting += [part for pair in one.value for part in pair]
        elif isinstance(one, yaml.SequenceNode):
            waiting += one.value


def _unreadable(error: safe_yaml.YamlError, name: str, *, line: int = 0) -> Unreadable:
    refused = "refused" if isinstance(error, safe_yaml.HostileYamlError) else "not YAML"
    return Unreadable(Place(name, (error.line or 1) + line, error.column or 1), f"{refused}: {error.problem}")


def _manifests(node: Any, name: str, index: int) -> Iterator[Manifest | Unreadable]:
    place = Place(name, node.start_mark.line + 1, node.start_mark.column + 1)
    try:
        body = safe_yaml.build(node)
    except safe_yaml.YamlError as error:
        yield Unreadable(Place(name, error.line, error.column), error.problem)
        return
    if body is None:
        return
    if not isinstance(body, Mapping):
        yield Unreadable(place, "not an object: a manifest is a mapping")
        return
    kind = reading.text(body, "kind")
    if not kind.endswith("List") or "items" not in body:
        yield Manifest(name, index, body, node=node)
        return
    items = child(node, "items")
    for position, item in enumerate(reading.sequence(body, "items")):
        if isinstance(item, Mapping):
            yield Manifest(name, index, item, where=f"items[{position}]", node=child(items, position))


def child(node: Any, step: str | int) -> Any:
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int):
        return node.value[step] if step < len(node.value) else None
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(step):
                return value
    return None
