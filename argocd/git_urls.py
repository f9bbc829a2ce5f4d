"""Repository URLs as Argo CD compares them.

Both sides of a comparison are normalised: lower case, no `.git`, `git@host:path` as `host/path`. A URL that
Go's net/url cannot read, `ssh://git@host:org/repo` for one, becomes empty, and so equals every other such URL.
"""

import ipaddress
import re
from functools import lru_cache

from argocd import runes

_PLAIN = re.compile(r"https?://[a-z0-9.-]+(?::[0-9]+)?(?:/[a-z0-9_.~/*-]*)?")
"""What most are, and what stays as it is when it is read and written again."""
_SSH = re.compile(r"(ssh://)?([^/:]*?)@[^@]+")
_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_SCHEME = re.compile(rb"([a-z][a-z0-9+.-]*):")
_ESCAPE = re.compile(rb"%[0-9a-fA-F]{2}")
_BROKEN_ESCAPE = re.compile(rb"%(?![0-9a-fA-F]{2})")
_PORT = re.compile(rb"(:[0-9]*)?")
_USERINFO = re.compile(rb"[A-Za-z0-9._:~!$&'()*+,;=%@-]*")

# What may stand for itself, as the inside of a character class.
_PLAIN_IN_PATH = rb"A-Za-z0-9_.~$&+,/:;=@\-"
_PLAIN_IN_FRAGMENT = rb"A-Za-z0-9_.~!$&()*+,/:;=?@\-"
_PLAIN_IN_HOST = rb"A-Za-z0-9_.~!\"$&'()*+,:;<=>\[\]\-"

_PATH = re.compile(rb"[!'()*\[\]%%%b]*" % _PLAIN_IN_PATH), re.compile(rb"[^%b]" % _PLAIN_IN_PATH)
_FRAGMENT = re.compile(rb"[!'()*\[\]%%%b]*" % _PLAIN_IN_FRAGMENT), re.compile(rb"[^%b]" % _PLAIN_IN_FRAGMENT)
_IN_USERINFO = re.compile(rb"[^A-Za-z0-9_.~$&+,;=-]")
_IN_HOST = re.compile(rb"[^%b]" % _PLAIN_IN_HOST)
# In a host an escape may only stand for a percent sign or a byte that is not ASCII; in a zone also for
# what needs none, and for a space.
_HOST = re.compile(rb"(?:[%b\x80-\xff]|%%(?:25|[89a-fA-F][0-9a-fA-F]))*" % _PLAIN_IN_HOST)
_ZONE = re.compile(rb"(?:[%b\x80-\xff]|%%[0-9a-fA-F]{2})*" % _PLAIN_IN_HOST)
_ESCAPED_IN_ZONE = re.compile(rb"[ %%%b]" % _PLAIN_IN_HOST)

_LONG = 2000
"""Characters; longer ones are not worth remembering."""


def normalize(url: str) -> str:
    return _remembered(url) if len(url) <= _LONG else _normalize(url)


def is_plain(url: str) -> bool:
    """Whether it is what most are: nothing changes when it is normalised, or its `.git` is lost."""
    return _PLAIN.fullmatch(url) is not None


def same(one: str, other: str) -> bool:
    """Whether both mean the same repository; two that nobody can read do not."""
    normalized = normalize(one)
    return bool(normalized) and normalized == normalize(other)


def _normalize(url: str) -> str:
    url = runes.lower(runes.trim(url))
    bare = url.removesuffix(".git")
    if is_plain(bare):
        return bare
    if _SSH.fullmatch(url) and not url.startswith("ssh://"):
        # A colon after the host would count as the beginning of a port.
        url = f"ssh://{url.replace(':', '/', 1)}"
    rewritten = _rewrite(runes.encode(url.removesuffix(".git")))
    return "" if rewritten is None else rewritten.decode("utf-8", "replace").removeprefix("ssh://")


_remembered = lru_cache(maxsize=4096)(_normalize)


def _rewrite(url: bytes) -> bytes | None:
    """What net/url makes of a URL that it reads and writes again; None where it cannot read it."""
    url, _, fragment = url.partition(b"#")
    if _CONTROL.search(url) or url.startswith(b":") or _BROKEN_ESCAPE.search(fragment):
        return None
    scheme = _SCHEME.match(url)
    beginning = scheme[0] if scheme else b""
    rest, mark, query = url[len(beginning) :].partition(b"?")
    ending = mark + query
    if fragment:
        ending += b"#" + _escaped(fragment, _FRAGMENT)
    if not rest.startswith(b"/"):
        if scheme:
            return beginning + rest + ending
        if b":" in rest.partition(b"/")[0]:
            return None
    authority: bytes | None = b""
    if rest.startswith(b"//") and (scheme or not rest.startswith(b"///")):
        inside, slash, path = rest[2:].partition(b"/")
        rest = slash + path
        authority = _authority(inside, strict=beginning in {b"http:", b"https:"})
        if rest or authority:
            beginning += b"//"
    if authority is None or _BROKEN_ESCAPE.search(rest):
        return None
    return _joined(beginning + authority, _escaped(rest, _PATH)) + ending


def _joined(beginning: bytes, path: bytes) -> bytes:
    # Read again, a relative path must not look as if it had a scheme.
    dot = b"./" if not beginning and b":" in path.partition(b"/")[0] else b""
    return beginning + dot + path


def _escaped(text: bytes, kept: tuple[re.Pattern[bytes], re.Pattern[bytes]]) -> bytes:
    """The text as it is where it could have been written so, else escaped anew."""
    as_written, to_escape = kept
    return text if as_written.fullmatch(text) else _escape(_unescape(text), to_escape)


def _escape(text: bytes, to_escape: re.Pattern[bytes]) -> bytes:
    return to_escape.sub(lambda found: b"%%%02X" % found[0][0], text)


def _unescape(text: bytes) -> bytes:
    return _ESCAPE.sub(lambda found: bytes.fromhex(found[0][1:].decode()), text)


def _authority(authority: bytes, *, strict: bool) -> bytes | None:
    userinfo, at, host = authority.rpartition(b"@")
    if at and (not _USERINFO.fullmatch(userinfo) or _BROKEN_ESCAPE.search(userinfo)):
        return None
    user, colon, password = (_escape(_unescape(part), _IN_USERINFO) for part in userinfo.partition(b":"))
    written = user + (b":" if colon else b"") + password + at
    read = _bracketed(host) if b"[" in host else _host(host, strict=strict)
    return None if read is None else written + _escape(read, _IN_HOST)


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
