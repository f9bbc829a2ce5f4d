"""CloudEvents through both ends: whatever a peer sends is dealt with in time, and the next event is acknowledged."""

import sidecars.wire  # noqa: F401  isort: skip - grpc reads its ciphers when it is first imported

import asyncio
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import orjson

from argocd import names
from argocd.agents.vocabulary import PREFIX, Message, Mode, Target
from kube.embedded import EmbeddedStore
from kube.store import Object
from sidecars.delivery.comparison import COMPARE, COMPARED, COMPARISON_WANTED, TARGET
from sidecars.wire.envelopes import decode_all, encode, encode_batch
from sidecars.wire.events import Event, heartbeat
from sidecars.wire.streams import EventStream
from tests.fuzz.target import Target as FuzzTarget
from tests.sidecars.pair_in_memory import ARGOCD, OURS, Hub, application, project, running_agent
from tiphys import logs, metrics

AGENT = "agent-a"
# A world is left for a new one after so many inputs: what they made stays in its store.
RENEWED = 200
PATIENCE = 20.0

TYPES = (*Message, PREFIX + "dance", "GET", "", COMPARE, COMPARED, COMPARISON_WANTED)
TARGETS = (*Target, TARGET, "", "unheard-of")
KEYS = (
    "metadata", "name", "namespace", "uid", "labels", "annotations", "finalizers", "spec", "status", "operation",
    "destination", "sourceNamespaces", "kind", "checksum", "scope", "round", "number", "marks", "ranges", "items",
    names.SOURCE_UID, names.SECRET_TYPE, "data", "resourceVersion",
)  # fmt: skip
WORDS = (
    "", "web", "shop", "default", AGENT, "specs", "status", "../x", "A_B", "x" * 300, "*", "\u202e", "AAAA", "repository",
    "Application", "AppProject", "Repository", "GPGKey", "2026-01-01T00:00:00Z", "-1",
)  # fmt: skip


def make(chance: random.Random) -> bytes:
    """Something like a message: an event with a broken payload, a batch of them, bytes with holes, or noise."""
    shape = chance.random()
    if shape < 0.05:
        return chance.randbytes(chance.randrange(200))
    if shape < 0.2:
        return encode_batch(_event(chance) for _ in range(chance.randrange(1, 8)))
    raw = bytearray(encode(_event(chance)))
    if shape < 0.5:
        for _ in range(chance.randrange(1, 8)):
            raw[chance.randrange(len(raw))] = chance.randrange(256)
    return bytes(raw)


def _event(chance: random.Random) -> Event:
    return Event(
        type=str(chance.choice(TYPES)),
        target=str(chance.choice(TARGETS)),
        resource_id=chance.choice(WORDS) or "r",
        event_id=f"{chance.getrandbits(64):x}",
        payload=_payload(chance),
        subject=f"{chance.choice(WORDS)}/{chance.choice(WORDS)}",
    )


def _payload(chance: random.Random) -> bytes:
    shape = chance.random()
    if shape < 0.1:
        return chance.randbytes(chance.randrange(100))
    if shape < 0.15:
        return b"[" * chance.randrange(100_000)
    base: Any = project() if chance.random() < 0.5 else application()
    base["metadata"] |= {"uid": "u", "resourceVersion": str(chance.randrange(9))}
    for _ in range(chance.randrange(4)):
        _break(chance, base)
    return orjson.dumps(base if shape < 0.7 else _value(chance, depth=4))


def _break(chance: random.Random, body: Object) -> None:
    """One field of it becomes something else."""
    place: Any = body
    while isinstance(place, dict) and place and chance.random() < 0.6:
        key = chance.choice(list(place))
        if not isinstance(place[key], dict):
            break
        place = place[key]
    if isinstance(place, dict):
        place[chance.choice(list(place) or ["spec"])] = _value(chance, depth=3)
        place[chance.choice(KEYS)] = _value(chance, depth=2)


