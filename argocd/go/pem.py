"""Keys and certificates as Go's encoding/pem takes them apart, without looking at their numbers."""

import re

from argocd.go import strconv

_LINE = re.compile(r"-----(?:BEGIN|END) ([A-Z0-9 ]{1,64})-----")
_LONGEST = 256 * 1024
"""Characters; a bundle of a hundred certificates is shorter."""
_SEQUENCE = 0x30
"""The first byte of everything in ASN.1 that is a key or a certificate."""
_OPENSSH = b"openssh-key-v1\0"
_OPENSSH_UNENCRYPTED = _OPENSSH + b"\0\0\0\x04none"


def problem(text: str, *, label: str) -> str:
    """Why this is no block whose label ends so; empty if it is one, or too long to be looked at."""
    if len(text) > _LONGEST:
        return ""
    start, end = text.find("-----BEGIN "), text.find("-----END ")
    if start < 0:
        return "there is no -----BEGIN line"
    first, last = _LINE.match(text, start), _LINE.match(text, max(end, 0))
    if first is None or last is None or end < start:
        return "the -----BEGIN or the -----END line is broken"
    if first[1] != last[1]:
        return "the -----BEGIN and -----END lines are of different things"
    if not first[1].endswith(label):
        return f"it is a {first[1]}, not a {label}"
    return _content_problem(first[1], text[first.end() : end])


def _content_problem(label: str, content: str) -> str:
    if "ENCRYPTED" in label or "ENCRYPTED" in content:
        return "it is protected by a passphrase, which nobody can give Argo CD"
    decoded = strconv.base64("".join(content.split()))
    if not decoded:
        return "what is between the lines is not base64"
    if decoded.startswith(_OPENSSH):
        if not decoded.startswith(_OPENSSH_UNENCRYPTED):
            return "it is protected by a passphrase, which nobody can give Argo CD"
        return ""
    return "" if decoded[0] == _SEQUENCE else "what is between the lines is no key and no certificate"
