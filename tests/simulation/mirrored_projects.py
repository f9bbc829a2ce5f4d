"""AppProjects of a hub's API server mirrored on a spoke's, by caches, delivery and comparison: how a sidecar
is put into a `World`, and what the parts of the house do together when API servers fail, watches end and
somebody meddles with the copies.
"""

import asyncio
from collections.abc import Awaitable, Callable
from hashlib import blake2b
from random import Random
from typing import Any

import orjson

from argocd.agents.vocabulary import Message, Target
from kube.cache import Cache
from kube.errors import ApiError, NotFoundError
from kube.projections import without_managed_fields
from kube.resources import APP_PROJECTS
from kube.store import Object, Store
from sidecars.delivery.comparison import PREFIX, Comparer, Difference
from sidecars.delivery.inbox import Inbox
from sidecars.delivery.inventory import Inventory
from sidecars.delivery.outbox import Outbox, OutboxLimits
from sidecars.delivery.session import Queues
from sidecars.wire.events import Event, acknowledgement, object_event
from tests.simulation.network import Wire
from tests.simulation.world import Process, World
from tiphys.errors import SurroundingsError

NAMESPACE = "default"
PERIOD = 30.0
LIMITS = OutboxLimits(bytes=40_000, reserve_bytes=40_000, state_window=8, command_window=4)


def digest(body: Object) -> bytes:
    return blake2b(orjson.dumps(body["spec"], option=orjson.OPT_SORT_KEYS), digest_size=16).digest()


class End:
    """A process's memory: a cache of its own API server, an inventory of that, and its peer."""

    def __init__(self, process: Process, *, peer: str, handle: Callable[[Event], Awaitable[None]]) -> None:
        world = process.world
        self.store: Store = process.store(process.name)
        self.inventory = Inventory()
        self.cache: Cache[Object] = Cache(
            self.store,
            APP_PROJECTS,
            projection=without_managed_fields,
            namespace=NAMESPACE,
            clock=world.loop.time,
            random=world.timing.random,
        )
        self.cache.subscribe(self._note)
        self.outbox = Outbox(peer=peer, limits=LIMITS, timing=world.timing, incarnation=world.new_id())
        self._handle_object = handle
        self.inbox = Inbox(
            peer=peer,
            handle=self._handle,
            acknowledge=lambda event: self.outbox.add(acknowledgement(event)),
            timing=world.timing,
        )
        self.peer = Queues(outbox=self.outbox, inbox=self.inbox)
        self.comparer = Comparer(
            inventories={"spec": self.inventory},
            send=self.outbox.add,
            found=self._repair,
            new_id=world.new_id,
        )
        self._world = world

    def _note(self, old: Object | None, new: Object | None) -> None:
        name = (new or old or {})["metadata"]["name"]
        if new is not None:
            self.inventory.put(name, digest(new))
        else:
            self.inventory.remove(name)

    async def _handle(self, event: Event) -> None:
        if event.type.startswith(PREFIX):
            self.comparer.handle(event)
        else:
            await self._handle_object(event)

    def _repair(self, _: str, differences: list[Difference]) -> None:
        self._world.count("repaired")
        for difference in differences:
            body = self.cache.get(difference.key, namespace=NAMESPACE)
            gone = {"metadata": {"name": difference.key, "namespace": NAMESPACE}}
            self.tell(Message.DELETE if body is None else Message.SPEC_UPDATE, body or gone)

    def tell(self, kind: Message, body: Object) -> None:
        self.outbox.add(object_event(kind, target=Target.PROJECT, obj=body))


