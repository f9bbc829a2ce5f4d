"""Lines of a watch become events."""

from collections.abc import AsyncGenerator

import aiohttp

from kube.encoding import decode
from kube.errors import UnavailableError
from kube.live.answers import error_of_status
from kube.store import Resource, WatchEvent, WatchEventKind

# etcd takes no object above 1.5 MiB; a line that is longer than this is no event.
_LONGEST_LINE = 64 * 1024 * 1024
_INTERNAL_ERROR = 500


async def events_of(
    content: aiohttp.StreamReader, resource: Resource, *, what: str
) -> AsyncGenerator[WatchEvent, None]:
    """Splits chunks rather than asking the reader for lines: a burst comes as one chunk of many events."""
    pending = b""
    async for chunk in content.iter_any():
        *lines, rest = chunk.split(b"\n")
        if lines:
            lines[0] = pending + lines[0]
            pending = rest
        else:
            pending += rest
        if len(pending) > _LONGEST_LINE:
            raise UnavailableError(f"{what}: an event of more than {_LONGEST_LINE} bytes")
        for line in lines:
            if line:
                yield _event(line, resource, what=what)
    # What has no newline is half an event: the connection ended in it.


def _event(line: bytes, resource: Resource, *, what: str) -> WatchEvent:
    try:
        content = decode(line)
        kind, body = content["type"], content["object"]
        if kind == "ERROR":
            raise error_of_status(body, code=int(body.get("code", _INTERNAL_ERROR)), what=what)
        body.setdefault("apiVersion", resource.api_version)
        body.setdefault("kind", resource.kind)
        return WatchEvent(WatchEventKind(kind), body)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnavailableError(f"{what}: a line that is no event") from error
