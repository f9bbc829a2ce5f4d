"""The smallest two ends that use all of delivery: a hub whose objects are mirrored on spokes, which send
status back and carry out commands. What survives a process is in `Ledger`; everything else is rebuilt.
"""

import json
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from argocd.agents.vocabulary import Message, Target
from sidecars.wire.events import Event, object_event

POISON = "poison"
"""A value that the spoke's API server refuses for ever."""


@dataclass(frozen=True, slots=True)
class Thing:
    """An object, or the copy or the status of one; a larger version of the same uid is newer."""

    uid: str
    version: int
    value: str

    @property
    def digest(self) -> bytes:
        return blake2b(f"{self.uid} {self.version} {self.value}".encode(), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class Command:
    id: str
    name: str
    uid: str
    version: int
    """Of the object when the command was given: it must not be carried out on an older one."""


@dataclass(slots=True)
class Ledger:
    """What both clusters of one spoke hold, and what their users did."""

    spoke: str
    # On the hub.
    things: dict[str, Thing] = field(default_factory=dict)
    revision: int = 0
    pending: dict[str, Command] = field(default_factory=dict)
    reported: dict[str, Thing] = field(default_factory=dict)
    # On the spoke.
    copies: dict[str, Thing] = field(default_factory=dict)
    statuses: dict[str, Thing] = field(default_factory=dict)
    last_commands: dict[str, str] = field(default_factory=dict)
    # For the checks.
    given: dict[str, Command] = field(default_factory=dict)
    dropped: dict[str, None] = field(default_factory=dict)
    """Commands whose object was deleted before they were carried out."""
    done: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def next_revision(self) -> int:
        self.revision += 1
        return self.revision

    def event(self, kind: Message, name: str, thing: Thing, *, version: int | None = None) -> Event:
        body: dict[str, Any] = {
            "metadata": {
                "name": name,
                "namespace": self.spoke,
                "uid": thing.uid,
                "resourceVersion": str(thing.version if version is None else version),
            },
            "spec": {"version": thing.version, "value": thing.value},
        }
        return object_event(kind, target=Target.APPLICATION, obj=body)

    def apply(self, event: Event) -> None:
        """A spec arrives on the spoke."""
        name, thing = read(event)
        before = self.copies.get(name)
        if before is not None and before.uid == thing.uid and before.version > thing.version:
            self.wrong.append(f"{name}: version {thing.version} written over {before.version}")
        if before is not None and before.uid != thing.uid:
            self.statuses.pop(name, None)
        self.copies[name] = thing

    def delete(self, event: Event) -> None:
        name, thing = read(event)
        if name in self.copies and thing.uid in ("", self.copies[name].uid):
            del self.copies[name]
            self.statuses.pop(name, None)

    def carry_out(self, event: Event) -> bool:
        """Effect and id in one write, as with an annotation; False where it was done before a restart."""
        name, _ = read(event)
        if self.last_commands.get(name) == event.event_id:
            return False
        self.done.append(event.event_id)
        self.last_commands[name] = event.event_id
        command = self.given[event.event_id]
        copy = self.copies[name]
        if copy.uid == command.uid and copy.version < command.version:
            self.wrong.append(f"{command.id} carried out on version {copy.version} < {command.version}")
        return True

    def unfinished(self) -> list[str]:
        wanted = {name: thing for name, thing in self.things.items() if thing.value != POISON}
        problems = [
            f"{self.spoke}/{name}: {self.copies.get(name)} instead of {thing}"
            for name, thing in wanted.items()
            if self.copies.get(name) != thing
        ]
        problems += [
            f"{self.spoke}/{name}: should be gone" for name in self.copies if name not in self.things
        ]
        problems += [
            f"{self.spoke}/{name}: hub has status {self.reported.get(name)} instead of {self.statuses.get(name)}"
            for name in wanted
            if self.reported.get(name) != self.statuses.get(name)
        ]
        return problems + [f"{command.id}: not acknowledged" for command in self.pending.values()]

    def violations(self) -> list[str]:
        problems = list(self.wrong)
        for command in self.given:
            times = self.done.count(command)
            if times > 1:
                problems.append(f"command {command} was carried out {times} times")
            if not times and command not in self.dropped:
                problems.append(f"command {command} was lost")
        return problems + [f"{refusal}: refused" for refusal in self.refused]


def read(event: Event) -> tuple[str, Thing]:
    body = json.loads(event.payload)
    metadata, spec = body["metadata"], body["spec"]
    return metadata["name"], Thing(metadata["uid"], spec["version"], spec["value"])
