"""Decisions that an API server is asked about: each address has some at a time."""

import asyncio
import gc
import warnings
from pathlib import Path
from typing import Any

from tests.webhook.conftest import review
from tests.webhook.plain_server import Silent
from webhook.admission.review import Review, ReviewAnswer
from webhook.server.asgi import Endpoint, ReviewApp
from webhook.server.fairness import ASKING, Shares

BODY = review()


class ApiServer:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked = 0
        self.answering = asyncio.Event()

    async def ask(self, _: Review) -> ReviewAnswer:
        self.asked += 1
        await self.answering.wait()
        return ReviewAnswer()


def app(api_server: ApiServer) -> ReviewApp:
    return ReviewApp(
        endpoints={"/validate": Endpoint(api_server.ask, patches=False)},
        folder=Path(),
        background=Silent(),
        observer=Silent(),
        drain_seconds=0.0,
    )


async def status(app: ReviewApp, address: str, *, seconds: int = 10) -> int:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": BODY}

    told: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        told.append(message)

    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(BODY))]
    scope = {
        "type": "http",
        "path": "/validate",
        "method": "POST",
        "headers": headers,
        "query_string": b"timeout=%ds" % seconds,
        "client": (address, 1),
    }
    await app(scope, receive, send)
    found: int = told[0]["status"]
    return found


async def test_a_crowd_of_one_address_does_not_have_all_calls_to_the_api_server() -> None:
    api_server = ApiServer()
    asked = app(api_server)
    crowd = [asyncio.create_task(status(asked, "10.0.0.2")) for _ in range(3 * ASKING)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert api_server.asked == ASKING
    other = asyncio.create_task(status(asked, "10.0.0.1"))
    for _ in range(10):
        await asyncio.sleep(0)
    assert api_server.asked == ASKING + 1
    api_server.answering.set()
    async with asyncio.timeout(10):
        assert await other == 200
        assert set(await asyncio.gather(*crowd)) == {200}
    assert api_server.asked == 3 * ASKING + 1


async def test_who_waits_for_a_turn_that_does_not_come_is_told_so_in_time() -> None:
    api_server = ApiServer()
    asked = app(api_server)
    crowd = [asyncio.create_task(status(asked, "10.0.0.2")) for _ in range(ASKING)]
    await asyncio.sleep(0)
    gc.collect()  # what other tests have left behind may warn as well
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")  # such as of what was never awaited
        async with asyncio.timeout(10):
            assert await status(asked, "10.0.0.2", seconds=1) == 504
        gc.collect()
    assert not warned
    assert api_server.asked == ASKING
    api_server.answering.set()
    async with asyncio.timeout(10):
        assert set(await asyncio.gather(*crowd)) == {200}


async def test_addresses_that_have_gone_are_forgotten() -> None:
    shares = Shares(1)
    for number in range(10):
        async with shares.share(f"10.0.0.{number}"):
            pass
    assert not shares._places
    assert not shares._under_way