class Mirroring:
    name = "mirroring"
    places = ("hub", "spoke")
    pairs = (("hub", "spoke"),)
    stores = ("hub", "spoke")

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = Random(world.random.random())

    def begin(self) -> None:
        self._world.start("hub", self._run_hub)
        self._world.start("spoke", self._run_spoke)

    async def _run_hub(self, process: Process) -> None:
        end = End(process, peer="spoke", handle=_nothing)

        def tell(old: Object | None, new: Object | None) -> None:
            kind = Message.CREATE if old is None else Message.SPEC_UPDATE
            end.tell(kind if new is not None else Message.DELETE, new or old or {})

        async def accept(wire: Wire) -> None:
            end.comparer.start("spec")
            await end.peer.serve(wire)

        await self._live(end, lambda: self._compare_for_ever(end, tell, lambda: process.listen(accept)))

    async def _compare_for_ever(
        self, end: End, tell: Callable[[Object | None, Object | None], None], listen: Callable[[], None]
    ) -> None:
        await end.cache.synced()  # an inventory that is not complete would delete what it does not know
        end.cache.subscribe(tell)
        listen()
        while True:
            await asyncio.sleep(PERIOD)
            if end.peer.connected:
                end.outbox.take_marks()
                end.comparer.start("spec")

    async def _run_spoke(self, process: Process) -> None:
        end = End(process, peer="hub", handle=lambda event: self._apply(end.store, event))

        async def stay_connected() -> None:
            await end.cache.synced()
            while True:
                try:
                    await end.peer.serve(await process.connect("hub"))
                except SurroundingsError:
                    self._world.count("reconnects")
                await asyncio.sleep(self._world.timing.random.uniform(0.1, 3.0))

        await self._live(end, stay_connected)

    async def _live(self, end: End, main: Callable[[], Awaitable[Any]]) -> None:
        keeping = asyncio.ensure_future(end.cache.run())
        try:
            await main()
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
            await end.inbox.close()

    async def _apply(self, store: Store, event: Event) -> None:
        wanted = orjson.loads(event.payload)
        name = wanted["metadata"]["name"]
        if event.type == Message.DELETE:
            try:
                await store.delete(APP_PROJECTS, name=name, namespace=NAMESPACE)
            except NotFoundError:
                self._world.count("deleted before")
            return
        try:
            body = await store.get(APP_PROJECTS, name=name, namespace=NAMESPACE)
        except NotFoundError:
            body = {"metadata": {"name": name}, "spec": wanted["spec"]}
            await store.create(APP_PROJECTS, body, namespace=NAMESPACE)
            return
        if body["spec"] != wanted["spec"]:
            await store.replace(APP_PROJECTS, {**body, "spec": wanted["spec"]})

    # What users do: on the hub what they should, on the spoke what they should not.

    async def work(self, seconds: float) -> None:
        end = self._world.loop.time() + seconds
        while self._world.loop.time() < end:
            await asyncio.sleep(self._random.choice((0.0, 0.1, 1.0, 2.0)))
            where = "spoke" if self._random.random() < 0.1 else "hub"
            try:
                await self._meddle(self._world.store(where), f"project-{self._random.randrange(15)}")
            except ApiError:
                self._world.count("users' calls failed")

    async def _meddle(self, store: Store, name: str) -> None:
        if self._random.random() < 0.2:
            await store.delete(APP_PROJECTS, name=name, namespace=NAMESPACE)
            return
        spec = {"description": f"written at {self._world.loop.time()}"}
        try:
            body = await store.get(APP_PROJECTS, name=name, namespace=NAMESPACE)
            await store.replace(APP_PROJECTS, {**body, "spec": spec})
        except NotFoundError:
            await store.create(APP_PROJECTS, {"metadata": {"name": name}, "spec": spec}, namespace=NAMESPACE)

    async def unfinished(self) -> list[str]:
        hub, spoke = [await self._specs(place) for place in ("hub", "spoke")]
        return [
            f"{name}: {spoke.get(name)} instead of {hub.get(name)}"
            for name in sorted({*hub, *spoke})
            if hub.get(name) != spoke.get(name)
        ]

    async def _specs(self, place: str) -> dict[str, Any]:
        page = await self._world.store(place).list(APP_PROJECTS, namespace=NAMESPACE)
        return {body["metadata"]["name"]: body["spec"] for body in page.items}

    def violations(self) -> list[str]:
        return []


async def _nothing(event: Event) -> None:
    """A hub is only told of comparisons."""
