"""Text that Go's standard library turns into values, read the way Go reads it.

Everything here runs in time linear in the text and never raises: the answer is the value or None.
"""

import binascii
import re

# An int64 has 19 digits; leading zeros are allowed, so the text may be longer than that.
_DECIMAL = re.compile(r"[+-]?[0-9]+", re.ASCII)
_INT64 = 1 << 63

TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})
BOOLEAN_HINT = "Use true or false."


def boolean(text: str) -> bool | None:
    """As strconv.ParseBool."""
    if text in TRUE:
        return True
    return False if text in FALSE else None


def atoi(text: str) -> int | str:
    """As strconv.Atoi and strconv.ParseInt in base 10 on a 64-bit machine: the number, or Go's reason why not."""
    if not _DECIMAL.fullmatch(text):
        return "invalid syntax"
    digits = text.lstrip("+-").lstrip("0")
    value = int(digits or "0") if len(digits) <= len(str(_INT64)) else 2 * _INT64  # too long to convert
    if text.startswith("-"):
        value = -value
    return value if -_INT64 <= value < _INT64 else "value out of range"


def integer(text: str) -> int | None:
    """As `atoi`, where nobody asks for the reason."""
    value = atoi(text)
    return value if isinstance(value, int) else None


def base64(text: str) -> bytes | None:
    """As encoding/json fills a []byte: the standard alphabet with padding, line breaks are ignored."""
    if "\n" in text or "\r" in text:
        text = text.replace("\n", "").replace("\r", "")
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:  # binascii.Error, or characters that are not ASCII
        return None