def _value(chance: random.Random, *, depth: int) -> Any:
    shape = chance.randrange(8 if depth else 5)
    if shape >= 5:
        size = chance.randrange(4)
        if shape == 5:
            return [_value(chance, depth=depth - 1) for _ in range(size)]
        return {chance.choice(KEYS): _value(chance, depth=depth - 1) for _ in range(size)}
    return (chance.choice(WORDS), chance.randrange(-(2**40), 2**40), chance.random(), None, True)[shape]


class Wire:
    """The transport under an end: what the test sends, and which events are acknowledged."""

    def __init__(self) -> None:
        self._sent: asyncio.Queue[bytes] = asyncio.Queue()
        self._awaited: dict[str, asyncio.Future[None]] = {}

    def stream(self, source: str) -> EventStream:
        return EventStream(
            read=self._sent.get,
            write=self._write,
            extensions=OURS,
            label="fuzz",
            source=source,
            max_message_bytes=16 << 20,
            peer_takes=16 << 20,
        )

    async def _write(self, raw: bytes) -> None:
        for event in decode_all(raw):
            if isinstance(event, Event) and event.is_acknowledgement:
                awaited = self._awaited.pop(event.event_id, None)
                if awaited is not None:
                    awaited.set_result(None)

    async def survives(self, raw: bytes) -> None:
        self._sent.put_nowait(raw)
        last = heartbeat()
        self._awaited[last.event_id] = asyncio.get_running_loop().create_future()
        self._sent.put_nowait(encode(last))
        async with asyncio.timeout(PATIENCE):
            await self._awaited[last.event_id]


class World:
    """An end in a loop of its own, which only turns while an input is run."""

    def __init__(self, life: Callable[[Wire, "asyncio.Event"], Any]) -> None:
        self._loop = asyncio.new_event_loop()
        self._wire = Wire()
        self._life = self._loop.create_task(life(self._wire, asyncio.Event()))
        self.inputs = 0

    def run(self, raw: bytes) -> None:
        self.inputs += 1
        survives = self._loop.create_task(self._wire.survives(raw))
        self._loop.run_until_complete(
            asyncio.wait({survives, self._life}, return_when=asyncio.FIRST_COMPLETED)
        )
        assert not self._life.done(), self._life.exception()
        survives.result()
        crashed = sum(
            metrics.REGISTRY.get_sample_value(
                "tiphys_sidecars_dead_letters_total", {"target": target, "reason": "crashed"}
            )
            or 0
            for target in {*map(str, Target), "other", "comparison"}
        )
        assert not crashed, "a handler crashed"

    def close(self) -> None:
        self._life.cancel()
        self._loop.run_until_complete(asyncio.gather(self._life, return_exceptions=True))
        self._loop.close()


async def principal_life(mode: Mode, wire: Wire, ended: asyncio.Event) -> None:
    hub = Hub(EmbeddedStore(namespaces=[ARGOCD, AGENT]), allowed_namespaces=(AGENT,))
    await hub.know(AGENT)
    async with hub.running() as principal:
        await principal.serve(AGENT, mode, wire.stream(""), extensions=OURS)
        await ended.wait()


async def agent_life(wire: Wire, ended: asyncio.Event) -> None:
    async with running_agent(EmbeddedStore(namespaces=[ARGOCD]), mode=Mode.MANAGED) as agent:
        await agent.serve(wire.stream("agent"), name=AGENT, principal_namespace=ARGOCD, extensions=OURS)
        await ended.wait()


LIVES: dict[str, Callable[[Wire, asyncio.Event], Any]] = {
    "principal of a managed agent": partial(principal_life, Mode.MANAGED),
    "principal of an autonomous agent": partial(principal_life, Mode.AUTONOMOUS),
    "agent": agent_life,
}
_worlds: dict[str, World] = {}


def run(raw: bytes) -> None:
    """Through the three that listen to a peer."""
    logs.configure(level="critical")
    for name, life in LIVES.items():
        world = _worlds.get(name)
        if world is not None and world.inputs >= RENEWED:
            world.close()
            world = None
        if world is None:
            world = _worlds[name] = World(life)
        world.run(raw)


TARGET_EVENTS = FuzzTarget("cloudevents", make=make, run=run, seconds=5.0, mebibytes=1024)
