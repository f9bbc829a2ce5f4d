"""Manifests in files, folders, globs and standard input: objects with the place of every field.

libyaml composes, and the plain data is built here from its nodes: that is faster than PyYAML's own
constructor, finds repeated keys on the way, and keeps the marks that findings are reported at.
"""

import fnmatch
import glob
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TextIO

import orjson
import yaml

from argocd import reading, safe_yaml

Object = Mapping[str, Any]

Position = tuple[int, str]
"""Which object of a file: the document's number, and the path inside a List."""

FILE_LIMIT = 16 * 1024 * 1024
"""Ten times what an API server stores; larger files are no manifests that somebody wrote."""

SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "-"
STDIN_NAME = "<stdin>"

_STRING = "tag:yaml.org,2002:str"
_MERGE = "tag:yaml.org,2002:merge"
_TEXT_TAGS = frozenset({"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:binary", "tag:yaml.org,2002:value"})
_NUMBER_TAGS = frozenset({"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"})
_ALIAS = re.compile(r"(?:^|[\s,\[{:-])\*\w", re.MULTILINE)
_DEEP_LINE = re.compile(r"^(?: {200}|(?:- ){60})", re.MULTILINE)
_MANY_BRACKETS = 2_000
MOST_VALUES = 500_000
"""In one document, aliases followed: some 200 MB while it is read, and a List of thousands of Applications."""
_MOST_IN_FILE = 8 * MOST_VALUES
"""Half a minute at most; what an honest file of FILE_LIMIT holds."""
_STEP = re.compile(r"\[(\d+)\]|\[([^\]]+)\]|([^.\[\]]+)")

_CONSTRUCTOR = yaml.constructor.SafeConstructor()


