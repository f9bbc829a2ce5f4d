"""URLs as Go's net/url reads them and writes them again.

Python's urllib accepts nearly anything; Go refuses what it cannot read, and Argo CD and argocd-agent then go on
without it. Bytes matter: Go looks at UTF-8.
"""

import ipaddress
import re
from typing import NamedTuple
from urllib.parse import quote_from_bytes

from argocd.go import runes

_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_SCHEME = re.compile(rb"([a-zA-Z][a-zA-Z0-9+.-]*):")
_ESCAPE = re.compile(rb"%[0-9a-fA-F]{2}")
_ESCAPES = re.compile(rb"(?:%[0-9a-fA-F]{2})+")
_BROKEN_ESCAPE = re.compile(rb"%(?![0-9a-fA-F]{2})")
_PORT = re.compile(rb"(:[0-9]*)?")
_USERINFO = re.compile(rb"[A-Za-z0-9._:~!$&'()*+,;=%@-]*")

# What may stand for itself besides letters, digits and -._~
_PLAIN_IN_PATH = b"$&+,/:;=@"
_PLAIN_IN_FRAGMENT = b"!$&()*+,/:;=?@"
_PLAIN_IN_USERINFO = b"$&+,;="
_PLAIN_IN_HOST = b"!\"$&'()*+,:;<=>[]"


def _inside(plain: bytes) -> bytes:
    """Of a character class."""
    return rb"A-Za-z0-9_.~\-" + re.escape(plain)


_PATH = re.compile(rb"[!'()*\[\]%%%b]*" % _inside(_PLAIN_IN_PATH)), _PLAIN_IN_PATH
_FRAGMENT = re.compile(rb"[!'()*\[\]%%%b]*" % _inside(_PLAIN_IN_FRAGMENT)), _PLAIN_IN_FRAGMENT
# In a host an escape may only stand for a percent sign or a byte that is not ASCII; in a zone also for
# what needs none, and for a space.
_HOST = re.compile(rb"(?:[%b\x80-\xff]|%%(?:25|[89a-fA-F][0-9a-fA-F]))*" % _inside(_PLAIN_IN_HOST))
_ZONE = re.compile(rb"(?:[%b\x80-\xff]|%%[0-9a-fA-F]{2})*" % _inside(_PLAIN_IN_HOST))
_ESCAPED_IN_ZONE = re.compile(rb"[ %%%b]" % _inside(_PLAIN_IN_HOST))


class Url(NamedTuple):
    """The parts of a URL that Go can read, with what separates them; the authority is as Go writes it."""

    scheme: bytes
    authority: bytes
    path: bytes
    query: bytes
    fragment: bytes
    is_opaque: bool
    """As mailto:someone: what follows the scheme is not looked into."""


def query_parameter(url: str, name: str) -> str:
    """The first value of a query parameter; empty where there is none or the URL cannot be read."""
    found = read(url)
    for part in found.query[1:].split(b"&") if found else ():
        # A semicolon used to separate parameters too; since Go 1.17 such a part is dropped.
        if b";" in part or _BROKEN_ESCAPE.search(part):
            continue
        key, _, value = (_unescape(text.replace(b"+", b" ")) for text in part.partition(b"="))
        if key and key == name.encode():
            return value.decode("utf-8", "replace")
    return ""


def scheme(url: str) -> str:
    """The scheme in lower case; empty where there is none or the URL cannot be read."""
    found = read(url)
    return found.scheme.decode().removesuffix(":") if found else ""


def rewritten(url: str) -> str | None:
    """What Go makes of a URL that it reads and writes again; None where it cannot read it."""
    found = read(url)
    if found is None:
        return None
    fragment = b"#" + _escaped(found.fragment, _FRAGMENT) if found.fragment else b""
    path = found.path if found.is_opaque else _escaped(found.path, _PATH)
    beginning = found.scheme + found.authority
    # Read again, a relative path must not look as if it had a scheme.
    dot = b"./" if not beginning and b":" in path.partition(b"/")[0] else b""
    return (beginning + dot + path + found.query + fragment).decode("utf-8", "replace")


def read(url: str) -> Url | None:
    data, _, fragment = runes.encode(url).partition(b"#")
    if _CONTROL.search(data) or data.startswith(b":") or _BROKEN_ESCAPE.search(fragment):
        return None
    found = _SCHEME.match(data)
    scheme = found[0].lower() if found else b""
    rest, mark, query = data[len(scheme) :].partition(b"?")
    if not rest.startswith(b"/"):
        if scheme:
            return Url(scheme, b"", rest, mark + query, fragment, is_opaque=True)
        if b":" in rest.partition(b"/")[0]:
            return None
    authority: bytes | None = b""
    if rest.startswith(b"//") and (scheme or not rest.startswith(b"///")):
        inside, slash, path = rest[2:].partition(b"/")
        rest = slash + path
        authority = _authority(inside, strict=scheme in {b"http:", b"https:"})
        if authority is not None and (rest or authority):
            authority = b"//" + authority
    if authority is None or _BROKEN_ESCAPE.search(rest):
        return None
    return Url(scheme, authority, rest, mark + query, fragment, is_opaque=False)


def _escaped(text: bytes, kept: tuple[re.Pattern[bytes], bytes]) -> bytes:
    """The text as it is where it could have been written so, else escaped anew."""
    as_written, plain = kept
    return text if as_written.fullmatch(text) else _escape(_unescape(text), plain)


def _escape(text: bytes, plain: bytes) -> bytes:
    return quote_from_bytes(text, plain).encode()


def _unescape(text: bytes) -> bytes:
    return _ESCAPES.sub(lambda found: bytes.fromhex(found[0].replace(b"%", b"").decode()), text)


def _authority(authority: bytes, *, strict: bool) -> bytes | None:
    userinfo, at, host = authority.rpartition(b"@")
    if at and (not _USERINFO.fullmatch(userinfo) or _BROKEN_ESCAPE.search(userinfo)):
        return None
    user, colon, password = (
        _escape(_unescape(part), _PLAIN_IN_USERINFO) for part in userinfo.partition(b":")
    )
    written = user + (b":" if colon else b"") + password + at
    read = _bracketed(host) if b"[" in host else _host(host, strict=strict)
    return None if read is None else written + _escape(read, _PLAIN_IN_HOST)


def _host(host: bytes, *, strict: bool) -> bytes | None:
    # Lists of hosts with ports are known from databases, so only http and https insist on one colon.
    name, colon, port = host.partition(b":") if strict or b":" not in host else host.rpartition(b":")
    if not _PORT.fullmatch(colon + port) or not _HOST.fullmatch(name):
        return None
    return _unescape(host)


def _bracketed(host: bytes) -> bytes | None:
    address, bracket, port = host[1:].rpartition(b"]")
    if not host.startswith(b"[") or b"[" in address + port or not bracket or not _PORT.fullmatch(port):
        return None
    address, percent, zone = address.partition(b"%25")
    if not _HOST.fullmatch(address) or not _ZONE.fullmatch(zone):
        return None
    address = _unescape(address)
    if not all(_ESCAPED_IN_ZONE.match(_unescape(escape)) for escape in _ESCAPE.findall(zone)):
        return None
    if percent:
        zone = b"%" + _unescape(zone)
    try:
        ipaddress.IPv6Address((address + zone).decode())
    except ValueError:
        return None
    return b"[" + address + zone + b"]" + port
