"""A certificate's subject as Go writes it, which is the text that administrators' patterns are made for.

Go sorts: SERIALNUMBER, CN, OU, O, POSTALCODE, STREET, L, ST, C, each with all its values joined by "+",
then whatever else there is, the last first, as dotted=#hex. Other libraries keep the certificate's order;
with those, `O="x,CN=agent-2"` makes agent-1 pose as agent-2 for the pattern `CN=([^,]+)`.
"""

from dataclasses import dataclass

from cryptography import x509

# In the order in which they are written.
_NAMES = {
    "2.5.4.5": "SERIALNUMBER",
    "2.5.4.3": "CN",
    "2.5.4.11": "OU",
    "2.5.4.10": "O",
    "2.5.4.17": "POSTALCODE",
    "2.5.4.9": "STREET",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.6": "C",
}

_COMMON_NAME = "2.5.4.3"
_SINGLE = {"2.5.4.5", _COMMON_NAME}  # of these Go keeps the last
_ESCAPED = frozenset(',+"\\<>;')
_PRINTABLE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'()+,-./ :=?")
_FIRST_PRINTABLE, _DELETE = 0x20, "\x7f"
_PRINTABLE_STRING, _UTF8_STRING = 0x13, 0x0C


@dataclass(frozen=True, slots=True)
class GoSubject:
    """`values` are the places in `text` where an attribute's value stands."""

    text: str
    values: tuple[tuple[int, int], ...]
    common_names: tuple[str, ...]

    def poses(self, start: int) -> bool:
        """Whether what stands at `start` is preceded, in its own value, by what reads like an attribute.

        Go escapes no "=", so a serial number of "CN=agent-2" would be taken for a common name.
        """
        for begin, end in self.values:
            if begin <= start < end:
                before = self.text[begin:start]
                return any(f"{name}=" in before for name in _NAMES.values())
        return False


def go_subject(name: x509.Name) -> GoSubject:
    """Raises ValueError for values that are no printable text."""
    known: dict[str, list[str]] = {oid: [] for oid in _NAMES}
    others = []
    for attribute in name:
        oid, value = attribute.oid.dotted_string, attribute.value
        if not isinstance(value, str):
            raise ValueError(f"the value of {oid} is no text")  # noqa: TRY004 - the certificate's fault
        if any(ord(character) < _FIRST_PRINTABLE or character == _DELETE for character in value):
            raise ValueError(f"the value of {oid} has control characters")
        if oid in known:
            known[oid].append(value)
        else:
            others.append(f"{oid}=#{_der(value).hex()}")
    common_names = tuple(known[_COMMON_NAME])
    for oid in _SINGLE:
        known[oid] = [value for value in known[oid][-1:] if value]

    text, values = "", []
    for oid, label in _NAMES.items():
        for place, value in enumerate(known[oid]):
            text += ("+" if place else "," if text else "") + f"{label}="
            values.append((len(text), len(text) + len(_escaped(value))))
            text += _escaped(value)
    return GoSubject(
        text=",".join(filter(None, [text, *reversed(others)])),
        values=tuple(values),
        common_names=common_names,
    )


def _escaped(value: str) -> str:
    last = len(value) - 1
    return "".join(
        f"\\{character}"
        if character in _ESCAPED
        or (character == " " and place in (0, last))
        or (character == "#" and place == 0)
        else character
        for place, character in enumerate(value)
    )


def _der(value: str) -> bytes:
    """Go writes a text anew, whatever it was encoded as: printable if it can be, else UTF-8."""
    content = value.encode()
    tag = _PRINTABLE_STRING if _PRINTABLE.issuperset(value) else _UTF8_STRING
    if len(content) < 0x80:  # noqa: PLR2004 - ASN.1's short form of a length
        return bytes([tag, len(content)]) + content
    length = len(content).to_bytes((len(content).bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content
