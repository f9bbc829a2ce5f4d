"""YAML that somebody wrote, read without giving them a way to hurt us: the one reader for everything.

libyaml's own composer recurses without a limit (a hundred thousand opening brackets end the process), and a
few aliases of aliases become gigabytes once something walks the result. So only its parser is used, which hands
out events one by one, and the nodes are put together here, within limits. Anchors may be defined twice, as YAML
permits and PyYAML does not.
"""

import re
import sys
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import yaml

LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

MAX_DEPTH = 64
"""Twice what the deepest ApplicationSet anybody has shown needs; far below Python's stack."""

MAX_NODES = 200_000
"""With aliases followed. A ConfigMap holds at most 1 MiB, which is fewer nodes in any honest file."""

TEXT = 64
"""Characters of a text that take as much memory as a value does."""

DOCUMENT = 8
"""Values that a document without any takes the time of."""

MAX_DIGITS = 400
"""Of a number: what a float can hold has 309. Python refuses to print much longer ones."""

MAX_DIRECTIVES = 100
"""Lines that begin with %: libyaml compares each %TAG with all before it."""

_VALUES_OF_A_CHARACTER = 2
"""At most, without aliases: `[?,?,?]` has three in two. With them, what is kept is kept once."""

_SHOWN = 80
"""Characters of somebody's text in a message."""

Charge = Callable[[int], None]

_DIRECTIVE = re.compile(r"(?:^|[\r\n\x85\u2028\u2029\ufeff])%")

_STRING = "tag:yaml.org,2002:str"
_MAP = "tag:yaml.org,2002:map"
_SEQUENCE = "tag:yaml.org,2002:seq"
_MERGE = "tag:yaml.org,2002:merge"
_TEXT_TAGS = frozenset({"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:binary", "tag:yaml.org,2002:value"})
_NUMBER_TAGS = frozenset({"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"})

_CONSTRUCTOR = yaml.constructor.SafeConstructor()
_SCALARS = {
    f"tag:yaml.org,2002:{name}": yaml.SafeLoader.yaml_constructors[f"tag:yaml.org,2002:{name}"]
    for name in ("bool", "float", "int", "null", "str")
}


class YamlError(ValueError):
    """One line: what is wrong and where. `problem`, `line` and `column` have it apart, where they are known."""

    def __init__(self, problem: str, *, line: int = 0, column: int = 0) -> None:
        where = f"line {line}, column {column}: " if column else f"line {line}: " if line else ""
        super().__init__(f"{where}{problem}")
        self.problem = problem
        self.line = line
        self.column = column


class HostileYamlError(YamlError):
    """YAML, but more of it than anybody writes."""


def load(text: str, *, most: int = MAX_NODES, charge: Charge | None = None) -> Any:
    """The one document of the text as plain data; raises YamlError alone. The last of repeated keys counts."""
    if not text:
        return None  # most keys of argocd-cm are not there
    documents = compose(text, most=most, in_all=most, charge=charge)
    node = next(documents, None)
    data = None if node is None else build(node, repeated_keys=True)
    for second in documents:
        raise _at(second, "but found another document")
    return data


def compose(
    text: str, *, most: int = MAX_NODES, in_all: int = MAX_NODES, charge: Charge | None = None
) -> Iterator[yaml.Node]:
    """The documents of a text, one after the other; raises YamlError where it cannot go on.

    `most` values in one document, `in_all` in the text. What could be more is counted before anything is kept.
    `charge` is told the values of each document once, before anybody builds it, also of one that is not whole.
    """
    if len(_DIRECTIVE.findall(text)) > MAX_DIRECTIVES:
        raise HostileYamlError(f"more than {MAX_DIRECTIVES} lines begin with %")
    if len(text) > most // _VALUES_OF_A_CHARACTER:
        _refuse_hostile(text, most=most, in_all=in_all, charge=charge)
        charge = None
    yield from _documents(text, most=most, in_all=in_all, charge=charge, keep=True)


def _refuse_hostile(text: str, *, most: int, in_all: int, charge: Charge | None) -> None:
    try:
        deque(_documents(text, most=most, in_all=in_all, charge=charge, keep=False), maxlen=0)
    except HostileYamlError:
        raise
    except YamlError:
        return  # to be told after the documents before it


def _documents(
    text: str, *, most: int, in_all: int, charge: Charge | None, keep: bool
) -> Iterator[yaml.Node]:
    loader = None
    try:
        loader = LOADER(text)
        earlier = 0
        while (event := loader.get_event()) is not None:
            if isinstance(event, yaml.DocumentStartEvent):
                document = _Document(most=most, left=in_all - earlier, in_all=in_all, keep=keep)
                try:
                    node = document.composed(loader)
                finally:
                    if charge is not None:
                        charge(document.values + DOCUMENT)
                earlier += document.values + DOCUMENT
                yield node
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        raise YamlError(error.problem or error.context or "not YAML", line=line, column=column) from error
    except (yaml.YAMLError, UnicodeError) as error:
        raise YamlError(" ".join(str(error).split())) from error  # characters that no YAML has
    finally:
        if loader is not None:
            loader.dispose()


class _Nothing:
    """Stands for nodes that are only counted."""

    def __init__(self) -> None:
        self.value = self
        self.end_mark = None

    def append(self, node: Any) -> None: ...


