"""A review server with endpoints that only allow: what tests of the server itself run as a process.

Usage: plain_server.py FOLDER PORT [DRAIN_SECONDS [CONNECTIONS [WORKERS [CLIENT_CA]]]]
"""

import asyncio
import os
import sys
from pathlib import Path

from certs.key_pair import CertificateError, KeyPair
from webhook.admission.review import Review, ReviewAnswer
from webhook.server.arbiters import ReviewArbiter, ReviewPort
from webhook.server.asgi import Endpoint, ReviewApp

HANGING = "hanging"


class Silent:
    """Neither counts nor caches."""

    def answered(self, path: str, review: Review, answer: ReviewAnswer, seconds: float) -> None: ...
    def refused(self, path: str, status: int, reason: str) -> None: ...
    def certificate_loaded(self, pair: KeyPair) -> None: ...
    def certificate_refused(self, error: CertificateError) -> None: ...
    def crashed(self, path: str, error: Exception) -> None: ...
    async def start(self) -> None: ...
    async def stop(self) -> None: ...

    async def failed(self) -> None:
        await asyncio.Event().wait()


async def wait_for_ever(review: Review) -> ReviewAnswer:
    await asyncio.Event().wait()
    return ReviewAnswer()


def crash(review: Review) -> ReviewAnswer:
    raise RuntimeError(review.name)


def hang(folder: Path) -> ReviewAnswer:
    """Says which worker does."""
    (folder / HANGING).write_text(f"{os.getpid()}\n")
    while True:
        pass


async def build(folder: Path, drain_seconds: float, client_ca: Path | None = None) -> ReviewApp:
    return ReviewApp(
        endpoints={
            "/validate": Endpoint(lambda _: ReviewAnswer(), patches=False),
            "/wait": Endpoint(wait_for_ever, patches=False),
            "/crash": Endpoint(crash, patches=False),
            "/hang": Endpoint(lambda _: hang(folder), patches=False),
        },
        folder=folder,
        background=Silent(),
        observer=Silent(),
        drain_seconds=drain_seconds,
        client_ca=client_ca,
    )


if __name__ == "__main__":
    folder, port, *rest = sys.argv[1:]
    drain = float(rest[0]) if rest else 0.5
    client_ca = Path(rest[3]) if rest[3:] else None
    review_port = ReviewPort(
        host="127.0.0.1",
        port=int(port),
        drain_seconds=drain,
        connections=int(rest[1]) if rest[1:] else 1024,
        workers=int(rest[2]) if rest[2:] else 1,
    )
    ReviewArbiter(lambda: build(Path(folder), drain, client_ca), review_port).run()
