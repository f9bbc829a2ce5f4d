"""Two principals of a pair as processes over grpc with certificates, in this one, on any stores."""

import sidecars.wire  # noqa: F401  isort: skip - grpc reads its ciphers when it is first imported

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from argocd import names
from certs.authority import LeafSubject
from kube import queries
from kube.embedded import EmbeddedStore
from kube.errors import ForbiddenError
from kube.resources import APP_PROJECTS, CONFIG_MAPS
from kube.store import Object, Resource, Store
from scripts.ports import free_port
from sidecars.replication.control.controller import HaController
from sidecars.replication.control.handover import HandoverToken, digest_of
from sidecars.replication.control.promotion import Word
from sidecars.replication.control.settings import HaSettings, PreferredRole
from tests.sidecars import processes
from tests.sidecars.pair_in_memory import ARGOCD, project, until
from tests.sidecars.processes import PATIENCE, Pki

if TYPE_CHECKING:
    from sidecars.principal.process import PrincipalProcess
    from sidecars.replication.handshake import Handshake

JO = Word(who="jo", why="a test")
NAMES = {"a": "principal-a", "b": "principal-b"}


class FencedStore(EmbeddedStore):
    """An API server with the admission policy, as far as a canary can tell."""

    def __init__(self) -> None:
        super().__init__(namespaces=[ARGOCD, "agent-a"])
        self.fenced = True

    async def create(self, resource: Resource, body: Object, **more: Any) -> Object:
        if self.fenced and body["metadata"].get("name") == names.HA_CANARY:
            record = await queries.find(self, CONFIG_MAPS, name=names.HA_RECORD, namespace=ARGOCD)
            parameters = (record or {}).get("data", {})
            if any(body["data"][key] != parameters.get(key) for key in ("epoch", "role")):
                raise ForbiddenError(f"ValidatingAdmissionPolicy '{names.HA_FENCE}' denied request")
        return await super().create(resource, body, **more)


class Region:
    """One principal, its store and its port, which stays over restarts."""

    def __init__(self, name: str, store: Store, pki: Pki, *, role: PreferredRole, port: int) -> None:
        self.name = name
        self.store = store
        self.pki = pki
        self.role = role
        self.port = port
        self.peer: Region
        self.process: PrincipalProcess | None = None  # until it is started
        self.ha: dict[str, Any] = {}
        self.serving: dict[str, Any] = {}
        self.settings: dict[str, Any] = {"allowed_namespaces": ("agent-*",)}
        self._task: asyncio.Task[None] | None = None

    @property
    def controller(self) -> HaController:
        assert self.process is not None
        assert self.process.pair is not None
        return self.process.pair.controller

    async def health(self) -> tuple[int, str]:
        assert self.process is not None
        return await processes.fetch(self.process.health.port, "/healthz")

    @property
    def state(self) -> str:
        if self.process is None or self.process.pair is None:
            return "down"
        role = self.controller.role
        return role.reason if role.reason == "starting" else role.state.value

    async def start(self) -> None:
        """Until it listens."""
        await self.begin()
        assert self.process is not None
        assert self._task is not None
        async with asyncio.timeout(PATIENCE):
            while not self.process.listening.is_set():
                if self._task.done():
                    self._task.result()
                await asyncio.sleep(0.01)

    async def begin(self) -> None:
        pair = self.pki.authority.issue(
            LeafSubject(common_name=NAMES[self.name], dns_names=("localhost",)),
            now=datetime.now(UTC),
            lifetime=timedelta(hours=1),
            server=True,
            client=True,
        )
        await self.pki.equip(self.store, namespace=ARGOCD, name="argocd-agent-principal-tls", pair=pair)
        ha = replace(
            HaSettings(
                preferred_role=self.role,
                peer_address=f"localhost:{self.peer.port}",
                allowed_clients=frozenset(NAMES.values()),
                admin_port=0,
            ),
            **self.ha,
        )
        self.process = processes.principal_process(
            self.store, port=self.port, serving={"ha": ha, **self.serving}, **self.settings
        )
        self._task = asyncio.ensure_future(self.process.run())

    async def stop(self) -> None:
        """As gracefully as SIGTERM."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._task = self.process = None

    async def until(self, *states: str) -> None:
        """By now, or soon; not while it has not decided yet."""
        try:
            async with asyncio.timeout(PATIENCE):
                while self.state not in states:
                    if self._task is not None and self._task.done():
                        self._task.result()
                    await asyncio.sleep(0.01)
        except TimeoutError:
            role = self.controller.role
            raise AssertionError(f"{self.name} is {self.state} ({role.detail}): {role.reason}") from None


@asynccontextmanager
async def regions(a: Store, b: Store) -> AsyncIterator[tuple[Region, Region]]:
    """Not started yet."""
    pki = Pki()
    one = Region("a", a, pki, role=PreferredRole.PRIMARY, port=free_port())
    two = Region("b", b, pki, role=PreferredRole.REPLICA, port=free_port())
    one.peer, two.peer = two, one
    try:
        yield one, two
    finally:
        await asyncio.gather(one.stop(), two.stop())


async def following(one: Region, two: Region) -> None:
    """Both are started, and the second has what the first has."""
    await asyncio.gather(one.start(), two.start())
    await one.until("active")
    await two.until("replicating")


async def deleted_meanwhile(one: Region, two: Region) -> None:
    """Of 25 projects all but `project-0`, while nobody listened: too many for the second, which follows, to delete."""
    there = [f"project-{number}" for number in range(25)]
    for name in there:
        await one.store.create(APP_PROJECTS, project(name), namespace=ARGOCD)
    await until(two.store, APP_PROJECTS, lambda found: set(there) <= set(found))
    await one.stop()
    for name in there[1:]:
        await one.store.delete(APP_PROJECTS, name=name, namespace=ARGOCD)
    await one.start()


def token_of(giver: "Handshake", taker: Region) -> HandoverToken:
    """For exactly what the taker has."""
    progress = taker.controller.role.replica.progress()
    return HandoverToken(
        nonce="n",
        pair=giver.pair,
        epoch=giver.epoch,
        giver=giver.principal,
        taker=taker.controller.handshake.principal,
        history=progress.history,
        sequence=progress.applied,
        digest=digest_of(taker.controller.role.source.digests()),
    )
