"""Delivery alone: a hub and its spokes on `Ledger`s, with everything that the sidecars do around it (compare
after a reconnect, now and then and after an overflow; give commands again after a restart).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random

from argocd.agents.vocabulary import Message
from kube.errors import InvalidError, NotFoundError, UnavailableError
from sidecars.delivery.comparison import PREFIX, Comparer, Difference
from sidecars.delivery.inbox import Inbox, InboxLimits
from sidecars.delivery.inventory import Inventory
from sidecars.delivery.observers import InboxObserver, OutboxObserver
from sidecars.delivery.outbox import Outbox, OutboxLimits
from sidecars.delivery.outcomes import DeadLetter
from sidecars.delivery.seen import SeenLimits
from sidecars.delivery.session import Queues
from sidecars.wire.events import Event, acknowledgement
from tests.simulation.ledger import POISON, Command, Ledger, Thing, read
from tests.simulation.network import Wire
from tests.simulation.world import Process, World
from tiphys.errors import SurroundingsError

PERIOD = 30.0
"""Between two comparisons; minutes in reality."""


class Limits:
    """Small enough that a storm reaches every bound."""

    outbox = OutboxLimits(bytes=30_000, reserve_bytes=30_000, state_window=8, command_window=4, marks=10)
    inbox = InboxLimits(
        bytes=12_000, workers=4, handling_seconds=20, memory=SeenLimits(commands=512, state=512)
    )


class End:
    """One life of one end of one pair: what a process holds in memory for its peer."""

    def __init__(
        self,
        process: Process,
        ledger: Ledger,
        *,
        peer: str,
        handle: Callable[[Event], Awaitable[None]],
        limits: type[Limits],
    ) -> None:
        self.world = process.world
        self.process = process
        self.ledger = ledger
        self.handle_object = handle
        self.spec, self.status = Inventory(), Inventory()
        self.outbox = Outbox(
            peer=peer,
            limits=limits.outbox,
            observer=_OutboxNotes(self),
            timing=self.world.timing,
            incarnation=self.world.new_id(),
        )
        self.inbox = Inbox(
            peer=peer,
            handle=self._handle,
            acknowledge=lambda event: self.outbox.add(acknowledgement(event)),
            report=self._report,
            limits=limits.inbox,
            observer=_InboxNotes(self),
            timing=self.world.timing,
        )
        self.peer = Queues(outbox=self.outbox, inbox=self.inbox)
        self.comparer = Comparer(
            inventories={"spec": self.spec, "status": self.status},
            send=self.outbox.add,
            found=self._found,
            new_id=self.world.new_id,
        )

    async def _handle(self, event: Event) -> None:
        if event.type.startswith(PREFIX):
            self.comparer.handle(event)
            return
        random = self.world.random
        await asyncio.sleep(random.uniform(0.001, 0.02))
        if random.random() < self.world.failing / 2:
            raise UnavailableError("not answered, not done")
        self.require_life()
        await self.handle_object(event)
        if random.random() < self.world.failing / 2:
            raise UnavailableError("not answered, but done")

    def require_life(self) -> None:
        """A killed process writes nothing any more."""
        if not self.process.alive:
            raise UnavailableError("dead")

    async def _report(self, letter: DeadLetter) -> None:
        self.world.note(f"dead letter {letter.key} {letter.reason}")
        name, thing = read(letter.event)
        if thing.value != POISON:
            self.ledger.refused.append(f"{letter.event.type} {name} {letter.reason} {letter.error}")

    def _found(self, scope: str, differences: list[Difference]) -> None:
        self.world.count(f"{scope} repaired")
        for difference in differences:
            self.repair(scope, difference)

    def repair(self, scope: str, difference: Difference) -> None:
        raise NotImplementedError

    def compare(self) -> None:
        raise NotImplementedError

    def acknowledged(self, event: Event) -> None:
        """The peer is done with it."""


class HubEnd(End):
    def __init__(self, process: Process, ledger: Ledger, *, limits: type[Limits]) -> None:
        super().__init__(process, ledger, peer=ledger.spoke, handle=self._apply, limits=limits)
        self._given: dict[str, None] = {}
        for name, thing in ledger.things.items():
            self.spec.put(name, thing.digest)
        for name, thing in ledger.reported.items():
            self.status.put(name, thing.digest)
        self.give()

    async def _apply(self, event: Event) -> None:
        name, status = read(event)
        thing = self.ledger.things.get(name)
        if thing is not None and thing.uid == status.uid:
            self.ledger.reported[name] = status
            self.status.put(name, status.digest)

    def changed(self, name: str, kind: Message, thing: Thing) -> None:
        if kind == Message.DELETE:
            self.spec.remove(name)
            self.status.remove(name)
        else:
            self.spec.put(name, thing.digest)
        self.outbox.add(self.ledger.event(kind, name, thing))

    def give(self) -> None:
        """Every command that is not in the outbox yet, behind the state that it is meant for."""
        for command in self.ledger.pending.values():
            if command.id in self._given:
                continue
            thing = self.ledger.things[command.name]
            state = self.ledger.event(Message.SPEC_UPDATE, command.name, thing)
            order = self.ledger.event(
                Message.SET_OPERATION, command.name, thing, version=int(command.id.rpartition("_")[2])
            )
            assert order.event_id == command.id
            if self.outbox.add(state) and self.outbox.add(order):
                self._given[command.id] = None

    def acknowledged(self, event: Event) -> None:
        if event.type == Message.SET_OPERATION and self.process.alive:
            self.ledger.pending.pop(event.event_id, None)

    def compare(self) -> None:
        self.outbox.take_marks()
        self.comparer.start("spec")
        self.give()

    def repair(self, scope: str, difference: Difference) -> None:
        thing = self.ledger.things.get(difference.key)
        if scope != "spec":
            return
        if thing is not None:
            self.outbox.add(self.ledger.event(Message.SPEC_UPDATE, difference.key, thing))
        else:
            self.outbox.add(self.ledger.event(Message.DELETE, difference.key, Thing("", 0, "")))


class SpokeEnd(End):
    def __init__(self, process: Process, ledger: Ledger, *, limits: type[Limits]) -> None:
        super().__init__(process, ledger, peer="hub", handle=self._apply, limits=limits)
        for name, thing in ledger.copies.items():
            self.spec.put(name, thing.digest)
        for name, thing in ledger.statuses.items():
            self.status.put(name, thing.digest)

    async def _apply(self, event: Event) -> None:
        name, thing = read(event)
        ledger = self.ledger
        if event.type == Message.SET_OPERATION:
            if name not in ledger.copies:
                raise NotFoundError(f"{name} is not here")
            self.world.count("commands done" if ledger.carry_out(event) else "commands remembered")
            self.world.note(f"{ledger.spoke} does {event.event_id}")
        elif event.type == Message.DELETE:
            ledger.delete(event)
        elif thing.value == POISON:
            raise InvalidError(f"{name} is invalid")
        else:
            ledger.apply(event)
        for inventory, things in ((self.spec, ledger.copies), (self.status, ledger.statuses)):
            if name in things:
                inventory.put(name, things[name].digest)
            else:
                inventory.remove(name)

    def changed(self, name: str, status: Thing) -> None:
        self.status.put(name, status.digest)
        self.outbox.add(self.ledger.event(Message.STATUS_UPDATE, name, status))

    def compare(self) -> None:
        self.outbox.take_marks()
        self.comparer.start("status")

    def repair(self, scope: str, difference: Difference) -> None:
        status = self.ledger.statuses.get(difference.key)
        if scope == "status" and status is not None:
            self.outbox.add(self.ledger.event(Message.STATUS_UPDATE, difference.key, status))


class _OutboxNotes(OutboxObserver):
    def __init__(self, end: End) -> None:
        self._end = end

    def acknowledged(self, peer: str, event: Event, seconds: float) -> None:
        self._end.acknowledged(event)

    def resent(self, peer: str, event: Event, attempt: int) -> None:
        self._end.world.count("events resent")

    def superseded(self, peer: str, event: Event) -> None:
        self._end.world.count("events superseded")

    def marked(self, peer: str, key: str) -> None:
        self._end.world.count("keys marked")


class _InboxNotes(InboxObserver):
    def __init__(self, end: End) -> None:
        self._end = end

    def handled(self, peer: str, event: Event, seconds: float) -> None:
        self._end.world.note(f"{self._end.process.name} handled {event.type[-14:]} {event.event_id}")

    def duplicate(self, peer: str, event: Event) -> None:
        self._end.world.count("duplicates")

    def retried(self, peer: str, event: Event, error: Exception) -> None:
        self._end.world.count("retries")

    def crashed(self, peer: str, event: Event, error: Exception) -> None:
        self._end.ledger.wrong.append(f"crash: {error!r}")


class Delivery:
    """The scenario; a subclass or other limits may switch a safeguard off to see that it is needed."""

    name = "delivery"
    stores: Sequence[str] = ()
    limits = Limits

    def __init__(self, world: World) -> None:
        self.world = world
        self._random = Random(world.random.random())
        count = self._random.choice((1, 1, 2, 3))
        self._batches = self._random.random() < 0.5
        self.ledgers = {f"spoke-{number}": Ledger(f"spoke-{number}") for number in range(count)}
        self.places = ["hub", *self.ledgers]
        self.pairs = [("hub", spoke) for spoke in self.ledgers]
        self._hub: dict[str, HubEnd] = {}
        self._spokes: dict[str, SpokeEnd] = {}

    def begin(self) -> None:
        self.world.start("hub", self._run_hub)
        for spoke in self.ledgers:
            self.world.start(spoke, self._run_spoke)

    async def _run_hub(self, process: Process) -> None:
        ends = {spoke: HubEnd(process, ledger, limits=self.limits) for spoke, ledger in self.ledgers.items()}
        self._hub = ends

        async def accept(wire: Wire) -> None:
            end = ends[wire.there]
            end.compare()
            ending = await end.peer.serve(wire, batches=self._batches)
            self.world.count(f"streams ended: {ending}")

        process.listen(accept)
        try:
            await self._now_and_then(list(ends.values()))
        finally:
            for end in ends.values():
                await end.inbox.close()

    async def _run_spoke(self, process: Process) -> None:
        end = self._spokes[process.name] = SpokeEnd(process, self.ledgers[process.name], limits=self.limits)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._now_and_then([end]))
                while True:
                    try:
                        wire = await process.connect("hub")
                        end.compare()
                        await end.peer.serve(wire, batches=self._batches)
                    except SurroundingsError:
                        self.world.count("reconnects")
                    await asyncio.sleep(self.world.timing.random.uniform(0.1, 3.0))
        finally:
            await end.inbox.close()

    async def _now_and_then(self, ends: list[HubEnd] | list[SpokeEnd]) -> None:
        while True:
            await asyncio.sleep(PERIOD)
            for end in ends:
                if end.peer.connected:
                    end.compare()

    # What users do.

    async def work(self, seconds: float) -> None:
        pause = self._random.choice((0.4, 1.0, 3.0))
        end = self.world.loop.time() + seconds
        while self.world.loop.time() < end:
            await asyncio.sleep(self._random.choice((0.0, 0.0, pause, 2 * pause)))
            ledger = self._random.choice(list(self.ledgers.values()))
            name = f"app-{self._random.randrange(12)}"
            action = self._random.choice((self._write, self._write, self._report, self._report, self._order))
            if self._random.random() < 0.1:
                action = self._delete
            action(ledger, name)

    def _write(self, ledger: Ledger, name: str) -> None:
        old = ledger.things.get(name)
        ordered = any(command.name == name for command in ledger.pending.values())
        value = POISON if self._random.random() < 0.03 and not ordered else f"value-{ledger.revision}"
        uid = old.uid if old is not None else self.world.new_id()[:8]
        thing = ledger.things[name] = Thing(uid, ledger.next_revision(), value)
        self.world.note(f"user writes {ledger.spoke}/{name} {thing.uid} {thing.version}")
        self._tell_hub(ledger, name, Message.CREATE if old is None else Message.SPEC_UPDATE, thing)

    def _delete(self, ledger: Ledger, name: str) -> None:
        thing = ledger.things.pop(name, None)
        if thing is None:
            return
        ledger.reported.pop(name, None)
        for command in [command for command in ledger.pending.values() if command.name == name]:
            ledger.dropped[command.id] = None
            del ledger.pending[command.id]
        self.world.note(f"user deletes {ledger.spoke}/{name} {thing.uid}")
        self._tell_hub(ledger, name, Message.DELETE, Thing(thing.uid, ledger.next_revision(), ""))

    def _order(self, ledger: Ledger, name: str) -> None:
        thing = ledger.things.get(name)
        if thing is None or thing.value == POISON:
            return
        id_ = f"{name}_{thing.uid}_{ledger.next_revision()}"
        command = Command(id_, name, thing.uid, thing.version)
        ledger.given[id_] = ledger.pending[id_] = command
        self.world.note(f"user orders {id_}")
        end = self._hub.get(ledger.spoke)
        if end is not None and end.process.alive:
            end.give()

    def _report(self, ledger: Ledger, name: str) -> None:
        copy = ledger.copies.get(name)
        if copy is None:
            return
        status = ledger.statuses[name] = Thing(copy.uid, ledger.next_revision(), "status")
        end = self._spokes.get(ledger.spoke)
        if end is not None and end.process.alive:
            end.changed(name, status)

    def _tell_hub(self, ledger: Ledger, name: str, kind: Message, thing: Thing) -> None:
        end = self._hub.get(ledger.spoke)
        if end is not None and end.process.alive:
            end.changed(name, kind, thing)

    # What must hold.

    async def unfinished(self) -> list[str]:
        return [problem for ledger in self.ledgers.values() for problem in ledger.unfinished()]

    def violations(self) -> list[str]:
        return [problem for ledger in self.ledgers.values() for problem in ledger.violations()]
