"""The live store beside bare aiohttp on a local API server, and what caches weigh."""

import asyncio
import gc
import multiprocessing
import os
import ssl
import statistics
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from kube.cache import Cache
from kube.embedded import EmbeddedStore
from kube.live import LiveStore
from kube.projections import shared, whole, without_managed_fields
from kube.resources import APPLICATIONS
from kube.store import ListPage, Object, PatchKind, Resource, WatchEvent, WatchEventKind
from scripts.bench.figures import Figure
from scripts.cluster.controlplane import Cluster

NAME = "kube: the live store, the embedded store, the cache"

BARE = "bare aiohttp with orjson"
GOAL = 1.3
ROUNDS = 100
AT_ONCE = 16
OBJECTS = 10_000
WATCHES = 1_000
WARM_UP = 5
"""Rounds that count for nothing: connections, caches, code paths."""
LONGEST_CALL = 30.0
_HOME = "default"
Call = Callable[[], Awaitable[None]]
_PATH = f"/apis/argoproj.io/v1alpha1/namespaces/{_HOME}/applications"


def an_application(number: int, *, namespace: str = _HOME) -> Object:
    """About 6 kB, as Argo CD leaves one behind: half of it status."""
    name = f"app-{number}"
    resources = [
        {
            "group": "apps",
            "version": "v1",
            "kind": "Deployment",
            "namespace": f"team-{number % 50}",
            "name": f"{name}-part-{part}",
            "status": "Synced",
            "health": {"status": "Healthy"},
        }
        for part in range(22)
    ]
    history = [
        {
            "id": entry,
            "revision": f"{number:08x}{entry:032x}",
            "deployedAt": f"2026-01-{entry + 1:02d}T00:00:00Z",
            "deployStartedAt": f"2026-01-{entry + 1:02d}T00:00:00Z",
            "source": {"repoURL": "https://git.example.com/apps.git", "path": f"apps/{name}"},
        }
        for entry in range(8)
    ]
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"team": f"team-{number % 50}", "tier": "web"},
            "annotations": {"example.com/owner": f"owner-{number % 200}"},
        },
        "spec": {
            "project": f"team-{number % 50}",
            "source": {
                "repoURL": "https://git.example.com/apps.git",
                "path": f"apps/{name}",
                "targetRevision": "HEAD",
            },
            "destination": {"server": "https://kubernetes.default.svc", "namespace": f"team-{number % 50}"},
            "syncPolicy": {
                "automated": {"prune": True, "selfHeal": True},
                "syncOptions": ["CreateNamespace=true"],
            },
        },
        "status": {
            "sync": {"status": "Synced", "revision": f"{number:040x}"},
            "health": {"status": "Healthy"},
            "reconciledAt": "2026-01-01T00:00:00Z",
            "resources": resources,
            "history": history,
            "summary": {"images": [f"registry.example.com/{name}:v{part}" for part in range(4)]},
        },
    }


def projected(body: Object) -> Object:
    """What a rule about projects or tracking asks for, and nothing else."""
    metadata = body["metadata"]
    return {
        "metadata": {key: metadata[key] for key in ("name", "namespace", "labels") if key in metadata},
        "spec": {key: body["spec"][key] for key in ("project", "destination")},
        "resources": tuple(
            (item.get("group", ""), item["kind"], item.get("namespace", ""), item["name"])
            for item in body.get("status", {}).get("resources", ())
        ),
    }


