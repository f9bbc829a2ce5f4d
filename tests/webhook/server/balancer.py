"""A Service in miniature: new connections go to replicas that say they are ready, open ones stay where they are."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Self

from tests.webhook.webhook_process import Guard


class Balancer:
    """`async with Balancer(...) as balancer` listens on `balancer.port` until the block ends."""

    def __init__(self, replicas: Callable[[], Sequence[Guard]], *, port: int) -> None:
        self._replicas = replicas
        self.port = port
        self._ready: list[int] = []
        self._some_ready = asyncio.Event()
        self._turn = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self._probing = asyncio.create_task(self._probe())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._probing.cancel()
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(self._probing, *self._tasks, return_exceptions=True)

    async def _probe(self) -> None:
        while True:
            ready = []
            for replica in self._replicas():
                with contextlib.suppress(OSError):
                    code, _ = await asyncio.to_thread(replica.page, "/readyz")
                    if code == 200:
                        ready.append(replica.port)
            self._ready = ready
            (self._some_ready.set if ready else self._some_ready.clear)()
            await asyncio.sleep(0.1)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await self._some_ready.wait()
            self._turn += 1
            there = await asyncio.open_connection("127.0.0.1", self._ready[self._turn % len(self._ready)])
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, there[1]))
                group.create_task(_pump(there[0], writer))
        except* OSError:
            pass
        finally:
            writer.close()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(65536):
        sink.write(data)
        await sink.drain()
    sink.close()
