"""YAML that somebody wrote, read without giving them a way to hurt us.

libyaml's composer recurses without a limit (a hundred thousand opening brackets end the process), a few
aliases of aliases become gigabytes once something walks the result, and explicit tags make constructors
fail in ways of their own. One pass over the events finds all three first.
"""

from typing import Any

import yaml

_LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

MAX_DEPTH = 64
"""Twice what the deepest ApplicationSet anybody has shown needs; far below the composer's stack."""

MAX_NODES = 200_000
"""With aliases followed. A ConfigMap holds at most 1 MiB, which is fewer nodes in any honest file."""

TEXT = 64
"""Characters of a text that take as much memory as a value does."""


class YamlError(ValueError):
    """One line: what is wrong and where. `problem` and `line` have it apart, where a line is known."""

    def __init__(self, problem: str, *, line: int = 0) -> None:
        super().__init__(f"line {line}: {problem}" if line else problem)
        self.problem = problem
        self.line = line


def load(text: str) -> Any:
    """The one document of the text as plain data; raises YamlError alone."""
    try:
        refuse_hostile(text)
        return yaml.load(text, Loader=_LOADER)  # noqa: S506 - a safe loader, with libyaml's speed
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise YamlError(f"{where}{error.problem}") from error
    except (yaml.YAMLError, ValueError) as error:
        # Unreadable characters, and values such as 2027-02-31 that look like a date and are none.
        raise YamlError(" ".join(str(error).split())) from error


def refuse_hostile(text: str, *, most: int = MAX_NODES, in_all: int = MAX_NODES) -> None:
    """`most` values in one document, `in_all` in the text: documents are read one after the other."""
    nodes = earlier = 0
    sizes: dict[str | None, int] = {}
    opened: list[tuple[str | None, int]] = []
    for event in yaml.parse(text, Loader=_LOADER):
        nodes += _size(event, sizes)
        if isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, nodes - 1))
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            sizes[anchor] = nodes - before
        elif isinstance(event, yaml.ScalarEvent):
            sizes[event.anchor] = _weight(event)
        elif isinstance(event, yaml.DocumentEndEvent):
            earlier, nodes = earlier + nodes, 0
            sizes.clear()
        if len(opened) > MAX_DEPTH:
            raise _refusal(event, f"nested deeper than {MAX_DEPTH} levels")
        if nodes > most or earlier + nodes > in_all:
            limit = most if nodes > most else in_all
            raise _refusal(event, f"more than {limit} values{' in one document' if limit < in_all else ''}")


def _size(event: Any, sizes: dict[str | None, int]) -> int:
    if isinstance(event, yaml.AliasEvent):
        if event.anchor not in sizes:
            raise _refusal(event, f"alias {event.anchor} of what contains it, or of nothing")
        return sizes[event.anchor]
    if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent):
        if event.tag not in {None, "!"}:
            raise _refusal(event, f"the tag {event.tag} is not supported")
        return _weight(event) if isinstance(event, yaml.ScalarEvent) else 1
    return 0


def _weight(event: Any) -> int:
    """A long text counts as several values: aliases of one would make it longer than memory."""
    return 1 + len(event.value) // TEXT


def _refusal(event: Any, reason: str) -> YamlError:
    return YamlError(reason, line=event.start_mark.line + 1)
