"""Kubernetes' remote command protocol over WebSockets: the first byte of a message says what it is.

v4.channel.k8s.io   0 stdin, 1 stdout, 2 stderr, 3 the outcome as a Status, 4 the terminal's size
v5.channel.k8s.io   and 255 followed by a channel: that one is closed
"""

from typing import Any

import orjson

from argocd.reading import value

V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
PROTOCOLS = (V5, V4)
STDIN, STDOUT, STDERR, OUTCOME, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
# Larger than a kubelet's or client-go's frames; what is larger ends the connection.
MAX_FRAME = 1 << 20
MAX_SIZE = 0xFFFF
"""Of a terminal, in characters: a pty has 16 bits."""

_NAMES = {STDOUT: "stdout", STDERR: "stderr", OUTCOME: "error"}
_CHANNELS = {name: channel for channel, name in _NAMES.items()}

SUCCESS = orjson.dumps({"metadata": {}, "status": "Success"})


def stream_type(channel: int) -> str:
    """As argocd-agent calls it; empty for what no container says."""
    return _NAMES.get(channel, "")


def channel_of(stream_type: str) -> int:
    return _CHANNELS.get(stream_type, STDOUT)


def failure(message: str, *, code: int = 500) -> bytes:
    """An outcome that clients show."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": "InternalError",
        "code": code,
    }
    return orjson.dumps(status)


def parse_size(data: bytes) -> tuple[int, int] | None:
    """Columns and rows; None for what is no size."""
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    columns, rows = _number(found, "Width"), _number(found, "Height")
    return (columns, rows) if columns or rows else None


def size(columns: int, rows: int) -> bytes:
    return orjson.dumps({"Width": min(columns, MAX_SIZE), "Height": min(rows, MAX_SIZE)})


def _number(source: Any, key: str) -> int:
    found = value(source, key)
    return found if type(found) is int and 0 <= found <= MAX_SIZE else 0
