"""What two ends compare instead of whole objects: checksums of an inventory and of a specification.

Both must be the bytes that argocd-agent would hash, so the JSON here is that of Go's encoding/json.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any

from argocd import names
from argocd.reading import text, value

_INT64 = 1 << 63

# Go escapes what could end a script element or a JavaScript line, and has a word for broken UTF-8.
_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"} | dict.fromkeys(
    range(0xD800, 0xE000), "\\ufffd"
)

# encoding/json writes an exponent outside of these, as ECMAScript does.
_SMALLEST_PLAIN = 1e-6
_LARGEST_PLAIN = 1e21


class ChecksumError(ValueError):
    """The object has nothing that could be hashed."""


@dataclass(frozen=True, slots=True, order=True)
class ResourceKey:
    """One line of an inventory. `uid` is the source's, so that both ends have the same."""

    kind: str
    name: str
    uid: str
    namespace: str = ""


def resource_key(kind: str, item: Mapping[str, Any]) -> ResourceKey:
    source = value(item, "metadata", "annotations", names.SOURCE_UID)
    return ResourceKey(
        kind=kind,
        name=text(item, "metadata", "name"),
        uid=source if isinstance(source, str) else text(item, "metadata", "uid"),
        namespace=text(item, "metadata", "namespace"),
    )


def inventory_checksum(keys: Iterable[ResourceKey]) -> bytes | None:
    """SHA-256 over kind, name and uid of everything tracked; None where nothing is."""
    lines = sorted(f"{key.kind}/{key.name}/{key.uid}".encode(errors="replace") for key in keys)
    return hashlib.sha256(b"".join(lines)).digest() if lines else None


def spec_checksum(item: Mapping[str, Any]) -> bytes:
    """SHA-256 of what an object says: `data` of a Secret or ConfigMap, else `spec` without its destination.

    The destination of an Application differs on the two ends by design.
    """
    return hashlib.sha256(canonical_json(_content(item)).encode()).digest()


def _content(item: Mapping[str, Any]) -> Mapping[str, Any]:
    kind = text(item, "kind")
    field = "data" if kind in {"Secret", "ConfigMap"} else "spec"
    content = value(item, field)
    if content is None:
        if kind == "ConfigMap":
            return {}
        raise ChecksumError(f"{field} field not found")
    if not isinstance(content, Mapping):
        raise ChecksumError(f"unable to convert the {field} object")
    return {key: part for key, part in content.items() if key != "destination"}


def canonical_json(item: Any) -> str:
    """The text that Go's encoding/json makes of decoded JSON."""
    parts: list[str] = []
    try:
        _write(item, parts)
    except RecursionError:
        raise ChecksumError("nested too deeply to be hashed") from None
    return "".join(parts)


def _write(item: Any, parts: list[str]) -> None:
    if isinstance(item, str):
        parts.append(encode_basestring(item).translate(_ESCAPES))
    elif item is None or isinstance(item, bool):
        parts.append("null" if item is None else str(item).lower())
    elif isinstance(item, int | float):
        parts.append(_number(item))
    elif isinstance(item, Mapping):
        opening = "{"
        for key in sorted(item, key=str):
            parts.append(opening)
            _write(str(key), parts)
            parts.append(":")
            _write(item[key], parts)
            opening = ","
        parts.append("{}" if opening == "{" else "}")
    elif isinstance(item, list | tuple):
        opening = "["
        for part in item:
            parts.append(opening)
            _write(part, parts)
            opening = ","
        parts.append("[]" if opening == "[" else "]")
    else:
        raise ChecksumError(f"{type(item).__name__} is no JSON")


def _number(number: float) -> str:
    """Integers that fit 64 bits as they are; all else as the shortest text of a double."""
    if isinstance(number, int) and -_INT64 <= number < _INT64:
        return str(number)
    try:
        number = float(number)
    except OverflowError:
        number = float("inf")
    decimal = Decimal(repr(number))
    if not decimal.is_finite():
        raise ChecksumError("a number outside of what JSON can hold")
    if number == 0 or _SMALLEST_PLAIN <= abs(number) < _LARGEST_PLAIN:
        plain = f"{decimal:f}"
        return plain.rstrip("0").rstrip(".") if "." in plain else plain
    sign, digits, _ = decimal.as_tuple()
    significand = "".join(map(str, digits)).rstrip("0")
    point = "." if len(significand) > 1 else ""
    exponent = decimal.adjusted()
    return f"{'-' * sign}{significand[0]}{point}{significand[1:]}e{exponent:+d}"
