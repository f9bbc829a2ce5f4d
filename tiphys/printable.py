"""What others wrote, made fit to be printed."""

import re

_UNPRINTABLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff"
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # what turns the direction of a line round
)


def visible(value: str) -> str:
    """Without what a terminal would obey or XML cannot hold: manifests are written by others."""
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", value)
