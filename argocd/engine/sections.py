"""A configuration file taken apart key by key, with every problem at its exact path.

Whoever reads asks for the keys it knows; `close` names the others. What is wrong is left at its default.
"""

from collections.abc import ItemsView, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Any, TypeVar

from argocd.shortening import shortened
from argocd.spelling import did_you_mean

Choice = TypeVar("Choice", bound=StrEnum)

_SHOWN = 40
"""Characters of a wrong value that a message repeats: enough to find it, too few to flood a log."""


@dataclass(frozen=True, slots=True)
class ConfigurationProblem:
    """One thing that is wrong; `path` is empty where the whole file is meant."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ConfigurationSection:
    """One mapping of the file."""

    def __init__(self, data: Any, *, problems: list[ConfigurationProblem], path: str = "") -> None:
        self._path = path
        self._problems = problems
        self._known: list[str] = []
        self._data: Mapping[Any, Any] = data if isinstance(data, Mapping) else {}
        if data is not None and not isinstance(data, Mapping):
            problems.append(ConfigurationProblem(path, f"must be a mapping, not {describe(data)}"))

    @property
    def complaints(self) -> int:
        """How many there are so far, in the whole file."""
        return len(self._problems)

    def complain(self, key: str, message: str) -> None:
        self._problems.append(ConfigurationProblem(self._at(key), message))

    def close(self) -> None:
        for key in self._data:
            if key not in self._known:
                self.complain(str(key), f"unknown key{did_you_mean(key, self._known)}")

    def raw(self, key: str) -> Any:
        self._known.append(key)
        return self._data.get(key)

    def text(self, key: str, default: str = "") -> str:
        value = self.raw(key)
        if value is None or isinstance(value, str):
            return default if value is None else value
        self.complain(key, f"must be text, not {describe(value)}: put it in quotes")
        return default

    def flag(self, key: str) -> bool:
        value = self.raw(key)
        if value is not None and not isinstance(value, bool):
            self.complain(key, f"must be true or false, not {describe(value)}")
        return value is True

    def number(self, key: str, default: int, *, least: int) -> int:
        value = self.raw(key)
        if value is None:
            return default
        if isinstance(value, int) and not isinstance(value, bool) and value >= least:
            return value
        self.complain(key, f"must be a whole number, {least} or more, not {describe(value)}")
        return default

    def texts(self, key: str) -> tuple[str, ...]:
        items = self._list(key)
        for index, item in enumerate(items):
            if not isinstance(item, str):
                self.complain(f"{key}[{index}]", f"must be text, not {describe(item)}: put it in quotes")
        return tuple(item for item in items if isinstance(item, str))

    def choice(self, key: str, default: Choice) -> Choice:
        return self.optional(key, type(default)) or default

    def optional(self, key: str, options: type[Choice]) -> Choice | None:
        value = self.raw(key)
        return None if value is None else self.choose(key, value, options)

    def choose(self, key: str, value: Any, options: type[Choice]) -> Choice | None:
        """The option that the value names."""
        words = [str(option) for option in options]
        # YAML 1.1 reads a bare `off` as false.
        word = "off" if value is False else value
        if isinstance(word, str) and word in words:
            return options(word)
        meant = did_you_mean(value, words)
        self.complain(key, f"must be one of {', '.join(words)}, not {describe(value)}{meant}")
        return None

    def day(self, key: str) -> date | None:
        value = self.raw(key)
        if isinstance(value, datetime):
            return value.date()
        if value is None or isinstance(value, date):
            return value
        try:
            return datetime.fromisoformat(value).date()
        except (TypeError, ValueError):
            self.complain(key, f"must be a day like 2027-01-31, not {describe(value)}")
            return None

    def section(self, key: str) -> "ConfigurationSection":
        return ConfigurationSection(self.raw(key), problems=self._problems, path=self._at(key))

    def sections(self, key: str) -> Iterator["ConfigurationSection"]:
        for index, item in enumerate(self._list(key)):
            yield ConfigurationSection(item, problems=self._problems, path=self._at(f"{key}[{index}]"))

    def items(self) -> ItemsView[Any, Any]:
        return self._data.items()

    def _list(self, key: str) -> list[Any]:
        value = self.raw(key)
        if value is None or isinstance(value, list | tuple):
            return list(value or ())
        self.complain(key, f"must be a list, not {describe(value)}")
        return []

    def _at(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key


def describe(value: Any) -> str:
    """A wrong value in a message."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, bool):
        return "true" if value else "false"
    shown = str(value)
    return shown if len(shown) <= _SHOWN else f"{shortened(shown, _SHOWN)}…"
