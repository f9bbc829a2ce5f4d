"""Waiting for the first of several, at a price that thousands of streams can pay."""

import asyncio
from typing import Any


def first_of(*futures: "asyncio.Future[Any]") -> "asyncio.Future[None]":
    """Done when one of them is. `asyncio.wait` would keep two frames, sets and closures for as long."""
    over = asyncio.get_running_loop().create_future()

    def note(_: "asyncio.Future[Any]") -> None:
        if not over.done():
            over.set_result(None)

    for future in futures:
        future.add_done_callback(note)
    return over