class UnreadableError(Exception):
    """A file or a document that cannot be judged: one line, with the line where it is known."""

    def __init__(self, message: str, *, line: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


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
        for step in steps_of(path):
            found = child(node, step)
            if found is None:
                break
            node = found
        mark = getattr(node, "start_mark", None)
        return Place(self.file, mark.line + 1, mark.column + 1) if mark else Place(self.file, 1, 1)


def find_files(
    paths: Iterable[str], *, skipped: list[str] | None = None, exclude: Iterable[str] = ()
) -> Iterator[str]:
    """The files that the arguments name, in order; a folder is walked, `skipped` hears what was left out."""
    excluded = list(exclude)
    for path in paths:
        if path == STDIN:
            yield path
            continue
        named = Path(path)
        if named.is_dir():
            yield from _walk(str(named), skipped if skipped is not None else [], excluded)
        elif named.exists() or not glob.has_magic(path):
            yield path
        else:
            found = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern
            yield from (one for one in found if Path(one).is_file() and not _is_excluded(Path(one), excluded))


def _walk(folder: str, skipped: list[str], excluded: list[str]) -> Iterator[str]:
    """With plain text and not Path: that keeps every part of every name it has seen."""
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:
        yield folder  # to be told as unreadable
        return
    chart = any(entry.name == "Chart.yaml" for entry in entries)
    for entry in entries:
        path = entry.name if folder == "." else f"{folder.rstrip('/')}/{entry.name}"
        if entry.name.startswith(".") or (excluded and _is_excluded(Path(path), excluded)):
            continue
        if entry.is_dir():
            if chart and entry.name == "templates":
                skipped.append(f"{path}: templates of a Helm chart; render them and check the result")
            elif not entry.is_symlink():
                yield from _walk(path, skipped, excluded)
        elif entry.name.endswith(SUFFIXES) and entry.is_file():
            yield path


def _is_excluded(path: Path, patterns: list[str]) -> bool:
    """Patterns count from the right, as .gitignore's do: `vendor`, `vendor/**`, `*/tests/*.yaml`."""
    return any(
        path.match(pattern.removesuffix("/**").removesuffix("/"))
        or fnmatch.fnmatchcase(path.as_posix(), f"*/{pattern.removeprefix('/')}")
        for pattern in patterns
    )


def size_of(path: str) -> int:
    """Bytes to be read; FILE_LIMIT where only reading tells, as of a pipe, and none where there is no file."""
    try:
        if path == STDIN:
            return len(_all_of(sys.stdin))
        found = Path(path).stat()
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else FILE_LIMIT


def read_file(path: str) -> Iterator[Manifest | Unreadable]:
    """Every object of a file; where a document is broken, what is wrong with it, and the rest of the file."""
    name = STDIN_NAME if path == STDIN else path
    try:
        text = read_text(path)
    except UnreadableError as error:
        yield Unreadable(Place(name, error.line, error.column), str(error))
    else:
        yield from parse(text, name)


def parse(text: str, name: str) -> Iterator[Manifest | Unreadable]:
    """The same of a text; the name tells JSON from YAML."""
    try:
        yield from _read_json(text, name) if name.endswith(".json") else _read_yaml(text, name)
    except UnreadableError as error:
        yield Unreadable(Place(name, error.line, error.column), str(error))


@lru_cache(maxsize=1)
def _all_of(stream: TextIO) -> bytes:
    """Of standard input, kept because it may be measured first, and read twice."""
    return stream.buffer.read(FILE_LIMIT + 1)


def read_text(path: str) -> str:
    """What a file holds, if it can be a manifest. Raises UnreadableError."""
    try:
        if path == STDIN:
            data = _all_of(sys.stdin)
        else:
            if Path(path).is_dir():
                raise UnreadableError("this folder cannot be listed")
            with Path(path).open("rb") as file:
                data = file.read(FILE_LIMIT + 1)
    except OSError as error:
        raise UnreadableError(error.strerror or str(error)) from error
    if len(data) > FILE_LIMIT:
        raise UnreadableError(f"larger than {FILE_LIMIT // 1024 // 1024} MiB: split it")
    if b"\0" in data:
        raise UnreadableError("a binary file, not a manifest")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UnreadableError("not UTF-8", line=line) from error


def _read_json(text: str, name: str) -> Iterator[Manifest | Unreadable]:
    """JSON is YAML, and only YAML's reader knows where things are; but what JSON refuses is refused."""
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise UnreadableError(f"not JSON: {error.msg}", line=error.lineno, column=error.colno) from error
    yield from _read_yaml(text.replace("\t", " "), name)


def _read_yaml(text: str, name: str) -> Iterator[Manifest | Unreadable]:
    if _looks_hostile(text):
        _refuse_hostile(text)
    loader = yaml.CSafeLoader(text)
    index = -1
    try:
        while loader.check_node():
            index += 1
            node = loader.get_node()
            try:
                body = build(node)
            except UnreadableError as error:
                yield Unreadable(Place(name, error.line, error.column), str(error))
                continue
            yield from _manifests(body, node, name, index)
    except yaml.MarkedYAMLError as error:
        # libyaml cannot go on after an error: what follows in this file is not judged.
        mark = error.problem_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        yield Unreadable(Place(name, line, column), f"not YAML: {error.problem or error.context}")
    except (yaml.YAMLError, ValueError) as error:
        yield Unreadable(Place(name, 1, 1), f"not YAML: {' '.join(str(error).split())}")
    finally:
        loader.dispose()


def _looks_hostile(text: str) -> bool:
    """Cheap signs of nesting or aliases; only then the careful look at every event is worth its time."""
    return (
        text.count("[") + text.count("{") > _MANY_BRACKETS
        or text.count("\n") + text.count(",") > MOST_VALUES // 2  # a key and its value for each
        or _ALIAS.search(text) is not None
        or _DEEP_LINE.search(text) is not None
    )


def _refuse_hostile(text: str) -> None:
    try:
        safe_yaml.refuse_hostile(text, most=MOST_VALUES, in_all=_MOST_IN_FILE)
    except safe_yaml.YamlError as error:
        raise UnreadableError(f"refused: {error.problem}", line=error.line or 1) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise UnreadableError(f"not YAML: {error.problem}", line=line, column=column) from error
    except (yaml.YAMLError, ValueError) as error:
        raise UnreadableError(f"not YAML: {' '.join(str(error).split())}") from error


def _manifests(body: Any, node: Any, name: str, index: int) -> Iterator[Manifest | Unreadable]:
    if body is None:
        return
    if not isinstance(body, Mapping):
        mark = node.start_mark
        yield Unreadable(
            Place(name, mark.line + 1, mark.column + 1), "not an object: a manifest is a mapping"
        )
        return
    kind = reading.text(body, "kind")
    if not kind.endswith("List") or "items" not in body:
        yield Manifest(name, index, body, node=node)
        return
    items = child(node, "items")
    for position, item in enumerate(reading.sequence(body, "items")):
        if isinstance(item, Mapping):
            yield Manifest(name, index, item, where=f"items[{position}]", node=child(items, position))


def build(node: Any) -> Any:
    """A node as plain data. Repeated keys are refused: two readers would see two values.

    A key beside `<<` overrides what it brings, wherever it stands; that is no repetition.
    """
    kind = type(node)
    if kind is yaml.ScalarNode:
        return node.value if node.tag == _STRING else _scalar(node)
    if kind is yaml.SequenceNode:
        return [build(item) for item in node.value]
    result: dict[Any, Any] = {}
    brought: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        if key_node.tag == _MERGE:
            for key, value in _merged(value_node).items():
                brought.setdefault(key, value)
            continue
        # The same few words in all manifests: one of each is kept.
        key = sys.intern(key_node.value) if key_node.tag == _STRING else build(key_node)
        try:
            repeated = key in result
        except TypeError as error:
            raise _at(key_node, "a key must be a scalar") from error
        if repeated:
            raise _at(key_node, f"the key {key!r} appears twice")
        result[key] = build(value_node)
    return {**brought, **result} if brought else result


def _merged(node: Any) -> dict[Any, Any]:
    if isinstance(node, yaml.MappingNode):
        found: dict[Any, Any] = build(node)
        return found
    if isinstance(node, yaml.SequenceNode):
        together: dict[Any, Any] = {}
        for item in node.value:
            for key, value in _merged(item).items():
                together.setdefault(key, value)
        return together
    raise _at(node, "<< needs a mapping")


def _scalar(node: Any) -> Any:
    """As kubectl reads it: dates, `1:30` and explicit binary stay text."""
    if node.tag in _TEXT_TAGS or (":" in node.value and node.tag in _NUMBER_TAGS):
        return node.value
    constructor = yaml.SafeLoader.yaml_constructors.get(node.tag)
    if constructor is None:
        raise _at(node, f"the tag {node.tag!r} is not plain YAML")
    try:
        return constructor(_CONSTRUCTOR, node)
    except (ValueError, yaml.YAMLError) as error:
        raise _at(node, f"not readable as {node.tag.rpartition(':')[2]}") from error


def _at(node: Any, message: str) -> UnreadableError:
    return UnreadableError(message, line=node.start_mark.line + 1, column=node.start_mark.column + 1)


def steps_of(path: str) -> list[str | int]:
    """`spec.roles[0]`, `metadata.labels[a.b/c]`: the keys and indexes on the way."""
    return [int(index) if index else (quoted or name) for index, quoted, name in _STEP.findall(path)]


def child(node: Any, step: str | int) -> Any:
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int):
        return node.value[step] if step < len(node.value) else None
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(step):
                return value
    return None
