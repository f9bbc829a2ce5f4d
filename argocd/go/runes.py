"""Text as Go sees it: UTF-8 bytes, read rune by rune, even where a string was cut inside one."""

import re

BROKEN = 0xFFFD
"""What Go reads from bytes that are no UTF-8."""

_ASCII = 0x80
_LONGEST = 4
_WRITTEN_BROKEN = 3

SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""unicode.IsSpace; Python's own idea of white space has four more."""
_WORD = re.compile(f"[^{SPACE}]+")


def encode(text: str) -> bytes:
    """UTF-8; lone surrogates, which JSON can smuggle in, become bytes that are none."""
    return text.encode("utf-8", "surrogatepass")


def decode(data: bytes, start: int, end: int) -> tuple[int, int]:
    """The rune at `start` and how many bytes it takes: none at the end, one where it is broken."""
    if start >= end:
        return BROKEN, 0
    if data[start] < _ASCII:
        return data[start], 1
    for stop in range(start + 2, min(start + _LONGEST, end) + 1):
        try:
            return ord(data[start:stop].decode()), stop - start
        except UnicodeDecodeError:
            continue
    return BROKEN, 1


def written_length(rune: int) -> int:
    """Bytes of the rune when it is written: three for a broken one, though it was read from one."""
    return _WRITTEN_BROKEN if rune == BROKEN else len(chr(rune).encode())


_LOWER_ALONE = {ord("\u0130"): "i", ord("\u03a3"): "\u03c3"}
"""What Python would make two characters of, and what becomes another one at the end of a word."""


def lower(text: str) -> str:
    """As strings.ToLower: one rune for one rune, whatever stands beside it."""
    return text.lower() if text.isascii() else text.translate(_LOWER_ALONE).lower()


def trim(text: str) -> str:
    """As strings.TrimSpace."""
    return text.strip(SPACE)


def words(text: str) -> list[str]:
    """As strings.Fields."""
    return _WORD.findall(text)
