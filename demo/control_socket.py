"""Talking to a running demonstration from another terminal, through a socket that only its user can open."""

import asyncio
import contextlib
import json
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from demo.clusters import ARGOCD, KINDS, DemoClusters
from kube.errors import ApiError
from kube.store import Object
from tiphys.errors import SurroundingsError

ANSWER_SECONDS = 30.0
# Manifests of a demonstration; a review takes 7 MiB at most.
REQUEST_LIMIT = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoAnswer:
    """What was said on the way, what was found, and whether anything was refused."""

    lines: list[str] = field(default_factory=list)
    objects: list[Object] = field(default_factory=list)
    failed: bool = False


def address() -> Path:
    return Path(tempfile.gettempdir()) / f"tiphys-demo-{os.getuid()}.sock"


@asynccontextmanager
async def control_socket(clusters: DemoClusters) -> AsyncIterator[bool]:
    """Whether this demonstration can be talked to: a second one at the same time cannot."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                request = json.loads(await reader.readline())
                answered = await _answer(clusters, request)
                writer.write(json.dumps(asdict(answered)).encode() + b"\n")
                await writer.drain()
        except (OSError, TimeoutError, ValueError, LookupError):
            return
        finally:
            writer.close()

    path = address()
    if await _answered(path):
        yield False
        return
    path.unlink(missing_ok=True)
    server = await asyncio.start_unix_server(answer, path, limit=REQUEST_LIMIT)
    path.chmod(0o600)
    try:
        yield True
    finally:
        server.close()
        path.unlink(missing_ok=True)


async def _answered(path: Path) -> bool:
    try:
        _, writer = await asyncio.open_unix_connection(path)
    except OSError:
        return False
    writer.close()
    return True


async def _answer(clusters: DemoClusters, request: dict[str, Any]) -> DemoAnswer:
    cluster = request["cluster"]
    if "apply" in request:
        lines: list[str] = []
        failed = False
        for thing in request["apply"]:
            stored, said = await clusters.write(cluster, thing)
            lines += said
            failed = failed or stored is None
            if stored is not None:
                lines.append(f"{thing['kind'].lower()}/{thing['metadata']['name']} stored on {cluster}")
        return DemoAnswer(lines=lines, failed=failed)
    resource, store = KINDS[request["get"]], clusters.stores[cluster]
    namespace = request["namespace"] or ARGOCD
    if request["name"]:
        try:
            found = await store.get(resource, name=request["name"], namespace=namespace)
        except ApiError as error:
            return DemoAnswer(lines=[str(error)], failed=True)
        return DemoAnswer(objects=[_without_fields(found)])
    page = await store.list(resource, namespace=namespace)
    return DemoAnswer(objects=[_without_fields(item) for item in page.items])


def _without_fields(thing: Object) -> Object:
    metadata = {key: part for key, part in thing["metadata"].items() if key != "managedFields"}
    return {**thing, "metadata": metadata}


async def ask(request: dict[str, Any]) -> DemoAnswer:
    with contextlib.suppress(OSError, TimeoutError, ValueError):
        async with asyncio.timeout(ANSWER_SECONDS):
            reader, writer = await asyncio.open_unix_connection(address(), limit=REQUEST_LIMIT)
            try:
                writer.write(json.dumps(request).encode() + b"\n")
                await writer.drain()
                told = json.loads(await reader.readline())
            finally:
                writer.close()
            return DemoAnswer(**told)
    raise SurroundingsError("no demonstration answers: start `tiphys demo` in another terminal first")
