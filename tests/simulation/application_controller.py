"""Argo CD's application controller: it takes an operation off an Application and writes what became of it."""

import asyncio
from collections import Counter

from argocd import names
from kube.errors import ApiError, NotFoundError
from kube.resources import APPLICATIONS
from kube.store import Store, WatchEventKind
from tests.simulation.world import Process, World

PREFIX = "controller of "


class ApplicationController:
    def __init__(self, world: World, *, namespace: str) -> None:
        self._world = world
        self._namespace = namespace
        self._runs: Counter[str] = Counter()
        """Of operations that ran before."""

    async def run(self, process: Process) -> None:
        """On the API server that the process is named after."""
        store = process.store(process.name.removeprefix(PREFIX))
        while True:
            try:
                async for event in store.watch(APPLICATIONS, namespace=self._namespace, resource_version="0"):
                    if event.kind is not WatchEventKind.BOOKMARK and event.kind is not WatchEventKind.DELETED:
                        await self._persistently(store, event.object["metadata"]["name"])
            except ApiError:
                self._world.count("controllers' watches ended")
            await asyncio.sleep(0.5)

    async def _persistently(self, store: Store, name: str) -> None:
        while True:
            try:
                await self._reconcile(store, name)
            except ApiError:
                await asyncio.sleep(0.3)
            else:
                return

    async def _reconcile(self, store: Store, name: str) -> None:
        try:
            there = await store.get(APPLICATIONS, name=name, namespace=self._namespace)
        except NotFoundError:
            return
        operation = there.pop("operation", None)
        annotations = there["metadata"].get("annotations") or {}
        refresh = annotations.pop(names.REFRESH, None)
        if operation is None:
            if refresh is not None:
                await store.replace(APPLICATIONS, there)
            return
        identity = operation["info"][0]["value"]
        status = there.get("status") or {}
        seen, state = status.get("seen", []), {"phase": "Succeeded", "operation": operation}
        if identity not in seen:
            # Taken off and noted in one write, as a controller does: a lost answer is found out here.
            there["status"] = {**status, "seen": [*seen, identity], "operationState": state}
            self._world.note(f"{name} runs {identity}")
        else:
            self._runs[identity] += 1  # a second time
            there["status"] = {**status, "operationState": {**state, "phase": "Repeated"}}
        await store.replace(APPLICATIONS, there)

    def violations(self) -> list[str]:
        return [f"operation {identity} ran again {count} times" for identity, count in self._runs.items()]
