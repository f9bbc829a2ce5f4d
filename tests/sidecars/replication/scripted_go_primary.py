"""A primary of argocd-agent's, scripted: its calls and its words, as a recorded one spoke."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import orjson
from aiohttp import web
from grpc import aio

from argocd import names
from argocd.agents.vocabulary import Message, Target
from sidecars.wire.envelopes import to_cloudevent
from sidecars.wire.events import object_event
from sidecars.wire.generated.replication_pb2 import (
    AgentState,
    ConfirmMissingResourceResult,
    ConfirmMissingResourcesRequest,
    ConfirmMissingResourcesResponse,
    ReplicatedEvent,
    ReplicationAck,
    ReplicationSnapshot,
    ReplicationStatus,
    Resource,
)
from tests.sidecars.replication.hubs import application


class ScriptedGoPrimary:
    """Answers as it is told; events go out once the replica has acknowledged the snapshot."""

    def __init__(self, snapshot: bytes, *events: bytes) -> None:
        self.snapshot = snapshot
        self.events = list(events)
        self.deleted: set[tuple[str, str]] = set()
        self.exists: dict[tuple[str, str], Resource] = {}
        self.acknowledged: list[int] = []
        self.asked: list[tuple[str, str]] = []
        self.questions: list[int] = []
        """Of each call, how many it asked about."""
        self.state = "active"
        self.sequence = 0
        self.port = 0

    @asynccontextmanager
    async def running(self, credentials: Any = None, *, port: int = 0) -> AsyncIterator["ScriptedGoPrimary"]:
        """`credentials`: of a port with TLS."""
        server = aio.server(options=[("grpc.so_reuseport", 0)])
        calls = {
            "Subscribe": grpc.stream_stream_rpc_method_handler(self._subscribe),
            "GetSnapshot": grpc.unary_unary_rpc_method_handler(self._snapshot),
            "Status": grpc.unary_unary_rpc_method_handler(self._status),
            "ConfirmMissingResources": grpc.unary_unary_rpc_method_handler(self._confirm),
        }
        handler = grpc.method_handlers_generic_handler("replicationapi.Replication", calls)
        server.add_generic_rpc_handlers((handler,))
        address = f"127.0.0.1:{port}"
        self.port = (
            server.add_insecure_port(address)
            if credentials is None
            else server.add_secure_port(address, credentials)
        )
        await server.start()
        try:
            yield self
        finally:
            await server.stop(0)

    async def _subscribe(self, _requests: Any, context: Any) -> None:
        first = await context.read()
        self.acknowledged.append(ReplicationAck.FromString(first).acked_sequence_num)
        for event in self.events:
            await context.write(event)
        while (raw := await context.read()) is not aio.EOF:
            self.acknowledged.append(ReplicationAck.FromString(raw).acked_sequence_num)

    async def _snapshot(self, _request: bytes, _context: Any) -> bytes:
        return self.snapshot

    async def _status(self, _request: bytes, _context: Any) -> bytes:
        return ReplicationStatus(current_sequence_num=self.sequence).SerializeToString()

    async def _confirm(self, raw: bytes, _context: Any) -> bytes:
        request = ConfirmMissingResourcesRequest.FromString(raw)
        results = []
        self.questions.append(len(request.resources))
        for asked in request.resources:
            key = (asked.kind, asked.name)
            self.asked.append(key)
            if key in self.exists:
                results.append(ConfirmMissingResourceResult(resource=self.exists[key], status="exists"))
            else:
                status = "deleted" if key in self.deleted else "unknown"
                results.append(ConfirmMissingResourceResult(resource=asked, status=status))
        return ConfirmMissingResourcesResponse(results=results).SerializeToString()

    async def health(self) -> str:
        return self.state

    @asynccontextmanager
    async def health_page(self) -> AsyncIterator[str]:
        """Its address: the one place where argocd-agent's principal tells its state."""

        async def page(_request: web.Request) -> web.Response:
            return web.Response(headers={"X-HA-State": self.state})

        application = web.Application()
        application.router.add_get("/healthz", page)
        runner = web.AppRunner(application)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}/healthz"
        finally:
            await runner.cleanup()


def stored(name: str, *, revision: str = "v1", **fields: Any) -> dict[str, Any]:
    item = application(name, revision=revision, **fields)
    item["metadata"].update({"namespace": "agent-a", "uid": f"uid-{name}", "resourceVersion": "1"})
    return {"apiVersion": names.API_VERSION, "kind": "Application", **item}


def resource(kind: str, item: dict[str, Any]) -> Resource:
    metadata = item["metadata"]
    return Resource(
        kind=kind, namespace=metadata["namespace"], name=metadata["name"], data=orjson.dumps(item)
    )


def snapshot_of(*items: dict[str, Any], sequence: int = 7) -> bytes:
    resources = [resource("Application", item) for item in items]
    agent = AgentState(name="agent-a", mode="managed", resources=resources)
    return ReplicationSnapshot(agents=[agent], last_sequence_num=sequence).SerializeToString()


def event(
    number: int,
    message: Message,
    item: dict[str, Any],
    *,
    direction: str = "outbound",
    target: Target = Target.APPLICATION,
    agent: str = "agent-a",
) -> bytes:
    told = object_event(message, target=target, obj=item)
    return ReplicatedEvent(
        event=to_cloudevent(told), agent_name=agent, direction=direction, sequence_num=number
    ).SerializeToString()
