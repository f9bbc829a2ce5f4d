"""URLs as Go's net/url reads them, as far as their scheme and a cluster's query need it.

Python's urllib accepts nearly anything; Go refuses what it cannot read, and argocd-agent then ignores the
destination. Bytes matter: Go looks at UTF-8.
"""

import ipaddress
import re

_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_SCHEME = re.compile(rb"([a-zA-Z][a-zA-Z0-9+.-]*):")
_BROKEN_ESCAPE = re.compile(rb"%(?![0-9a-fA-F]{2})")
_USERINFO = re.compile(rb"[A-Za-z0-9._:~!$&'()*+,;=%@-]*")
_HOST = re.compile(rb"[A-Za-z0-9._~!$&'()*+,;=:\]<>\"\x80-\xff-]*")
_PORT = re.compile(rb":[0-9]*|")
# In a host an escape may only stand for a percent sign or a byte that is not ASCII.
_HOST_ESCAPE = re.compile(rb"%(?:25|[89a-fA-F][0-9a-fA-F])")
_ESCAPE = re.compile(rb"%([0-9a-fA-F]{2})")


def query_parameter(url: str, name: str) -> str:
    """The first value of a query parameter; empty where there is none or the URL cannot be parsed."""
    query = _query(url.encode("utf-8", "surrogatepass"))
    if query is None:
        return ""
    for part in query.split(b"&"):
        # A semicolon used to separate parameters too; since Go 1.17 such a part is dropped.
        if b";" in part or _BROKEN_ESCAPE.search(part):
            continue
        key, _, value = part.partition(b"=")
        if key and _unescaped(key) == name.encode():
            return _unescaped(value).decode("utf-8", "replace")
    return ""


def scheme(url: str) -> str:
    """The scheme in lower case; empty where there is none or the URL cannot be parsed."""
    data = url.encode("utf-8", "surrogatepass")
    found = _SCHEME.match(data)
    return found[1].decode().lower() if found and _query(data) is not None else ""


def _unescaped(text: bytes) -> bytes:
    return _ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()), text.replace(b"+", b" "))


def _query(url: bytes) -> bytes | None:
    """The raw query, or None where Go would not parse the URL."""
    if _CONTROL.search(url):
        return None
    url, _, fragment = url.partition(b"#")
    if _BROKEN_ESCAPE.search(fragment) or url.startswith(b":"):
        return None
    scheme = _SCHEME.match(url)
    rest, _, query = (url[scheme.end() :] if scheme else url).partition(b"?")
    if not rest.startswith(b"/"):
        if scheme:
            return query  # opaque, as mailto:someone: not looked into
        if b":" in rest.partition(b"/")[0]:
            return None
    authority, path = b"", rest
    if rest.startswith(b"//") and (scheme or not rest.startswith(b"///")):
        authority, slash, path = rest[2:].partition(b"/")
        path = slash + path
    strict = scheme is not None and scheme[1].lower() in {b"http", b"https"}
    if _BROKEN_ESCAPE.search(path) or not _authority_is_valid(authority, strict=strict):
        return None
    return query


def _authority_is_valid(authority: bytes, *, strict: bool) -> bool:
    userinfo, at, host = authority.rpartition(b"@")
    if at and (not _USERINFO.fullmatch(userinfo) or _BROKEN_ESCAPE.search(userinfo)):
        return False
    if host.startswith(b"["):
        address, bracket, port = host[1:].rpartition(b"]")
        return bool(bracket) and bool(_PORT.fullmatch(port)) and _is_ipv6(address)
    # Databases list hosts with ports, so other schemes may have colons before the last.
    name, colon, port = host.partition(b":") if strict or b":" not in host else host.rpartition(b":")
    return bool(_PORT.fullmatch(colon + port)) and bool(_HOST.fullmatch(_HOST_ESCAPE.sub(b"", name)))


def _is_ipv6(address: bytes) -> bool:
    address, percent, zone = address.partition(b"%25")
    # A space may only come escaped, and nothing that an escape hides is more than a host may be.
    if (percent and not zone) or b" " in zone or _BROKEN_ESCAPE.search(zone):
        return False
    zone = _ESCAPE.sub(
        lambda found: bytes.fromhex(found[1].decode()).replace(b" ", b""), zone.replace(b"%25", b"")
    )
    if not _HOST.fullmatch(zone):
        return False
    try:
        ipaddress.IPv6Address(address.decode("ascii"))
    except ValueError:
        return False
    return b"%" not in address
