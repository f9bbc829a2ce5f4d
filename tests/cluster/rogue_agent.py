"""An agent that means harm, as a process of its own: `python -m tests.cluster.rogue_agent FOLDER PORT COUNT`.

It tells of projects that no API server takes, and has itself compared without end. The first line of its output says
that it has begun, the second that everything was acknowledged.
"""

import sidecars.wire  # noqa: F401  isort: skip - grpc reads its ciphers when it is first imported

import asyncio
import sys
from pathlib import Path

import orjson

from argocd.agents.vocabulary import Message, Mode, Target
from certs.key_pair import KeyPair, Material
from sidecars.delivery.comparison import COMPARE, COMPARISON_WANTED, TARGET, ComparisonQuestion
from sidecars.wire.client.dialer import AgentConnection, DialOptions, connect
from sidecars.wire.events import Event, acknowledgement, object_event

# What waits for an answer: a peer's window.
WINDOW = 256


def dialing(folder: Path, port: int, *, name: str, mode: Mode) -> DialOptions:
    pair = KeyPair(
        certificate=(folder / f"{name}.crt").read_bytes(), key=(folder / f"{name}.key").read_bytes()
    )
    material = Material(pair, (folder / "ca.crt").read_bytes())
    return DialOptions(
        host="localhost", port=port, mode=mode, namespace="argocd", version="0.9.0", material=material
    )


def refused(number: int) -> Event:
    bad = {
        "metadata": {"name": f"Bad_Name-{number}", "uid": f"u{number}", "resourceVersion": "1"},
        "spec": {"description": "x" * 2048, "sourceRepos": ["*"]},
    }
    return object_event(Message.CREATE, target=Target.PROJECT, obj=bad)


def question(number: int) -> Event:
    if number % 2:
        kind, payload = COMPARISON_WANTED, orjson.dumps({"scope": "specs", "round": ""})
    else:
        asked = ComparisonQuestion(scope="specs", round=f"r{number}", number=0, marks={"": bytes(16)})
        kind, payload = COMPARE, asked.payload()
    name = f"question-{number}"
    return Event(type=kind, target=TARGET, resource_id=name, event_id=name, payload=payload)


async def harm(connection: AgentConnection, count: int) -> None:
    room = asyncio.Semaphore(WINDOW)
    left = {f"{event.event_id}" for event in map(refused, range(count))}

    async def read() -> None:
        while left and (event := await connection.receive()) is not None:
            if event.is_acknowledgement:
                room.release()
                left.discard(event.event_id)
            else:
                await connection.send(acknowledgement(event, source=""))

    reading = asyncio.ensure_future(read())
    for number in range(count):
        for event in (refused(number), *([question(number)] if number % 10 == 0 else [])):
            await room.acquire()
            await connection.send(event)
    await reading


async def main(folder: Path, port: int, count: int) -> None:
    connection = await connect(dialing(folder, port, name="edge", mode=Mode.AUTONOMOUS))
    print("began", flush=True)  # noqa: T201 - to the test
    await harm(connection, count)
    print("done", flush=True)  # noqa: T201 - to the test
    await connection.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
