"""The ASGI application on the review port: bounded reading, one call of the endpoint, one answer.

No framework is on this path: routing three constants and reading a body is all there is to do, and a framework
costs as much as judging. People and probes are served by the keeper process.
"""

import asyncio
import gc
import re
import ssl
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import orjson

from certs.key_pair import CertificateError, KeyPair
from certs.tls import FolderContext
from webhook.admission.review import (
    BODY_LIMIT,
    PREFIX_LIMIT,
    Review,
    ReviewAnswer,
    ReviewError,
    ReviewTooLargeError,
    decode,
    decode_prefix,
    encode,
)
from webhook.server.fairness import (
    UNCOUNTED_BYTES,
    BodiesFullError,
    Body,
    BodyBudget,
    Shares,
    Turns,
    WorkClock,
    address_of,
)

SKIMMED_LIMIT = 32 * (1 << 20)
"""A body above the limit is still answered, from its beginning, and the rest let go: escaped, an object of 3 MiB and
the one of 1.5 MiB that it replaces have up to 27."""

DEFAULT_BUDGET = 4.5
MARGIN = 0.9
"""The share of the caller's timeout after which we answer ourselves, so that the user gets a reason."""

_JSON = b"application/json"
_TIMEOUT = re.compile(rb"(?:^|&)timeout=(\d{1,4})s(?:&|$)")

_BODY_NOT_READ = frozenset({413, 503})
"""Nothing more can come on such a connection, and the caller had better know."""

