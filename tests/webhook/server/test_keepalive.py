"""How long an idle connection is kept, by a clock that the test moves."""

import asyncio
import os
import ssl
from pathlib import Path

import pytest
from gunicorn.config import Config
from gunicorn.glogging import Logger

from tests.webhook.conftest import post, publish_leaf, review
from tests.webhook.plain_server import build
from webhook.server.worker import KEEPALIVE_SECONDS, ReviewWorker, Secured


async def test_a_connection_is_kept_while_it_is_used_and_closed_once_it_has_been_idle_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, passed = asyncio.get_running_loop(), 0.0
    clock = loop.time
    monkeypatch.setattr(loop, "time", lambda: clock() + passed)
    authority = publish_leaf(tmp_path)
    configuration = Config()
    configuration.set("keepalive", KEEPALIVE_SECONDS)
    worker = ReviewWorker(0, os.getppid(), [], None, 30, configuration, Logger(configuration))
    worker.loop, worker.asgi = loop, await build(tmp_path, 0)
    context = worker.asgi.context()
    server = await loop.create_server(lambda: Secured(worker, context), "127.0.0.1", 0)
    trusting = ssl.create_default_context(cadata=authority.pair.certificate.decode())
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), ssl=trusting)
    async with asyncio.timeout(10_000):
        for _ in range(3):
            writer.write(post("/validate", review()))
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            assert b'"allowed":true' in await reader.readuntil(b"}}")
            passed += KEEPALIVE_SECONDS - 1
        passed += 2
        assert await reader.read() == b""
    writer.close()
    server.close()
