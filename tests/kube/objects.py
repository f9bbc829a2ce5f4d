"""Objects and small waits that the tests of this room share."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

from kube.errors import ApiError
from kube.resources import CONFIG_MAPS
from kube.store import Object, Resource, Store, WatchEvent, WatchEventKind

BOUND = 60.0
"""Seconds that anything awaited may take, on a machine that is busy with other things."""


def config_map(name: str, *, namespace: str, **data: str) -> Object:
    return {"metadata": {"name": name, "namespace": namespace}, "data": data}


def project(name: str, *, namespace: str, **spec: Any) -> Object:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def application(name: str, *, namespace: str, project: str = "default") -> Object:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "project": project,
            "source": {"repoURL": "https://git.example.com/apps.git", "path": name},
            "destination": {"name": "in-cluster", "namespace": name},
        },
    }


def application_set(name: str, *, namespace: str) -> Object:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "generators": [],
            "template": {
                "metadata": {"name": "a"},
                "spec": {"project": "default", "destination": {"name": "in-cluster"}},
            },
        },
    }


class Watching:
    """A watch whose events arrive in a list, so that a test can wait for the next ones."""

    def __init__(self) -> None:
        self._events: asyncio.Queue[WatchEvent | ApiError] = asyncio.Queue()

    async def run(self, store: Store, resource: Resource, **options: Any) -> None:
        try:
            async with aclosing(store.watch(resource, **options)) as events:
                async for event in events:
                    if event.kind is not WatchEventKind.BOOKMARK:
                        self._events.put_nowait(event)
        except ApiError as error:
            self._events.put_nowait(error)

    async def next(self) -> tuple[str, str]:
        event = await self.event()
        return event.kind.value, event.object["metadata"]["name"]

    async def event(self) -> WatchEvent:
        async with asyncio.timeout(BOUND):
            event = await self._events.get()
        if isinstance(event, ApiError):
            raise event
        return event


@asynccontextmanager
async def watching(store: Store, resource: Resource = CONFIG_MAPS, **options: Any) -> AsyncIterator[Watching]:
    """`resource_version` is now unless given."""
    if "resource_version" not in options:
        page = await store.list(resource, namespace=options.get("namespace"))
        options["resource_version"] = page.resource_version
    watch = Watching()
    task = asyncio.create_task(watch.run(store, resource, **options))
    await asyncio.sleep(0)  # the embedded store's watch stands now, and hears rather than replays
    try:
        yield watch
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
