"""Strangers on other addresses of this machine, who do at once whatever has once stopped the webhook.

`python -m tests.webhook.server.strangers REVIEWS PROBES PAGES` writes a line when all is under way, goes on until its
standard input ends, and then writes what they did as JSON. A process of its own: what it needs of the processor and of memory is not the webhook's.
"""

import asyncio
import contextlib
import itertools
import json
import resource
import ssl
import sys
from collections import Counter
from collections.abc import Awaitable, Callable

from tests.webhook.conftest import post, review

ADDRESSES = [f"127.0.0.{number}" for number in range(2, 10)]
PAUSE_SECONDS = 0.2
HELD_SECONDS = 5.0
ANSWER_SECONDS = 10.0
HALF_A_REQUEST = b"GET / HTTP/1.1\r\nX: "

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def project(**spec: object) -> dict[str, object]:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": "stranger", "namespace": "argocd"},
        "spec": spec,
    }


def pattern(levels: int = 40) -> str:
    return "{a," * levels + "b" + "}" * levels


NESTED = post("/validate", review(object=project(destinations=[{"server": pattern(), "namespace": "x"}])))
ENTRIES = [
    {"server": f"https://{n}", "namespace": f"n{n}", "defaultServiceAccount": "a"} for n in range(2000)
]
MANY = post("/validate", review(object=project(destinationServiceAccounts=ENTRIES)))
LARGE = post("/validate", b" " * 7_000_000)[:-1_000_000]
EMPTY = post("/validate", review(object={"spec": [{}] * 95_000}))
KIND = post("/validate", review(kind={"group": "x", "version": "v1", "kind": "K" * 5_000_000}))
SMALL = post("/validate", review())
YAML = "[&a [" + "x," * 440 + "x]," + "*a," * 440 + "*a]"
GENERATED = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "ApplicationSet",
    "metadata": {"name": "stranger", "namespace": "argocd"},
    "spec": {"generators": [{"list": {"elementsYaml": YAML}}] * 200},
}
YAML_INSIDE = post(
    "/validate",
    review(object=GENERATED, kind={"group": "argoproj.io", "version": "v1alpha1", "kind": "ApplicationSet"}),
)


def much_to_tell(number: int) -> bytes:
    """Small, with thousands of mistakes in it, and never the same twice."""
    windows: list[dict[str, str]] = [{}] * 5000 + [{"kind": f"{number}"}]
    return post("/validate", review(object=project(syncWindows=windows)))


class Crowd:
    def __init__(self, *, reviews: int, probes: int, pages: int) -> None:
        self.done: Counter[str] = Counter()
        self.under_way = asyncio.Event()
        self._reviews, self._plain = reviews, (probes, pages)
        self._numbers = itertools.count()
        self._context = ssl.create_default_context()
        self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE

    async def run(self) -> None:
        deeds: dict[str, Callable[[str], Awaitable[None]]] = {
            "half a request": self._half_a_request,
            "part of a body": self._part_of_a_body,
            "a long kind": lambda address: self._answered(address, KIND),
            "many empty objects": lambda address: self._answered(address, EMPTY),
            "one review, then silence": self._one_review,
            "no handshake": self._silence,
            "a nested pattern": lambda address: self._answered(address, NESTED),
            "many entries": lambda address: self._answered(address, MANY),
            "YAML inside of an object": lambda address: self._answered(address, YAML_INSIDE),
            "much to tell": lambda address: self._answered(address, much_to_tell(next(self._numbers))),
        }
        self._deeds = len(deeds)
        async with asyncio.TaskGroup() as group:
            for address in ADDRESSES:
                for name, deed in deeds.items():
                    group.create_task(self._again_and_again(name, deed, address))

    async def _again_and_again(self, name: str, deed: Callable[[str], Awaitable[None]], address: str) -> None:
        while True:
            with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                async with asyncio.timeout(ANSWER_SECONDS):
                    await deed(address)
            self.done[name] += 1
            if len(self.done) == self._deeds:
                self.under_way.set()
            await asyncio.sleep(PAUSE_SECONDS)

    @contextlib.asynccontextmanager
    async def _connected(self, address: str, port: int, *, plain: bool = False):  # type: ignore[no-untyped-def]  # noqa: ANN202 - a pair of streams
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=None if plain else self._context, local_addr=(address, 0)
        )
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    async def _half_a_request(self, address: str) -> None:
        async with contextlib.AsyncExitStack() as stack:
            for port in self._plain:
                _, writer = await stack.enter_async_context(self._connected(address, port, plain=True))
                writer.write(HALF_A_REQUEST)
            await asyncio.sleep(HELD_SECONDS)

    async def _part_of_a_body(self, address: str) -> None:
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(4):  # all together four times the budget of both workers
                _, writer = await stack.enter_async_context(self._connected(address, self._reviews))
                writer.write(LARGE)
                await writer.drain()
            await asyncio.sleep(HELD_SECONDS)

    async def _answered(self, address: str, request: bytes) -> None:
        async with self._connected(address, self._reviews) as (reader, writer):
            writer.write(request)
            await reader.readline()

    async def _one_review(self, address: str) -> None:
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(60):  # with the silent ones more than both workers take
                reader, writer = await stack.enter_async_context(self._connected(address, self._reviews))
                writer.write(SMALL)
                await reader.readline()
            await asyncio.sleep(HELD_SECONDS)

    async def _silence(self, address: str) -> None:
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(100):
                await stack.enter_async_context(self._connected(address, self._reviews, plain=True))
            await asyncio.sleep(HELD_SECONDS)


async def main(reviews: int, probes: int, pages: int) -> None:
    crowd = Crowd(reviews=reviews, probes=probes, pages=pages)
    running = asyncio.create_task(crowd.run())
    await crowd.under_way.wait()
    sys.stdout.write("under way\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    sys.stdout.write(json.dumps(crowd.done))


if __name__ == "__main__":
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, most), most))
    asyncio.run(main(*map(int, sys.argv[1:])))
