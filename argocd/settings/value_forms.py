"""How Argo CD reads the texts in its ConfigMaps. A form is a word of the tables of keys: `integer:1..1000`.

Most of what cannot be read is replaced by the default, with a line in a log that nobody looks at.
"""

import re
from collections.abc import Callable

from argocd import charged_re2
from argocd.go import durations, net_url, strconv
from argocd.shortening import shortened

_DAYS = re.compile(r"[0-9]{1,18}[smhd]")
"""Argo CD's own durations: one number, one unit."""
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SIZE = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+|[KMGTPE]i|[numkMGTPE])?")
"""A quantity of Kubernetes."""
_LEVELS = frozenset({"panic", "fatal", "error", "warn", "warning", "info", "debug", "trace"})
_SHOWN = 40
"""Characters of a value that a message repeats."""


def problem(form: str, text: str) -> str:
    """What is wrong with a text that should have the form; empty where nothing is. An empty text is the default."""
    if not text or not form:
        return ""
    if "|" in form:
        return "" if text in form.split("|") else f"is none of {form.replace('|', ', ')}"
    name, _, limits = form.partition(":")
    return _FORMS[name](text, limits)


def shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{shortened(text, _SHOWN)}…")


def _boolean(text: str, _limits: str) -> str:
    return "" if strconv.boolean(text) is not None else "is neither true nor false"


def _folded_boolean(text: str, _limits: str) -> str:
    return "" if text.lower() in {"true", "false"} else "is neither true nor false"


def _integer(text: str, limits: str) -> str:
    number = strconv.integer(text)
    if number is None:
        return "is no whole number"
    low, _, high = limits.partition("..")
    if (low and number < int(low)) or (high and number > int(high)):
        return f"is not between {low} and {high}" if high else f"is less than {low}"
    return ""


def _number(text: str, _limits: str) -> str:
    return "" if _DECIMAL.fullmatch(text) and not text.startswith("-") else "is no number"


def _days(text: str, _limits: str) -> str:
    return "" if _DAYS.fullmatch(text) else "is no duration of one number and one of s, m, h, d"


def _duration(text: str, limits: str) -> str:
    if _DAYS.fullmatch(text) and text.endswith("d"):
        text = f"{int(text[:-1]) * 24}h"
    length = durations.read(text)
    if isinstance(length, durations.DurationError):
        return "is no duration such as 90s or 1h30m"
    low, _, high = limits.partition("..")
    if length < durations.parse(low or "0") or (high and length > durations.parse(high)):
        return f"is not between {low or 0} and {high}" if high else "is negative"
    return ""


def _level(text: str, _limits: str) -> str:
    return "" if text.lower() in _LEVELS else "is no level: debug, info, warn or error"


def _size(text: str, _limits: str) -> str:
    return "" if _SIZE.fullmatch(text) else "is no size such as 100M or 1G"


def _pairs(text: str, _limits: str) -> str:
    pairs = [pair.split("=") for pair in text.split(",")]
    wrong = any(len(pair) != len(("key", "value")) for pair in pairs)
    return "is no list of key=value, separated by commas" if wrong else ""


def _url(text: str, _limits: str) -> str:
    return "" if net_url.scheme(text) in {"http", "https"} else "is no URL with http or https"


def _expression(text: str, _limits: str) -> str:
    return "" if compiles(text) else "is no regular expression"


def compiles(expression: str) -> bool:
    """As Go's regexp, which is RE2."""
    return not charged_re2.problem(expression)


_FORMS: dict[str, Callable[[str, str], str]] = {
    "boolean": _boolean,
    "folded-boolean": _folded_boolean,
    "integer": _integer,
    "number": _number,
    "days": _days,
    "duration": _duration,
    "level": _level,
    "size": _size,
    "pairs": _pairs,
    "url": _url,
    "expression": _expression,
}