class Bare:
    """The same calls with nothing in between."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def send(
        self, method: str, path: str, body: Object | None = None, *, content_type: str = ""
    ) -> Any:
        headers = {"Content-Type": content_type or "application/json", "Accept": "application/json"}
        data = orjson.dumps(body) if body is not None else None
        async with self._session.request(method, self._url + path, data=data, headers=headers) as response:
            response.raise_for_status()
            return orjson.loads(await response.read())

    async def watch(self, version: str) -> AsyncGenerator[Any, None]:
        url = f"{self._url}{_PATH}?watch=true&allowWatchBookmarks=true&resourceVersion={version}"
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._session.get(url, timeout=timeout) as response:
            async for line in response.content:
                yield orjson.loads(line)


@asynccontextmanager
async def _both(cluster: Cluster) -> AsyncGenerator[tuple[LiveStore, Bare], None]:
    store = await LiveStore.connect(kubeconfig=cluster.kubeconfig)
    files = store.access.configuration
    tls = ssl.create_default_context(cafile=files.ssl_ca_cert)
    tls.load_cert_chain(files.cert_file, files.key_file)
    connector = aiohttp.TCPConnector(ssl=tls, limit=0)
    async with aiohttp.ClientSession(connector=connector, read_bufsize=2**21) as session:
        yield store, Bare(session, cluster.url)
    await store.close()


class Writes:
    """Each call writes a new object, or the next state of one."""

    def __init__(self, store: LiveStore, bare: Bare) -> None:
        self._store = store
        self._bare = bare
        self._numbers = count()

    async def ours(self) -> None:
        await self._store.create(APPLICATIONS, an_application(next(self._numbers)))

    async def theirs(self) -> None:
        path = f"{_PATH}?fieldManager=tiphys"
        await self._bare.send("POST", path, an_application(next(self._numbers)))

    async def our_patch(self) -> None:
        name, patch = self._patch()
        await self._store.patch(APPLICATIONS, patch, name=name, namespace=_HOME, kind=PatchKind.MERGE)

    async def their_patch(self) -> None:
        name, patch = self._patch()
        path = f"{_PATH}/{name}?fieldManager=tiphys"
        await self._bare.send("PATCH", path, patch, content_type="application/merge-patch+json")

    def _patch(self) -> tuple[str, Object]:
        """Each of another object, or the API server would spend its time on conflicts."""
        number = next(self._numbers)
        return f"app-{number % ROUNDS}", {"spec": {"source": {"targetRevision": f"v{number}"}}}


class Round:
    """From before a write until a watch has told of it."""

    def __init__(self, write: Call, watch: AsyncGenerator[Any, None]) -> None:
        self._write = write
        self._arrived = asyncio.Event()
        self.task = asyncio.create_task(self._follow(watch))

    async def _follow(self, watch: AsyncGenerator[Any, None]) -> None:
        async for event in watch:
            kind = event.kind if isinstance(event, WatchEvent) else event["type"]
            if kind == WatchEventKind.MODIFIED:
                self._arrived.set()

    async def __call__(self) -> None:
        self._arrived.clear()
        await self._write()
        await self._arrived.wait()


async def _in_turns(ours: Call, theirs: Call, *, rounds: int) -> tuple[float, float]:
    """The quarter that was disturbed least: an API server and its etcd feel every neighbour on the machine."""
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(rounds + WARM_UP):
        for index in (0, 1) if turn % 2 else (1, 0):
            began = time.perf_counter()
            async with asyncio.timeout(LONGEST_CALL):
                await (ours, theirs)[index]()
            if turn >= WARM_UP:
                times[index].append(time.perf_counter() - began)
    return statistics.quantiles(times[0], n=4)[0], statistics.quantiles(times[1], n=4)[0]


def _many(call: Call) -> Callable[[], Coroutine[Any, Any, None]]:
    async def together() -> None:
        await asyncio.gather(*(call() for _ in range(AT_ONCE)))

    return together


async def _live_figures(cluster: Cluster) -> list[Figure]:
    figures: list[Figure] = []

    async def compare(what: str, ours: Call, theirs: Call, *, rounds: int) -> None:
        mine, other = await _in_turns(ours, theirs, rounds=rounds)
        figures.append(Figure(what, mine * 1e3, "ms", than=BARE, theirs=other * 1e3, goal=GOAL))

    async with _both(cluster) as (store, bare):
        writes = Writes(store, bare)
        await compare("create a 6 kB Application", writes.ours, writes.theirs, rounds=ROUNDS)
        await compare("patch it", writes.our_patch, writes.their_patch, rounds=ROUNDS)
        await compare(
            f"{AT_ONCE} patches at once",
            _many(writes.our_patch),
            _many(writes.their_patch),
            rounds=ROUNDS // 10,
        )
        page = await store.list(APPLICATIONS, namespace=_HOME, limit=100)

        async def our_list() -> None:
            await store.list(APPLICATIONS, namespace=_HOME, limit=100)

        async def their_list() -> None:
            await bare.send("GET", f"{_PATH}?limit=100")

        await compare("list 100 of them", our_list, their_list, rounds=ROUNDS // 2)
        version = page.resource_version
        ours = Round(writes.our_patch, store.watch(APPLICATIONS, namespace=_HOME, resource_version=version))
        theirs = Round(writes.their_patch, bare.watch(version))
        # Both watches decode every event, so each side pays for the other's too.
        await compare("patch and hear of it", ours, theirs, rounds=ROUNDS)
        for each in (ours, theirs):
            each.task.cancel()
        await asyncio.gather(ours.task, theirs.task, return_exceptions=True)
    return figures


class _Pages(EmbeddedStore):
    """Lists made of bytes as they come from the wire, so that only the cache holds objects."""

    async def list(self, resource: Resource, **options: Any) -> ListPage:
        start = int(options["continue_token"] or 0)
        end = min(start + (options["limit"] or OBJECTS), OBJECTS)
        items = orjson.loads(orjson.dumps([_stored(number) for number in range(start, end)]))
        return ListPage(items, str(OBJECTS), str(end) if end < OBJECTS else "")

    async def watch(self, resource: Resource, **options: Any) -> AsyncGenerator[WatchEvent, None]:
        await asyncio.Event().wait()  # until the measurement is over
        yield WatchEvent(WatchEventKind.BOOKMARK, {})


def _stored(number: int) -> Object:
    body = an_application(number)
    body["metadata"] |= {
        "uid": f"{number:08x}-0000-4000-8000-000000000000",
        "resourceVersion": str(number + 1),
    }
    return body


_PROJECTIONS: dict[str, Callable[[Object], Any]] = {
    "whole": whole,
    "whole, strings shared": shared(without_managed_fields),
    "projected": projected,
    "projected, strings shared": shared(projected),
}


def _mebibytes_of(kind: str) -> float:
    """What a process grows by when it fills one cache; run it in a process of its own."""

    async def fill() -> float:
        cache: Cache[Any] = Cache(_Pages(), APPLICATIONS, projection=_PROJECTIONS[kind])
        gc.collect()
        before = _resident()
        task = asyncio.create_task(cache.run())
        await cache.synced()
        gc.collect()
        grown = _resident() - before
        assert len(cache) == OBJECTS
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return grown

    return asyncio.run(fill())


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _memory_figures() -> list[Figure]:
    wire = sum(len(orjson.dumps(_stored(number))) for number in range(OBJECTS)) / 2**20
    figures = []
    for kind in _PROJECTIONS:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            grown = pool.apply(_mebibytes_of, (kind,))
        what = f"a cache of {OBJECTS:,} Applications, {kind}"
        figures.append(Figure(what, grown, "MiB", than="their JSON", theirs=wire))
    return figures


async def _embedded_figures() -> list[Figure]:
    """For simulations: what one call costs without a network, and whether watches of others count."""
    quiet, watched = EmbeddedStore(), EmbeddedStore()
    watches = [
        watched.watch(APPLICATIONS, namespace=f"team-{number}", resource_version=watched.resource_version)
        for number in range(WATCHES)
    ]
    tasks = [asyncio.ensure_future(anext(watch)) for watch in watches]
    await asyncio.sleep(0)
    numbers = count()

    async def create(store: EmbeddedStore) -> None:
        await store.create(APPLICATIONS, an_application(next(numbers)))

    beside, alone = await _in_turns(partial(create, watched), partial(create, quiet), rounds=ROUNDS * 10)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    what = f"embedded: create beside {WATCHES:,} watches of other namespaces"
    return [Figure(what, beside * 1e6, "us", than="without them", theirs=alone * 1e6, goal=GOAL)]


async def run() -> list[Figure]:
    with Cluster(name="bench") as cluster:
        figures = await _live_figures(cluster)
    return [*figures, *await _embedded_figures(), *_memory_figures()]
