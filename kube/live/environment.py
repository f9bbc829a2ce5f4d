"""Which proxy the environment names for an API server."""

import ipaddress
import os
import urllib.request
from contextlib import suppress
from urllib.parse import urlsplit


def proxy_of_environment(url: str) -> str | None:
    """Found once: aiohttp would look for it, in a thread, on every request.

    By HTTPS_PROXY, HTTP_PROXY and NO_PROXY as kubectl reads them: networks count, loopback is never sent out.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host == "localhost" or _is_excepted(host) or urllib.request.proxy_bypass(host):
        return None
    return urllib.request.getproxies_environment().get(parts.scheme)


def _is_excepted(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    if address.is_loopback:
        return True
    for entry in (os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or "").split(","):
        with suppress(ValueError):
            if address in ipaddress.ip_network(entry.strip(), strict=False):
                return True
    return False
