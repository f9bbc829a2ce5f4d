"""HTTP/1.1 in a few lines, for one request on one connection: the demonstration's server and its caller.

On a cluster gunicorn serves the same application, with bounds that a demonstration on loopback does not need.
"""

import asyncio
import socket
import ssl
from collections.abc import Mapping
from typing import Any

from webhook.admission.review import BODY_LIMIT
from webhook.server.asgi import ReviewApp

EXCHANGE_SECONDS = 10.0
HEAD_LIMIT = 64 * 1024


async def serve(
    application: ReviewApp, *, listener: socket.socket, context: ssl.SSLContext
) -> asyncio.Server:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(EXCHANGE_SECONDS):
                await _answer(application, reader, writer)
                await writer.drain()
        except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return  # the keeper's probe hangs up after the handshake
        finally:
            writer.close()

    return await asyncio.start_server(answer, sock=listener, ssl=context, limit=HEAD_LIMIT)


async def _answer(application: ReviewApp, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ")
    headers = [
        (key.strip().lower().encode(), part.strip().encode())
        for key, _, part in (line.partition(":") for line in head[1:] if line)
    ]
    length = min(int(dict(headers).get(b"content-length", b"0")), BODY_LIMIT)
    body = await reader.readexactly(length)
    path, _, query = target.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": headers,
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            lines = [f"HTTP/1.1 {message['status']} -".encode(), b"connection: close"]
            lines += [key + b": " + part for key, part in message["headers"]]
            writer.write(b"\r\n".join(lines) + b"\r\n\r\n")
        else:
            writer.write(message["body"])

    await application(scope, receive, send)


async def post(port: int, target: str, body: bytes, *, context: ssl.SSLContext) -> tuple[int, bytes]:
    """Status and body of the answer."""
    async with asyncio.timeout(EXCHANGE_SECONDS):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname="localhost"
        )
        try:
            head = (
                f"POST {target} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            writer.write(head.encode() + body)
            await writer.drain()
            answer = await reader.read()
        finally:
            writer.close()
    first, _, rest = answer.partition(b"\r\n\r\n")
    return int(first.split(b" ", maxsplit=2)[1]), rest
