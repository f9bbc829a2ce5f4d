"""SPDY/3.1 as far as an API server needs it for exec: streams that the client opens, each with a header that names it.

https://www.chromium.org/spdy/spdy-protocol/spdy-protocol-draft3-1/
"""

import asyncio
import struct
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from aiohttp import web

PROTOCOL = "SPDY/3.1"
V4 = "v4.channel.k8s.io"

_CHANNELS = {"stdin": 0, "stdout": 1, "stderr": 2, "error": 3, "resize": 4}
_STDIN, _OUTCOME = 0, 3
_SYN_STREAM, _SYN_REPLY, _PING, _GOAWAY = 1, 2, 6, 7
_FIN = 1
# What headers are compressed with, by the protocol's own page.
_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow"
    " authorization cache-control connection content-base content-encoding content-language content-length"
    " content-location content-md5 content-range content-type date etag expect expires from host if-match"
    " if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma"
    " proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade"
    " user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie"
    " keep-alive origin"
)
_REST = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 Non-Authoritative"
    " Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not Found500"
    " Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec"
    " 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,"
    "application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8"
    "charset=iso-8859-1,utf-,*,enq=0."
)
_DICTIONARY = (
    b"".join(struct.pack(">I", len(word)) + word.replace("_", " ").encode() for word in _WORDS.split())
    + _REST.encode()
)


@dataclass(frozen=True)
class ChannelMessage:
    """As of a WebSocket: the first byte of `data` says what it is."""

    data: bytes


class SpdyExec:
    """The API server's end of one command, read and written like the WebSocket of one."""

    ws_protocol = PROTOCOL

    def __init__(self, *, streams: int) -> None:
        self._wanted = streams
        self._buffer = b""
        self._inflate = zlib.decompressobj(zdict=_DICTIONARY)
        self._deflate = zlib.compressobj(zdict=_DICTIONARY)
        self._streams: dict[int, int] = {}
        self._messages: asyncio.Queue[ChannelMessage | None] = asyncio.Queue()
        self._complete = asyncio.Event()
        self._transport: Any = None

    async def prepare(self, request: web.Request) -> web.StreamResponse:
        headers = {"Connection": "Upgrade", "Upgrade": PROTOCOL, "X-Stream-Protocol-Version": V4}
        response = web.StreamResponse(status=101, headers=headers)
        request.protocol.set_parser(self)  # type: ignore[arg-type]  # whatever takes data
        self._transport = request.transport
        await response.prepare(request)
        async with asyncio.timeout(30):
            await self._complete.wait()
        return response

    def __aiter__(self) -> AsyncIterator[ChannelMessage]:
        return self._received()

    async def _received(self) -> AsyncIterator[ChannelMessage]:
        while (message := await self._messages.get()) is not None:
            yield message

    async def send_bytes(self, data: bytes) -> None:
        self._send_data(data[0], data[1:])

    async def close(self) -> None:
        for channel in (1, 2, _OUTCOME):
            self._send_data(channel, b"", flags=_FIN)
        self._send_control(_GOAWAY, struct.pack(">II", max(self._streams), 0))
        self._transport.close()

    # What aiohttp's protocol calls with whatever comes after the upgrade.

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self._buffer += data
        while len(self._buffer) >= 8:
            head, size = struct.unpack(">II", self._buffer[:8])
            flags, length = size >> 24, size & 0xFFFFFF
            if len(self._buffer) < 8 + length:
                break
            body, self._buffer = self._buffer[8 : 8 + length], self._buffer[8 + length :]
            self._take(head, flags, body)
        return False, b""

    def feed_eof(self) -> None:
        self._messages.put_nowait(None)

    def _take(self, head: int, flags: int, body: bytes) -> None:
        if head >> 31 == 0:
            channel = self._streams[head]
            if body:
                self._messages.put_nowait(ChannelMessage(bytes((channel,)) + body))
            if flags & _FIN and channel == _STDIN:
                self._messages.put_nowait(ChannelMessage(b"\xff\x00"))
            return
        kind = head & 0xFFFF
        if kind == _SYN_STREAM:
            number = struct.unpack(">I", body[:4])[0]
            self._streams[number] = _CHANNELS[self._headers(body[10:])["streamtype"]]
            block = self._deflate.compress(struct.pack(">I", 0)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
            self._send_control(_SYN_REPLY, struct.pack(">I", number) + block)
            if len(self._streams) == self._wanted:
                self._complete.set()
        elif kind == _PING:
            self._send_control(_PING, body)

    def _headers(self, block: bytes) -> dict[str, str]:
        raw = self._inflate.decompress(block)
        words, at = [], 4
        while at < len(raw):
            size = struct.unpack(">I", raw[at : at + 4])[0]
            words.append(raw[at + 4 : at + 4 + size].decode())
            at += 4 + size
        return dict(zip(words[::2], words[1::2], strict=True))

    def _send_control(self, kind: int, body: bytes) -> None:
        self._transport.write(struct.pack(">HHI", 0x8003, kind, len(body)) + body)

    def _send_data(self, channel: int, data: bytes, *, flags: int = 0) -> None:
        for number, own in self._streams.items():
            if own == channel:
                self._transport.write(struct.pack(">II", number, flags << 24 | len(data)) + data)
