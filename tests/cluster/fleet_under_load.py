"""Agents on embedded stores in this process, behind two real hubs; writers beside them.

Each operation has an id, and whoever carries operations out on the agents' side counts it.
"""

import asyncio
import time
from base64 import b64decode
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from datetime import UTC, datetime
from itertools import count
from typing import Any

from argocd.reading import mapping, sequence, text, value
from certs.authority import Authority, LeafSubject
from certs.key_pair import KeyPair, Material
from kube import queries
from kube.embedded import EmbeddedStore
from kube.errors import ConflictError
from kube.live import LiveStore
from kube.resources import APPLICATIONS, NAMESPACES, SECRETS
from kube.store import Object, Store, WatchEventKind
from scripts.bench.sidecar_processes import cluster_secret
from tests.cluster.paired_hubs import ARGOCD, Hub, OneName
from tests.cluster.steady_writers import (
    SECONDS,
    AcceptedWrite,
    ActiveHub,
    SteadyWriters,
    Written,
    application_names,
    new_application,
)
from tests.sidecars import processes

OPERATED = {"operated": "true"}
"""Label of the Applications that are given operations."""


class Fleet:
    """`agents` is by name."""

    def __init__(self, hubs: tuple[Hub, Hub], stores: tuple[LiveStore, LiveStore], *, size: int) -> None:
        self._hubs = hubs
        self._stores = dict(zip((hub.name for hub in hubs), stores, strict=True))
        self.agents = {f"agent-{number:02}": EmbeddedStore(namespaces=[ARGOCD]) for number in range(size)}
        self._hub = ActiveHub(self._stores, hubs[0].name)
        self._writers = SteadyWriters(
            {hub.name: hub.cluster.kubeconfig for hub in hubs}, list(self.agents), active=hubs[0].name
        )
        self.given: set[str] = set()
        """Ids of operations that a hub has accepted."""
        self.ran: Counter[str] = Counter()
        self._ids = count(1)
        self._last_given: dict[str, float] = {}
        """By agent: when its last operation was accepted."""
        self._one_given = asyncio.Event()
        self._loaded = (0.0, 0.0)
        self._operations: list[AcceptedWrite] = []

    @property
    def active(self) -> str:
        """The hub where a writer tries first."""
        return self._hub.name

    @active.setter
    def active(self, name: str) -> None:
        self._hub.name = name
        self._writers.follow(name)

    @property
    def written(self) -> Written:
        """Once the load is over."""
        return self._writers.written

    @property
    def accepted(self) -> list[AcceptedWrite]:
        return [*self.written.accepted, *self._operations]

    # Before.

    async def equip(self) -> None:
        """Everybody's namespace on both hubs; who is there is told to the active one."""
        for name in self.agents:
            for store in self._stores.values():
                await store.create(NAMESPACES, {"metadata": {"name": name}})
            await self._stores[self.active].create(SECRETS, cluster_secret(name), namespace=ARGOCD)

    async def furnish(self) -> None:
        at_active = self._stores[self.active]
        for agent in self.agents:
            for name in application_names():
                await at_active.create(APPLICATIONS, new_application(agent, name), namespace=agent)
            await at_active.create(
                APPLICATIONS, new_application(agent, "operated", labels=OPERATED), namespace=agent
            )

    @asynccontextmanager
    async def connected(self, name: OneName) -> AsyncIterator[None]:
        authority = await self._authority()
        async with AsyncExitStack() as stack:
            for agent, store in self.agents.items():
                pair = authority.issue(LeafSubject(agent), now=datetime.now(UTC), server=False, client=True)
                process = processes.agent(
                    store,
                    port=name.port,
                    dialing={"material": Material(pair, authority.pair.certificate)},
                    serving={"source": None, "health_port": None, "metrics_port": None},
                )
                await stack.enter_async_context(processes.started(process))
                await stack.enter_async_context(_task(self._carry_out(store)))
            yield

    async def _authority(self) -> Authority:
        secret = await self._stores[self._hubs[0].name].get(SECRETS, name="argocd-agent-ca", namespace=ARGOCD)
        certificate, key = (b64decode(secret["data"][part]) for part in ("tls.crt", "tls.key"))
        return Authority.from_pair(KeyPair(certificate, key), origin="the first hub")

    async def _carry_out(self, store: Store) -> None:
        """As Argo CD's controller does on the agent's side."""
        watch = store.watch(APPLICATIONS, namespace=ARGOCD, resource_version="0")
        async with aclosing(watch) as events:
            async for event in events:
                if event.kind is not WatchEventKind.BOOKMARK and "operation" in event.object:
                    await self._operate(store, event.object["metadata"]["name"])

    async def _operate(self, store: Store, name: str) -> None:
        while True:
            item = await store.get(APPLICATIONS, name=name, namespace=ARGOCD)
            operation = item.pop("operation", None)
            if operation is None:
                return
            state = {"operation": operation, "phase": "Succeeded", "startedAt": "2026-01-01T00:00:00Z"}
            try:
                await store.replace(
                    APPLICATIONS, {**item, "status": {**mapping(item, "status"), "operationState": state}}
                )
            except ConflictError:
                continue
            self.ran[_id(operation)] += 1
            return

    # Under load.

    @asynccontextmanager
    async def load(self, *, rate: float, operation_seconds: float) -> AsyncIterator[None]:
        """So many writes a second until the block ends and the last is accepted, and beside them an operation of each agent
        every so often: that is half a dozen writes on both hubs.
        """
        stopping = asyncio.Event()
        async with AsyncExitStack() as stack:
            views = {
                hub: await stack.enter_async_context(_viewed(store)) for hub, store in self._stores.items()
            }
            await stack.enter_async_context(self._writers.writing(rate=rate))
            begun = time.monotonic()
            async with asyncio.TaskGroup() as group:
                for number, agent in enumerate(self.agents):
                    first = operation_seconds * number / len(self.agents)
                    giving = self._give_operations(
                        agent, views, stopping, first=first, pause=operation_seconds
                    )
                    group.create_task(giving)
                try:
                    yield
                finally:
                    stopping.set()
                    self._loaded = (begun, time.monotonic())

    async def _give_operations(
        self,
        agent: str,
        views: dict[str, dict[str, Object]],
        stopping: asyncio.Event,
        *,
        first: float,
        pause: float,
    ) -> None:
        """The next one when the last is seen to be over, as Argo CD itself asks for."""
        last = ""
        await _set_within(stopping, first)
        while not stopping.is_set():
            item = views[self.active].get(agent)
            done = _id(value(item, "status", "operationState", "operation"))
            if item is not None and "operation" not in item and done == last:
                last = f"op-{next(self._ids)}"
                operation = {"sync": {"revision": last}, "info": [{"name": "id", "value": last}]}
                patch = {"operation": operation}
                accepted = await self._hub.patch((agent, "operated"), patch, steady=False)
                self._operations.append(accepted)
                self.given.add(last)
                self._last_given[agent] = time.monotonic()
                self._one_given.set()
                await _set_within(stopping, pause)
            await asyncio.sleep(0.1)

    async def operated(self, *, since: float) -> None:
        """Returns when every agent was given an operation since then."""
        async with asyncio.timeout(SECONDS):
            while not all(self._last_given.get(agent, 0.0) > since for agent in self.agents):
                self._one_given.clear()
                await self._one_given.wait()

    # Afterwards.

    async def settled(self) -> list[str]:
        """What is missing, once nothing is or it has been waited for long enough."""
        end = time.monotonic() + SECONDS
        while True:
            missing = await self.missing()
            if time.monotonic() > end or not (missing or self.given - set(self.ran)):
                return missing
            await asyncio.sleep(0.5)

    async def missing(self) -> list[str]:
        """Of every accepted write, where it is not; and what nobody wrote."""
        found: list[str] = []
        for hub, store in self._stores.items():
            items = (await store.list(APPLICATIONS)).items
            there = {(item["metadata"]["namespace"], item["metadata"]["name"]): item for item in items}
            found += [
                f"{place} on hub {hub}: {sorted(keys ^ _keys(there.get(place)))[:5]}"
                for place, keys in self.written.wanted.items()
                if place not in there or keys != _keys(there[place])
            ]
            found += [f"{place} on hub {hub} is still there" for place in self.written.gone & there.keys()]
        for (agent, name), keys in self.written.wanted.items():
            item = await queries.find(self.agents[agent], APPLICATIONS, name=name, namespace=ARGOCD)
            if item is None or keys != _keys(item):
                found.append(f"{name} on {agent}: {sorted(keys ^ _keys(item))[:5]}")
        for agent, name in self.written.gone:
            item = await queries.find(self.agents[agent], APPLICATIONS, name=name, namespace=ARGOCD)
            if item is not None:
                found.append(f"{name} on {agent} is still there")
        return found

    def rate(self, pauses: Sequence[tuple[float, float]]) -> float:
        """Writes a second that were accepted under load, but for the `pauses` in which nobody served."""
        begun, ended = self._loaded
        counted = [
            write
            for write in self.accepted
            if write.steady
            and begun <= write.began <= ended
            and not any(since <= write.began <= to for since, to in pauses)
        ]
        return len(counted) / (ended - begun - sum(to - since for since, to in pauses))


async def _set_within(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _keys(item: Object | None) -> set[str]:
    return set(mapping(item, "spec", "source", "helm", "valuesObject"))


def _id(operation: Any) -> str:
    return next((text(each, "value") for each in sequence(operation, "info")), "")


@asynccontextmanager
async def _viewed(store: LiveStore) -> AsyncIterator[dict[str, Object]]:
    """The Applications that are operated, by agent, as a watch shows them."""
    there: dict[str, Object] = {}
    label = ",".join(f"{key}={word}" for key, word in OPERATED.items())

    async def follow() -> None:
        while True:
            watch = store.watch(APPLICATIONS, label_selector=label, resource_version="0")
            async with aclosing(watch) as events:
                async for event in events:
                    if event.kind is not WatchEventKind.BOOKMARK:
                        there[event.object["metadata"]["namespace"]] = event.object

    async with _task(follow()):
        yield there


@asynccontextmanager
async def _task(work: Any) -> AsyncIterator[None]:
    task = asyncio.ensure_future(work)
    try:
        yield
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
