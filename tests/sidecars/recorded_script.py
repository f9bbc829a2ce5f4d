"""A recording as a script: what one side did and said is played, what the other side said is expected."""

import asyncio
import json
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from argocd import names
from argocd.agents.vocabulary import OBJECT_TARGETS, PREFIX, Message
from kube.errors import NotFoundError
from kube.resources import APP_PROJECTS, APPLICATIONS, CONFIG_MAPS, SECRETS
from kube.store import Object, PatchKind, Resource, Store
from sidecars.wire.envelopes import from_cloudevent
from sidecars.wire.events import Event, acknowledgement
from sidecars.wire.generated import eventstream_pb2
from tests.sidecars.pair_in_memory import PATIENCE, Pipe

RECORDINGS = Path(__file__).resolve().parents[3] / "shared" / "oracle" / "wire"
SUBSCRIBE = "/eventstreamapi.EventStream/Subscribe"
HUB, SPOKE = "hub", "spoke"

_KINDS = {each.plural: each for each in (APP_PROJECTS, APPLICATIONS, CONFIG_MAPS, SECRETS)}
_VOLATILE = frozenset(
    {
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "managedFields",
        "deletionGracePeriodSeconds",
    }
)


@dataclass(frozen=True, slots=True)
class Said:
    """An event as far as two implementations must agree on it."""

    message: str
    target: str
    subject: str
    content: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.message, self.target, self.subject


@dataclass(slots=True)
class Scene:
    """From one step to the next: what was done, and what both sides said then."""

    step: dict[str, Any]
    dialed: bool = False
    lines: list[tuple[str, Event]] = field(default_factory=list)


def scenes(name: str) -> Iterator[Scene]:
    scene = Scene({"step": "begin"})
    with (RECORDINGS / f"{name}.jsonl").open() as file:
        for line in map(json.loads, file):
            if line["what"] == "step":
                yield scene
                scene = Scene(line)
            elif line.get("method") == SUBSCRIBE and line["what"] == "call":
                scene.dialed = True
            elif line.get("method") == SUBSCRIBE and line["what"] in {"request", "response"}:
                event = from_cloudevent(eventstream_pb2.Event.FromString(b64decode(line["raw"])).event)
                if event.expects_acknowledgement:
                    scene.lines.append((SPOKE if line["what"] == "request" else HUB, event))
    yield scene


def said(event: Event) -> Said:
    message = event.type.removeprefix(PREFIX)
    subject, content = event.subject, ""
    if event.target in OBJECT_TARGETS and event.type != Message.ERROR:
        content = json.dumps(shown(json.loads(event.payload), message=message), sort_keys=True)
    elif event.payload:
        told = json.loads(event.payload)
        subject = f"{told.get('kind', '')}/{told.get('name', '')}"
    return Said(message, str(event.target), subject, content)


def shown(item: Object, *, message: str = "") -> Any:
    """Without what differs from one API server to the next, and without empty values: Go writes those too."""
    metadata = {key: part for key, part in item["metadata"].items() if key not in _VOLATILE}
    if "deletionTimestamp" in metadata:
        metadata["deletionTimestamp"] = "set"
    rest = {key: part for key, part in item.items() if key not in {"metadata", "apiVersion", "kind"}}
    annotations = metadata.get("annotations") or {}
    # Marks of our own, which nobody else reads, and a time of day.
    metadata["annotations"] = {
        key: part
        for key, part in annotations.items()
        if not key.startswith("tiphys.dev/") and key != names.LAST_UPDATED
    }
    if message == "delete":
        # What is gone is known by its name.
        return {"name": metadata["name"]}
    return _filled({"metadata": metadata, **rest})


def _filled(part: Any) -> Any:
    if isinstance(part, dict):
        filled = {key: _filled(each) for key, each in part.items()}
        return {key: each for key, each in filled.items() if each not in (None, "", {}, [], False)}
    if isinstance(part, list):
        return [_filled(each) for each in part]
    return part


class Place:
    """A store on which recorded steps are repeated; remembers which uid of ours stands for a recorded one."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._uids: dict[str, str] = {}

    async def repeat(self, step: dict[str, Any]) -> None:
        verb, path = step["call"].split(" ")
        resource, namespace, name = _address(path, has_name=verb != "POST")
        if verb == "DELETE":
            await self.store.delete(resource, name=name, namespace=namespace)
            return
        if verb == "POST":
            stored = await self.store.create(resource, step["body"], namespace=namespace)
        else:
            stored = await self.store.patch(
                resource, step["body"], name=name, namespace=namespace, kind=PatchKind.MERGE
            )
        self.learn(step, stored)

    def learn(self, step: dict[str, Any], stored: Object) -> None:
        recorded = (step.get("stored") or {}).get("metadata", {}).get("uid")
        if recorded:
            self._uids[recorded] = stored["metadata"]["uid"]

    async def now(self, step: dict[str, Any]) -> Object | None:
        resource, namespace, name = _address(step["path"], has_name=True)
        try:
            return await self.store.get(resource, name=name, namespace=namespace)
        except NotFoundError:
            return None

    def in_our_words(self, event: Event) -> Event:
        payload, resource_id = event.payload.decode(), event.resource_id
        for recorded, ours in self._uids.items():
            payload, resource_id = payload.replace(recorded, ours), resource_id.replace(recorded, ours)
        return replace(event, payload=payload.encode(), resource_id=resource_id)

    def in_theirs(self, content: str) -> str:
        for recorded, ours in self._uids.items():
            content = content.replace(ours, recorded)
        return content


def _address(path: str, *, has_name: bool) -> tuple[Resource, str, str]:
    parts = path.split("/")
    at = parts.index("namespaces")
    return _KINDS[parts[at + 2]], parts[at + 1], parts[at + 3] if has_name else ""


class ScriptedPeer:
    """The other end: acknowledges everything, and says what it is told to."""

    def __init__(self, pipe: Pipe, *, source: str) -> None:
        self._pipe = pipe
        self._source = source
        self.heard: list[Event] = []
        self._acknowledged: Counter[tuple[str, str]] = Counter()
        self._news = asyncio.Condition()

    async def run(self) -> None:
        while (event := await self._pipe.receive()) is not None:
            async with self._news:
                if event.is_acknowledgement:
                    self._acknowledged[event.resource_id, event.event_id] += 1
                else:
                    self.heard.append(event)
                    if event.expects_acknowledgement:
                        await self._pipe.send(acknowledgement(event, source=self._source))
                self._news.notify_all()

    async def say(self, event: Event) -> None:
        """Until it is acknowledged once more: a Go principal gives an operation the ids of the update before it."""
        ids = (event.resource_id, event.event_id)
        before = self._acknowledged[ids]
        await self._pipe.send(event)
        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(lambda: self._acknowledged[ids] > before)

    async def hears(self, condition: Any) -> bool:
        try:
            async with asyncio.timeout(PATIENCE), self._news:
                await self._news.wait_for(lambda: condition(self.heard))
        except TimeoutError:
            return False
        return True
