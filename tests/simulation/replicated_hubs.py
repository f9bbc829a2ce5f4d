"""Two hubs of a pair, one replicating to the other: users, controllers and meddlers, an operator who fails over,
clusters that come back with less than they had, and messages that change on their way.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import Context
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any, cast

from kube.embedded import AdmissionRequest, Admitted, Call, Faults, Phase
from kube.errors import ApiError, InvalidError
from kube.resources import APPLICATIONS, NAMESPACES
from kube.store import Identity
from sidecars.replication.kinds import APPLICATION, BY_NAME, ObjectKey
from sidecars.replication.messages import PrimaryMessage, ReplicaStart
from sidecars.replication.primary.session import SessionLimits
from sidecars.replication.primary.source import ReplicationSource
from sidecars.replication.standby.apply import ApplySettings
from sidecars.replication.standby.follower import FollowedStream, Follower
from sidecars.replication.standby.session import SessionSafeguards
from tests.sidecars.replication.hubs import ARGOCD, Hub
from tests.simulation.hub_objects import (
    MEDDLED,
    NAMES,
    POISONED,
    History,
    HubObjects,
    changes_nothing,
    is_poison,
    number_of,
    revision_of,
)
from tests.simulation.network import Wire
from tests.simulation.replication_ends import Controller, PrimaryEnd, StandbyEnd, hello
from tests.simulation.virtual_time import OWNER
from tests.simulation.world import Lifeline, Process, World
from tiphys.errors import CallError, SurroundingsError

STANDBY = Identity("standby")
LIMITS = SessionLimits(window=6_000, chunk=2_000, compare_seconds=20.0)
LOG_BYTES = 12_000
FULL = 40
"""Fewer objects could go without a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Safeguards:
    """All on; each is switched off once, to see that somebody notices."""

    session: SessionSafeguards = field(default_factory=SessionSafeguards)
    keeps_order: bool = True
    acknowledges_after_write: bool = True
    skips_equal: bool = True