class _Document:
    """One document's nodes from libyaml's events, without recursion."""

    def __init__(self, *, most: int, left: int, in_all: int, keep: bool) -> None:
        """Without `keep` they are counted and nothing else."""
        self.values = 0
        self._keep = keep
        self._limit = min(most, left)
        self._said = (
            f"{most} values in one document" if most <= left and most < in_all else f"{in_all} values"
        )
        self._anchors: dict[str, tuple[Any, int]] = {}

    def composed(self, loader: Any) -> yaml.Node:
        resolve = loader.resolve
        opened: list[tuple[Any, str | None, int]] = []
        root: list[Any] = []
        beside: Any = root  # what the next node is appended to
        while not isinstance(event := loader.get_event(), yaml.DocumentEndEvent):
            kind = type(event)
            if kind is yaml.ScalarEvent:
                tag = event.tag
                if tag is None or tag == "!":
                    tag = (
                        resolve(yaml.ScalarNode, event.value, event.implicit)
                        if event.implicit[0]
                        else _STRING
                    )
                beside.append(self._scalar(event, tag))
            elif kind is yaml.AliasEvent:
                beside.append(self._alias(event))
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                node, anchor, before = opened.pop()
                node.end_mark = event.end_mark
                if kind is yaml.MappingEndEvent and self._keep:
                    node.value = list(zip(node.value[::2], node.value[1::2], strict=True))
                if anchor is not None:
                    self._anchors[anchor] = node, self.values - before
                beside = opened[-1][0].value if opened else root
            else:
                node = _collection(event) if self._keep else _Nothing()
                beside.append(node)
                beside = node.value
                opened.append((node, event.anchor, self.values))
                self._anchors.pop(event.anchor, None)  # inside of it, the name means what is not whole yet
                self.values += 1
                if len(opened) > MAX_DEPTH:
                    raise _hostile(event, f"nested deeper than {MAX_DEPTH} levels")
            if self.values > self._limit:
                raise _hostile(event, f"more than {self._said}")
        found: yaml.Node = root[0]
        return found

    def _scalar(self, event: Any, tag: str) -> Any:
        # A long text counts as several values: aliases of one would make it longer than memory.
        weight = 1 + len(event.value) // TEXT
        self.values += weight
        node: Any = None
        if self._keep:
            node = yaml.ScalarNode(tag, event.value, event.start_mark, event.end_mark, style=event.style)
        if event.anchor is not None:
            self._anchors[event.anchor] = node, weight
        return node

    def _alias(self, event: Any) -> Any:
        if event.anchor not in self._anchors:
            raise _hostile(event, f"alias {_short(event.anchor)} of what contains it, or of nothing")
        node, weight = self._anchors[event.anchor]
        self.values += weight
        return node


def _collection(event: Any) -> Any:
    of, default = (
        (yaml.MappingNode, _MAP)
        if isinstance(event, yaml.MappingStartEvent)
        else (yaml.SequenceNode, _SEQUENCE)
    )
    tag = default if event.tag is None or event.tag == "!" else event.tag
    return of(tag, [], event.start_mark, None, flow_style=event.flow_style)


def build(node: Any, *, repeated_keys: bool = False) -> Any:
    """A node as plain data, as kubectl reads it. Repeated keys are refused: two readers would see two values.

    A key beside `<<` overrides what it brings, wherever it stands; that is no repetition. Raises YamlError.
    """
    kind = type(node)
    if kind is yaml.ScalarNode:
        return node.value if node.tag == _STRING else _plain_scalar(node)
    if node.tag not in {_MAP, _SEQUENCE}:
        raise _at(node, f"the tag {_short(node.tag)} is not supported")
    if kind is yaml.SequenceNode:
        return [build(item, repeated_keys=repeated_keys) for item in node.value]
    result: dict[str, Any] = {}
    brought: dict[str, Any] = {}
    for key_node, value_node in node.value:
        if key_node.tag == _MERGE:
            for key, value in _merged(value_node, repeated_keys=repeated_keys).items():
                brought.setdefault(key, value)
            continue
        key = _key(key_node)
        if key in result and not repeated_keys:
            raise _at(key_node, f"the key {_short(key)!r} appears twice")
        result[key] = build(value_node, repeated_keys=repeated_keys)
    return {**brought, **result} if brought else result


def _key(node: Any) -> str:
    """Keys are text: `1` and `true`, which Python takes for the same, are two of them."""
    if node.tag == _STRING:
        return sys.intern(node.value)  # the same few words in all manifests: one of each is kept
    if not isinstance(node, yaml.ScalarNode):
        raise _at(node, "a key must be a scalar")
    value = _plain_scalar(node)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def _merged(node: Any, *, repeated_keys: bool) -> dict[str, Any]:
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Any] = build(node, repeated_keys=repeated_keys)
        return found
    if isinstance(node, yaml.SequenceNode):
        together: dict[str, Any] = {}
        for item in node.value:
            for key, value in _merged(item, repeated_keys=repeated_keys).items():
                together.setdefault(key, value)
        return together
    raise _at(node, "<< needs a mapping")


def _plain_scalar(node: Any) -> Any:
    """Dates, `1:30` and explicit binary stay text."""
    if node.tag in _TEXT_TAGS or (":" in node.value and node.tag in _NUMBER_TAGS):
        return node.value
    if len(node.value) > MAX_DIGITS and node.tag in _NUMBER_TAGS:
        raise _at(node, f"a number of more than {MAX_DIGITS} digits")
    constructor = _SCALARS.get(node.tag)
    if constructor is None:
        raise _at(node, f"the tag {_short(node.tag)} is not supported")
    try:
        return constructor(_CONSTRUCTOR, node)
    except (ValueError, KeyError, IndexError, yaml.YAMLError) as error:
        # An explicit tag before a text that is no such thing.
        raise _at(node, f"not readable as {node.tag.rpartition(':')[2]}") from error


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _at(node: Any, problem: str) -> YamlError:
    return YamlError(problem, line=node.start_mark.line + 1, column=node.start_mark.column + 1)


def _hostile(event: Any, problem: str) -> YamlError:
    return HostileYamlError(problem, line=event.start_mark.line + 1)
