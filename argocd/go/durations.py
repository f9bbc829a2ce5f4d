"""Durations as Go's time.ParseDuration reads them and writes them, in nanoseconds."""

import re

from argocd.budget import remembered, spend
from argocd.go import runes

_NANOSECONDS = {
    b"ns": 1,
    b"us": 1_000,
    "µs".encode(): 1_000,  # the micro sign
    "μs".encode(): 1_000,  # the letter mu
    b"ms": 1_000_000,
    b"s": 1_000_000_000,
    b"m": 60_000_000_000,
    b"h": 3_600_000_000_000,
}
SECOND = _NANOSECONDS[b"s"]
MINUTE = _NANOSECONDS[b"m"]

_LARGEST = 1 << 63
_DIGITS = 19
"""Of the largest number."""
_WRAP = (1 << 64) - 1
_NUMBER = re.compile(rb"([0-9]*)(\.[0-9]*)?")
_UNIT = re.compile(rb"[^.0-9]*")
_QUOTED = {
    **{byte: f"\\x{byte:02x}" for byte in (*range(0x20), *range(0x80, 0x100))},
    ord('"'): '\\"',
    ord("\\"): "\\\\",
}


class DurationError(Exception):
    """The text is Go's."""


@remembered(longest=300, most=1024)
def read(text: str) -> int | DurationError:
    """As `parse`, with what is wrong as the answer."""
    spend(len(text))
    try:
        return parse(text)
    except DurationError as error:
        return error


def problem(text: str) -> str:
    """Go's complaint, empty where there is none."""
    found = read(text)
    return str(found) if isinstance(found, DurationError) else ""


def parse(text: str) -> int:
    whole = runes.encode(text)
    negative = whole.startswith(b"-")
    at = 1 if whole[:1] in {b"-", b"+"} else 0
    if whole[at:] == b"0":
        return 0
    total = 0
    if at == len(whole):
        raise _invalid(whole)
    while at < len(whole):
        value, at = _part(whole, at)
        # Two halves of the largest number fall over to zero in Go.
        total = (total + value) & _WRAP
        if total > _LARGEST:
            raise _invalid(whole)
    if not negative and total == _LARGEST:
        raise _invalid(whole)
    return -total if negative else total


def _part(whole: bytes, at: int) -> tuple[int, int]:
    """The number with its unit that stands there, and where the next one begins."""
    number = _NUMBER.match(whole, at)
    assert number
    digits, fraction = number[1].lstrip(b"0"), (number[2] or b"")[1:]
    if not (number[1] or fraction) or len(digits) > _DIGITS:
        raise _invalid(whole)
    unit = _UNIT.match(whole, number.end())
    assert unit
    if not unit[0]:
        raise DurationError(f"time: missing unit in duration {_quote(whole)}")
    size = _NANOSECONDS.get(unit[0])
    if size is None:
        raise DurationError(f"time: unknown unit {_quote(unit[0])} in duration {_quote(whole)}")
    value = int(digits or b"0")
    if value > _LARGEST // size:
        raise _invalid(whole)
    value = value * size + _fraction(fraction, size)
    if value > _LARGEST:
        raise _invalid(whole)
    return value, unit.end()


def _fraction(digits: bytes, size: int) -> int:
    value, scale = 0, 1.0
    for digit in digits[:_DIGITS]:
        if value > (_LARGEST - 1) // 10:
            break
        value = value * 10 + digit - ord("0")
        scale *= 10
    return int(float(value) * (size / scale))


def _invalid(whole: bytes) -> DurationError:
    return DurationError(f"time: invalid duration {_quote(whole)}")


def _quote(text: bytes) -> str:
    return f'"{text.decode("latin-1").translate(_QUOTED)}"'


def write(nanoseconds: int) -> str:
    """As Duration.String: 1h30m0s, 1.5ms, 0s."""
    if not nanoseconds:
        return "0s"
    sign, size = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    for unit, one in (("ns", 1), ("µs", 1_000), ("ms", 1_000_000)):
        if size < one * 1000:
            return f"{sign}{_decimal(size, one)}{unit}"
    minutes, rest = divmod(size, MINUTE)
    seconds = f"{_decimal(rest, SECOND)}s"
    if not minutes:
        return f"{sign}{seconds}"
    hours, minutes = divmod(minutes, 60)
    return f"{sign}{hours}h{minutes}m{seconds}" if hours else f"{sign}{minutes}m{seconds}"


def _decimal(size: int, one: int) -> str:
    whole, part = divmod(size, one)
    decimals = f"{part:0{len(str(one)) - 1}d}".rstrip("0") if part else ""
    return f"{whole}.{decimals}" if decimals else str(whole)