class Replication:
    name = "replication"
    places = ("one", "two")
    pairs = (("one", "two"),)
    stores = ("one", "two")

    def __init__(self, world: World, *, safeguards: Safeguards | None = None) -> None:
        self._world = world
        self._safeguards = safeguards or Safeguards()
        self._random = Random(world.random.random())
        self._primary, self._standby = "one", "two"
        self._turned = asyncio.Event()
        self._histories: dict[str, History] = {}
        self._objects = HubObjects(world, self._random)
        self._deletable: dict[str, set[ObjectKey]] = {"one": set(), "two": set()}
        """What a standby may delete: users deleted it, or a failover left it behind."""
        self._written: dict[str, dict[ObjectKey, int]] = {"one": {}, "two": {}}
        """By each as standby, of the history that it follows."""
        self._following: dict[str, str] = {}
        self._is_wiped = False
        self._wrong: list[str] = []
        self._followers: dict[str, Follower] = {}
        self._spoils = self._random.choice((0.0, 0.0, 0.02))
        self._crosses = 0.3

    # Processes.

    def begin(self) -> None:
        for name in self.places:
            store = self._world.store(name)
            store.hooks.admission = partial(self._admit, name)
            assert store.hooks.faults is not None
            store.hooks.faults = partial(self._cross, name, store.hooks.faults)
            for namespace in (ARGOCD, "agent-a"):
                body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
                store._history.write(NAMESPACES, store._pipeline.draft(NAMESPACES, body, namespace=None).body)
            self._world.start(name, self._principal)

    async def _principal(self, process: Process) -> None:
        """Primary or standby, and the other one when an operator says so."""
        face = self._world.store(process.name).as_user(STANDBY)
        hub = Hub(cast("Any", Lifeline(process, face)), timing=self._world.timing)
        async with asyncio.TaskGroup() as group:
            for cache in hub.caches.values():
                group.create_task(cache.run())
            await hub.objects.synced()
            while True:
                turned = self._turned
                work = self._lead if process.name == self._primary else self._follow
                async with asyncio.TaskGroup() as role:
                    task = role.create_task(work(process, hub))
                    await turned.wait()
                    task.cancel()

    async def _lead(self, process: Process, hub: Hub) -> None:
        source = ReplicationSource(hub.objects, timing=self._world.timing, log_bytes=LOG_BYTES, limits=LIMITS)
        name = self._world.new_id()
        history = self._histories[name] = History()
        await source.start(epoch=1, history=name)
        unlisten = hub.objects.listen(history.note)

        async def accept(wire: Wire) -> None:
            if process.name != self._primary:
                raise SurroundingsError("not active")
            start = await hello(wire, ReplicaStart)
            await cast("Any", wire).send(name)
            self._world.count("resumed" if source.resumes(start) else "compared")
            end = PrimaryEnd(wire, self._spoil, self._world.count)
            try:
                await source.serve("standby", "", end, start)
            finally:
                end.ended()

        process.listen(accept)
        try:
            await asyncio.Event().wait()
        finally:
            unlisten()
            await source.stop()

    async def _follow(self, process: Process, hub: Hub) -> None:
        here = process.name

        @asynccontextmanager
        async def connect(start: ReplicaStart) -> AsyncIterator[FollowedStream]:
            wire: Any = await process.connect(self._primary)
            try:
                await wire.send(start)
                history = await hello(wire, str)
                if self._following.get(here) != history:
                    self._following[here] = history
                    self._written[here].clear()
                yield StandbyEnd(wire, history, partial(self._acknowledged, here))
            finally:
                wire.finish()

        follower = self._followers[here] = Follower(
            hub.store,
            hub.objects,
            controller=Controller(self._world.count),
            connect=connect,
            timing=self._world.timing,
            applying=ApplySettings(
                workers=4,
                keeps_order=self._safeguards.keeps_order,
                acknowledges_after_write=self._safeguards.acknowledges_after_write,
                skips_equal=self._safeguards.skips_equal,
            ),
            safeguards=self._safeguards.session,
        )
        await _persistently(follower.load)
        await follower.start()
        try:
            await follower.ended()
        finally:
            del self._followers[here]
            await follower.stop()

    def _spoil(self, message: PrimaryMessage) -> PrimaryMessage:
        mark = b'"revision":'
        if self._random.random() >= self._spoils or mark not in message.payload:
            return message
        self._world.count("messages changed")
        return replace(message, payload=message.payload.replace(mark, mark + b"9", 1))

    # What must hold at every step.

    async def _admit(self, here: str, request: AdmissionRequest) -> Admitted:
        """What a principal does to its own cluster is checked here; some objects are invalid there."""
        kind = next((kind for kind in NAMES if kind.resource == request.resource), None)
        if request.user != STANDBY or kind is None:
            return Admitted()
        key = ObjectKey(kind.name, request.namespace, request.name)
        if request.new is None:
            self._world.count("copies deleted")
            if key not in self._deletable[here] and not number_of(key) >= MEDDLED:
                self._wrong.append(f"{here} deleted {key.text}, which nobody had deleted")
        else:
            if is_poison(request.new) and not is_poison(request.old):
                self._world.count("dead letters")
                raise InvalidError("spec.poison: not here")
            if changes_nothing(request):
                self._wrong.append(f"{here} wrote {key.text} again, as it was")
            revision = revision_of(request.new)
            if request.old is None or revision_of(request.old) != revision:  # or only finalizers went
                self._check_write(here, key, revision)
        return Admitted()

    def _check_write(self, here: str, key: ObjectKey, revision: int) -> None:
        written = self._written[here]
        if revision not in self._objects.revisions[key]:
            self._wrong.append(f"{key.text} was written with revision {revision}, which nobody gave it")
        if revision < written.get(key, 0):
            self._wrong.append(f"{key.text}: revision {revision} written over {written[key]}")
        written[key] = revision

    def _acknowledged(self, here: str, name: str, sequence: int) -> None:
        history = self._histories[name]
        if sequence > history.acknowledged and self._world.network.is_slow(here):
            self._world.count("acknowledged by a slow standby")
        entries = history.entries[history.acknowledged : sequence]
        for number, (key, revision, gone) in enumerate(entries, start=history.acknowledged + 1):
            if number_of(key) >= MEDDLED:
                continue
            record = self._objects.collection(here, key).find(key.namespace, key.name)
            there = None if record is None else revision_of(record.decoded())
            if gone:
                kept = there is None or there > revision
            else:
                kept = history.last_gone.get(key, 0) > number if there is None else there >= revision
            if not kept:
                what = "gone" if gone else f"at {revision}"
                self._wrong.append(f"{key.text} {what} was acknowledged, {there} is there")
        history.acknowledged = max(history.acknowledged, sequence)

    # What people do.

    async def work(self, seconds: float) -> None:
        end = self._world.loop.time() + seconds
        turn_at, wipe_at = (self._random.uniform(0, seconds * 2) for _ in range(2))
        for number in range(MEDDLED):
            key = ObjectKey(APPLICATION.name, "agent-a", f"x-{number}")
            await _persistently(partial(self._objects.write, "one", key))
        async with asyncio.TaskGroup() as group:
            group.create_task(self._until(end, self._use, pause=0.6))
            group.create_task(self._until(end, self._meddle, pause=4.0))
            group.create_task(self._until(end, self._operate, pause=15.0))
            if turn_at < seconds:
                group.create_task(self._later(turn_at, self._fail_over))
            if wipe_at < seconds - 40:
                group.create_task(self._later(wipe_at, self._wipe))
        self._crosses = 0.0
        await self._cure()

    async def _until(self, end: float, deed: Callable[[], Awaitable[None]], *, pause: float) -> None:
        while self._world.loop.time() < end:
            await asyncio.sleep(self._random.expovariate(1 / pause))
            try:
                await deed()
            except ApiError:
                continue

    async def _later(self, seconds: float, deed: Callable[[], Awaitable[None]]) -> None:
        await asyncio.sleep(seconds)
        await deed()

    async def _use(self) -> None:
        if self._is_wiped:  # users wait for what they had
            return
        for _ in range(self._random.choice((1, 1, 1, 10))):
            where, key = self._primary, self._objects.some_key()
            try:
                if self._random.random() < 0.2:
                    await self._delete(where, key)
                else:
                    await self._objects.write(where, key)
            finally:
                if where != self._primary:  # a failover came in between
                    self._deletable[where].add(key)

    async def _delete(self, where: str, key: ObjectKey) -> None:
        for each in self._deletable.values():
            each.add(key)
        resource = BY_NAME[key.kind].resource
        await self._world.store(where).delete(resource, name=key.name, namespace=key.namespace)

    async def _meddle(self) -> None:
        """On the standby, with what is left out of the checks but must be right in the end."""
        key = ObjectKey(
            APPLICATION.name, "agent-a", f"x-{self._random.randrange(MEDDLED, NAMES[APPLICATION])}"
        )
        self._world.count("meddling")
        if self._random.random() < 0.5:
            await self._delete(self._standby, key)
        else:
            await self._objects.write(self._standby, key)

    async def _cross(self, here: str, faults: Faults, call: Call) -> None:
        """Somebody meddles with an object just as its copy is written."""
        await faults(call)
        if (
            (call.verb, call.phase) != ("replace", Phase.BEFORE)
            or not isinstance(OWNER.get(), Process)
            or call.resource != APPLICATIONS
            or here != self._standby
            or self._random.random() > self._crosses
        ):
            return
        key = ObjectKey(APPLICATION.name, call.namespace or "", call.name)
        if number_of(key) >= MEDDLED:
            self._world.count("writes crossed")
            with suppress(ApiError):
                await Context().run(asyncio.ensure_future, self._objects.write(here, key))

    async def _operate(self) -> None:
        """Deletions that wait are accepted, unless the primary has lost what it had."""
        follower = self._followers.get(self._standby)
        if follower is None:
            return
        for kind in follower.progress().held_deletions:
            self._world.count("brake engaged")
            if not self._is_wiped:
                try:
                    follower.accept_deletions(kind)
                except CallError:
                    continue

    async def _fail_over(self) -> None:
        self._world.note("failover")
        self._world.count("failovers")
        old, new = self._primary, self._standby
        self._primary, self._standby = new, old
        left = {key for key in self._objects.keys(old) if key not in self._objects.keys(new)}
        self._world.count("left behind" if left else "nothing left behind")
        self._deletable[old] |= left
        self._is_wiped = False
        turned, self._turned = self._turned, asyncio.Event()
        turned.set()

    async def _wipe(self) -> None:
        """The primary's cluster comes back with less than it had; sooner or later the standby is promoted."""
        where = self._primary
        if min(len(self._objects.keys(each)) for each in self.places) < FULL:
            return
        self._is_wiped = True
        self._world.note(f"{where} is wiped")
        self._world.count("clusters wiped")
        await self._world.kill(where)
        store = self._world.store(where)
        share = self._random.choice((1.0, 0.9))
        for key in self._objects.keys(where):
            if self._random.random() < share:
                record = self._objects.collection(where, key).find(key.namespace, key.name)
                store._history.remove(BY_NAME[key.kind].resource, record.decoded())
            if key.kind != APPLICATION.name:
                self._deletable[self._standby].add(key)  # so few may go without a word
        self._world.start(where)
        await asyncio.sleep(35)
        if self._is_wiped:
            await self._fail_over()

    async def _cure(self) -> None:
        """What is invalid there is made valid."""
        for key in self._objects.keys(self._primary):
            if number_of(key) >= POISONED:
                await _persistently(partial(self._objects.write, self._primary, key, poison=False))

    # What must hold in the end.

    async def unfinished(self) -> list[str]:
        await self._operate()
        wanted, there = (self._objects.copies(where) for where in (self._primary, self._standby))
        return [
            f"{key.text}: {there.get(key)} instead of {wanted.get(key)}"
            for key in sorted({*wanted, *there})
            if wanted.get(key) != there.get(key)
        ]

    def violations(self) -> list[str]:
        return list(self._wrong)


async def _persistently(deed: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await deed()
        except ApiError:
            await asyncio.sleep(0.5)
        else:
            return
