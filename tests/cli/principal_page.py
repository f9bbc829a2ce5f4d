"""The page on which a principal tells of its agents, for commands that ask it."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sidecars.principal import agent_status
from tiphys.http_server import HttpPage, HttpPages


@contextmanager
def a_principals_page(body: dict[str, Any]) -> Iterator[str]:
    """On a thread: commands bring their own event loop."""
    page = HttpPage(json.dumps(body).encode(), content_type="application/json")
    pages = HttpPages({agent_status.PATH: lambda: page}, host="127.0.0.1", port=0)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def ask(question: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(question, loop).result(timeout=10)

    async def start() -> asyncio.Task[None]:
        task = asyncio.create_task(pages.run())
        await pages.listening.wait()
        return task

    async def stop(task: asyncio.Task[None]) -> None:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    try:
        serving = ask(start())
        yield f"http://127.0.0.1:{pages.port}"
        ask(stop(serving))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=10)
        loop.close()
