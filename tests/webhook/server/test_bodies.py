"""Bodies under way: their bytes are bounded, and slow senders do not use up the room of others."""

import asyncio
import contextlib
from collections.abc import Callable

import pytest

from tests.webhook.conftest import Server, post, read_response, review
from tests.webhook.server.test_connections import mebibytes
from webhook.admission.review import BODY_LIMIT
from webhook.server.asgi import SKIMMED_LIMIT
from webhook.server.fairness import BODY_BYTES, BodiesFullError, Body, BodyBudget

StartServer = Callable[..., Server]

PARTLY = post("/validate", b" " * BODY_LIMIT)[: -(1 << 20)]
"""All but the last MiB of the largest body."""


def test_bodies_that_never_end_stay_within_the_budget_and_reviews_go_on(start_server: StartServer) -> None:
    server = start_server()
    known, worker = server.connect(), server.workers[0]
    before = mebibytes(worker)
    with contextlib.ExitStack() as stack:
        stack.enter_context(known)
        for number in range(60):
            stranger = stack.enter_context(server.connect(address=f"127.0.0.{2 + number % 20}"))
            with contextlib.suppress(OSError):  # one that is told to come again later is cut
                stranger.sendall(PARTLY)
            known.sendall(post("/validate", review()))
            assert read_response(known)[0] == 200
        assert mebibytes(worker) - before < BODY_BYTES / (1 << 20) * 3


def test_who_has_to_go_is_told_to_come_again(start_server: StartServer) -> None:
    server = start_server()
    with contextlib.ExitStack() as stack:
        strangers = [stack.enter_context(server.connect()) for _ in range(4)]
        for stranger in strangers:
            stranger.sendall(PARTLY)
        status, headers, _ = read_response(strangers[0])
        assert (status, headers["retry-after"], headers["connection"]) == (503, "1", "close")


def test_chunks_without_a_length_are_charged_as_they_come(start_server: StartServer) -> None:
    server = start_server()
    head = b"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
    with contextlib.ExitStack() as stack:
        strangers = [stack.enter_context(server.connect()) for _ in range(4)]
        for stranger in strangers:
            stranger.sendall(head)
            with contextlib.suppress(OSError):
                for _ in range(7):
                    stranger.sendall(chunk)
        assert read_response(strangers[0])[0] == 503


def test_a_body_above_the_limit_is_answered_from_its_beginning(start_server: StartServer) -> None:
    server = start_server()
    large = review(object={"data": {"a": "x" * BODY_LIMIT}})
    with server.connect(timeout=30) as connection:
        connection.sendall(post("/validate", large))
        status, _, body = read_response(connection)
        assert (status, b'"uid":"u1"' in body) == (200, True)
        connection.sendall(
            post("/validate", b" " * 10)[:-10].replace(b": 10", f": {SKIMMED_LIMIT + 1}".encode())
        )
        assert read_response(connection)[0] == 413


async def test_the_address_that_holds_most_gives_up_its_oldest() -> None:
    budget = BodyBudget(100)

    async def held(address: str, size: int) -> Body:
        body = budget.body(address)
        body.waiting = asyncio.timeout(None)
        await body.waiting.__aenter__()
        body.charge(size)
        return body

    few, first, second = await held("a", 30), await held("b", 30), await held("b", 30)
    newcomer = await held("c", 20)
    assert [body.evicted for body in (few, first, second, newcomer)] == [False, True, False, False]


async def test_a_body_alone_above_the_budget_is_refused_and_charged_to_nobody() -> None:
    budget = BodyBudget(100)
    with budget.body("a") as body, pytest.raises(BodiesFullError):
        body.charge(101)
    with budget.body("b") as body:
        body.charge(100)
