"""A principal on loopback for the tests of the wire.

`sidecars.wire` comes first: grpc reads its ciphers once, when it is first imported.
"""

import sidecars.wire  # noqa: F401  isort: skip

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.sidecars.wire.listening_principal import Principal, started

Start = Callable[..., Awaitable[Principal]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Starts a principal that ends with the test."""
    running: list[Principal] = []

    async def begin(**changes: Any) -> Principal:
        running.append(await started(**changes))
        return running[-1]

    yield begin
    for principal in running:
        await principal.server.stop(grace=0)


@pytest.fixture
async def principal(start: Start) -> Principal:
    return await start()