_NO_HEADERS: tuple[tuple[bytes, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`decide` may answer at once or be awaited; `patches` is false for a validating endpoint."""

    decide: Callable[[Review], ReviewAnswer | Coroutine[Any, Any, ReviewAnswer]]
    patches: bool


class ReviewObserver(Protocol):
    """Counts what happened; given by the composition, so that this module knows no metric."""

    def answered(self, path: str, review: Review, answer: ReviewAnswer, seconds: float) -> None: ...

    def refused(self, path: str, status: int, reason: str) -> None: ...

    def certificate_loaded(self, pair: KeyPair) -> None: ...

    def certificate_refused(self, error: CertificateError) -> None: ...

    def crashed(self, path: str, error: Exception) -> None: ...


class Background(Protocol):
    """The caches behind the endpoints: started before the first review, watched while serving."""

    async def start(self) -> None: ...

    async def failed(self) -> None: ...

    async def stop(self) -> None: ...


class WorkerPhase(Enum):
    SERVING = "serving"
    DRAINING = "draining"
    REFUSING = "refusing"


class ReviewApp:
    def __init__(
        self,
        *,
        endpoints: Mapping[str, Endpoint],
        folder: Path,
        background: Background,
        observer: ReviewObserver,
        drain_seconds: float,
        client_ca: Path | None = None,
    ) -> None:
        self._make_tls = partial(FolderContext, folder, client_ca=client_ca)
        self._tls: FolderContext | None = None
        self._endpoints = endpoints
        self._background = background
        self._observer = observer
        self.drain_seconds = drain_seconds
        self.state = WorkerPhase.SERVING
        self._bodies = BodyBudget()
        self._turns = Turns()
        self._shares = Shares()
        self._work_clock = WorkClock()
        self._reloading: asyncio.Task[None] | None = None

    def context(self) -> ssl.SSLContext:
        self._tls = self._make_tls()
        return self._tls.context

    async def start(self) -> None:
        assert self._tls is not None
        await self._background.start()
        self._reloading = asyncio.create_task(
            self._tls.follow(
                loaded=self._observer.certificate_loaded, refused=self._observer.certificate_refused
            )
        )
        gc.callbacks.append(self._work_clock.collector)

    async def failed(self) -> None:
        assert self._reloading is not None
        background = asyncio.ensure_future(self._background.failed())
        try:
            done, _ = await asyncio.wait({background, self._reloading}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            background.cancel()
        for task in done:
            task.result()

    def drain(self) -> None:
        self.state = WorkerPhase.DRAINING

    def refuse(self) -> None:
        self.state = WorkerPhase.REFUSING

    async def stop(self) -> None:
        if self._reloading is not None:
            self._reloading.cancel()
            gc.callbacks.remove(self._work_clock.collector)
        await self._background.stop()

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        status, headers = 200, _NO_HEADERS
        try:
            body = await self._answer(scope, receive)
        except _RefusedError as error:
            path = scope["path"]
            self._observer.refused(path if path in self._endpoints else "other", error.status, error.reason)
            status, body, headers = error.status, orjson.dumps({"error": error.reason}), error.headers
        headers = ((b"content-type", _JSON), (b"content-length", b"%d" % len(body)), *headers)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Mapping[str, Any], receive: Any) -> bytes:
        begin, path = time.perf_counter(), scope["path"]
        endpoint = self._admitted(path, scope["method"])
        address = address_of(scope.get("client"))
        turns = self._turns
        with self._bodies.body(address) as body:
            try:
                declared = _declared(scope["headers"])
                whole, unread = await (
                    _read_small(receive, declared=declared)
                    if 0 < declared <= UNCOUNTED_BYTES
                    else _read_large(receive, body, declared=declared)
                )
                sent, given = turns.sent(address, len(whole)), False
                if turns.must_wait(sent):
                    async with _deadline(scope, begin) as body.waiting:
                        given = await turns.wait(sent)
                started = self._work_clock.begin()
                try:
                    review = decode_prefix(whole, unread=unread) if unread else decode(whole)
                    answer = endpoint.decide(review)
                finally:
                    seconds = self._work_clock.since(started)
                    turns.worked(sent, seconds, given=given, collected=self._work_clock.collected)
                if not isinstance(answer, ReviewAnswer):
                    # Closed where its turn has not come in time.
                    with closing(answer) as asking:
                        async with _deadline(scope, begin) as body.waiting, self._shares.share(address):
                            answer = await asking
                told = encode(review.uid, answer, patches=endpoint.patches)
            except ReviewError as error:
                raise _RefusedError(error.status, str(error)) from error
            except (BodiesFullError, TimeoutError) as error:
                if body.evicted or isinstance(error, BodiesFullError):
                    raise _RefusedError(503, "too many bytes under way", retry_after="1") from error
                raise _RefusedError(504, "no decision within the time that the API server allows") from error
            except Exception as error:
                # The failure policy decides; the process lives on.
                self._observer.crashed(path, error)
                raise _RefusedError(500, "internal error; see the webhook's log") from error
        self._observer.answered(path, review, answer, time.perf_counter() - begin)
        return told

    def _admitted(self, path: str, method: str) -> Endpoint:
        if self.state is WorkerPhase.REFUSING:
            raise _RefusedError(503, "this replica is stopping", retry_after="0")
        endpoint = self._endpoints.get(path)
        if endpoint is None:
            raise _RefusedError(404, "no such endpoint")
        if method != "POST":
            raise _RefusedError(405, "reviews are sent by POST")
        return endpoint


class _RefusedError(Exception):
    """On its way to become an HTTP error."""

    def __init__(self, status: int, reason: str, *, retry_after: str = "") -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = ((b"retry-after", retry_after.encode()),) if retry_after else _NO_HEADERS
        if status in _BODY_NOT_READ:
            self.headers = (*self.headers, (b"connection", b"close"))


def _declared(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """The bytes that a caller says it sends, and 0 where it does not say; refused where it sends something else."""
    sent = dict(headers)
    media = sent.get(b"content-type", b"")
    if media != _JSON and media.split(b";")[0].strip().lower() != _JSON:
        raise ReviewError("the content type must be application/json")
    length = sent.get(b"content-length", b"")
    return int(length) if length.isdigit() else 0


async def _read_small(receive: Any, *, declared: int) -> tuple[bytes, str]:
    """Nearly every body: it is not counted, so that nobody takes its place while it is waited for."""
    chunks, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ReviewError("the connection ended within the body")
        chunk = message.get("body", b"")
        chunks.append(chunk)
        size += len(chunk)
        if size > declared:
            raise ReviewTooLargeError(f"the body is larger than {declared} bytes")
        if not message.get("more_body"):
            return b"".join(chunks), ""


async def _read_large(receive: Any, body: Body, *, declared: int) -> tuple[bytes, str]:
    """The whole body, to be decoded when it is its turn; or its beginning, and why the rest is not read."""
    if declared > SKIMMED_LIMIT:
        raise ReviewTooLargeError(f"the body is larger than {SKIMMED_LIMIT} bytes")
    message = await receive()
    async with asyncio.timeout(None) as body.waiting:
        if declared > BODY_LIMIT:
            prefix = await _parts(message, receive, body, declared=declared, kept=PREFIX_LIMIT)
            return prefix, f"more than {BODY_LIMIT} bytes"
        return await _parts(message, receive, body, declared=declared, kept=BODY_LIMIT), ""


async def _parts(message: Mapping[str, Any], receive: Any, body: Body, *, declared: int, kept: int) -> bytes:
    """What was declared is charged at once, what was not as it comes."""
    body.charge(min(declared, kept))
    chunks, size = [], 0
    while True:
        if message["type"] != "http.request":
            raise ReviewError("the connection ended within the body")
        chunk = message.get("body", b"")
        if size < kept:
            chunks.append(chunk)
        size += len(chunk)
        if size > max(declared, kept):
            raise ReviewTooLargeError(f"the body is larger than {kept} bytes")
        if body.size < size <= kept:
            body.charge(size - body.size)
        if not message.get("more_body"):
            return b"".join(chunks)
        message = await receive()


def _deadline(scope: Mapping[str, Any], begin: float) -> asyncio.Timeout:
    """The API server says in the query how long it waits; without that we assume its shortest usual wait."""
    found = _TIMEOUT.search(scope.get("query_string", b""))
    budget = int(found[1]) * MARGIN if found and int(found[1]) else DEFAULT_BUDGET
    return asyncio.timeout(budget - (time.perf_counter() - begin))
