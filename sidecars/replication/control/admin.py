"""The admin port: argocd-agent's three calls as they are, and ours as a service of their own.

Without `--ha-admin-auth` it listens on loopback alone, where whoever may run a command in the pod can speak. With it,
it listens everywhere, over mutual TLS, and hears whose certificate matches.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message
from grpc import aio

from certs.key_pair import Material
from sidecars.replication.control.admin_access import AdminAccess
from sidecars.replication.control.controller import HaController
from sidecars.replication.control.promotion import RefusedRoleChangeError, UnknownOutcomeError, Word
from sidecars.replication.control.status import status
from sidecars.replication.control.switchover import Switchover
from sidecars.wire.auth.caller import caller_of
from sidecars.wire.generated import haadmin_pb2, hacontrol_pb2
from sidecars.wire.refusals import RefusedError
from sidecars.wire.server.listener import begin
from sidecars.wire.tls import ServerCredentials
from tiphys import logs
from tiphys.errors import SurroundingsError, TiphysError

# A word and a reason.
MAX_MESSAGE_BYTES = 64 * 1024
STOP_SECONDS = 5.0
_UPSTREAM = "haadminapi.HAAdmin"
_OURS = "tiphysha.HaControl"

log = logs.get_logger()

Answer = Callable[[Any, str], Awaitable[Message]]


class AdminServer:
    """`run` until cancelled; `port` is known once `listening` is set."""

    def __init__(
        self,
        controller: HaController,
        *,
        switchover: Switchover,
        port: int,
        access: AdminAccess | None,
        material: Material | None,
        go_replicas: Callable[[], int] = lambda: 0,
    ) -> None:
        """`go_replicas`: how many of argocd-agent's follow."""
        self._controller = controller
        self._go_replicas = go_replicas
        self._switchover = switchover
        self._wanted = port
        self._access = access
        self._credentials = (
            ServerCredentials(material, require_client_certificate=True)
            if access is not None and material is not None
            else None
        )
        self.port = 0
        self.listening = asyncio.Event()

    def swap(self, material: Material) -> None:
        if self._credentials is not None:
            self._credentials.swap(material)

    async def run(self) -> None:
        server = aio.server(
            options=[
                ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
                ("grpc.max_concurrent_streams", 8),
                ("grpc.so_reuseport", 0),
            ]
        )
        server.add_generic_rpc_handlers(self._handlers())
        address = f"127.0.0.1:{self._wanted}" if self._credentials is None else f"[::]:{self._wanted}"
        try:
            self.port = (
                server.add_insecure_port(address)
                if self._credentials is None
                else server.add_secure_port(address, self._credentials.grpc)
            )
        except RuntimeError as error:
            raise SurroundingsError(f"--ha-admin-port: cannot listen on {address}: {error}") from error
        await begin(server)
        self.listening.set()
        try:
            await asyncio.Event().wait()
        finally:
            await server.stop(STOP_SECONDS)

    def _handlers(self) -> list[Any]:
        calls: dict[str, dict[str, tuple[type[Any], Answer]]] = {
            _UPSTREAM: {
                "Status": (haadmin_pb2.StatusRequest, self._plain_status),
                "Promote": (haadmin_pb2.PromoteRequest, self._plain_promote),
                "Demote": (haadmin_pb2.DemoteRequest, self._plain_demote),
            },
            _OURS: {
                "Status": (hacontrol_pb2.StatusRequest, self._status),
                "Promote": (hacontrol_pb2.RoleRequest, self._promote),
                "Demote": (hacontrol_pb2.RoleRequest, self._demote),
                "Resume": (hacontrol_pb2.RoleRequest, self._resume),
                "AcceptDeletions": (hacontrol_pb2.AcceptDeletionsRequest, self._accept_deletions),
                "Release": (hacontrol_pb2.ReleaseRequest, self._release),
            },
        }
        handlers = {
            service: {name: self._unary(*call, name=name) for name, call in methods.items()}
            for service, methods in calls.items()
        }
        handlers[_OURS]["Switchover"] = grpc.unary_stream_rpc_method_handler(self._switched_over)
        return [grpc.method_handlers_generic_handler(service, known) for service, known in handlers.items()]

    def _unary(self, kind: type[Any], answer: Answer, *, name: str) -> Any:
        async def handle(request: bytes, context: Any) -> bytes:
            async with self._answering(context, name=name) as who:
                return (await answer(kind.FromString(request), who)).SerializeToString()
            raise AssertionError("aborting raises")

        return grpc.unary_unary_rpc_method_handler(handle)

    async def _switched_over(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        async with self._answering(context, name="Switchover") as who:
            told = hacontrol_pb2.SwitchoverRequest.FromString(request)
            if told.dry_run:
                for line in await self._switchover.plan():
                    yield hacontrol_pb2.SwitchoverStep(text=line).SerializeToString()
                return
            async for line in self._switchover.run(_word(told.word, who)):
                yield hacontrol_pb2.SwitchoverStep(text=line).SerializeToString()

    @asynccontextmanager
    async def _answering(self, context: Any, *, name: str) -> AsyncIterator[str]:
        """Who calls; errors become the caller's."""
        try:
            yield "" if self._access is None else await self._access.check(caller_of(context))
            return
        except RefusedError as error:
            code, words = error.code, error.message
            log.warning("an operator's call is refused", **{logs.OPERATION: name, logs.REASON: error.reason})
        except DecodeError:
            code, words = grpc.StatusCode.INVALID_ARGUMENT, "not the message of this call"
        except TimeoutError:
            code, words = (
                grpc.StatusCode.DEADLINE_EXCEEDED,
                "another change of role is under way, or it took too long",
            )
        except UnknownOutcomeError as error:
            code, words = grpc.StatusCode.UNKNOWN, str(error)
        except TiphysError as error:
            code, words = grpc.StatusCode.FAILED_PRECONDITION, str(error)
        except Exception as error:
            log.exception("an operator's call failed", **{logs.OPERATION: name})
            code, words = grpc.StatusCode.INTERNAL, logs.describe(error)
        await context.abort(code, words)

    # argocd-agent's calls.

    async def _plain_status(self, _request: Any, _who: str) -> Message:
        told = status(self._controller)
        peer = told["peer"]
        return haadmin_pb2.HAStatusResponse(
            state=told["state"],
            preferred_role=told["preferred_role"],
            peer_address=peer["address"],
            peer_reachable=bool(peer["reachable"] and peer["address"]),
            peer_state=peer.get("state", ""),
            connected_replicas=sum(1 for each in told["replicas"] if each["connected"]) + self._go_replicas(),
            last_sequence_num=told["sequence"],
            connected_agents=told["connected_agents"],
        )

    async def _plain_promote(self, request: Any, who: str) -> Message:
        controller = self._controller
        word = Word(who=who or "argocd-agentctl")
        if request.force:
            record = controller.role.record
            epoch = record.highest_epoch if record else 0
            if not controller.settings.allow_bare_force:
                raise RefusedRoleChangeError(
                    "a force needs a reason and the epoch that you saw:"
                    f" tiphys ha promote --force --epoch {epoch} --reason '…'"
                    " (or start the principal with --ha-allow-bare-force)"
                )
            word = Word(who=word.who, why="a bare force", force=True, epoch=epoch)
        return haadmin_pb2.PromoteResponse(state=await controller.promote(word))

    async def _plain_demote(self, _request: Any, who: str) -> Message:
        state = await self._controller.demote(Word(who=who or "argocd-agentctl"))
        return haadmin_pb2.DemoteResponse(state=state)

    # Ours.

    async def _status(self, _request: Any, _who: str) -> Message:
        told = {**status(self._controller), "argocd_agent_replicas": self._go_replicas()}
        return hacontrol_pb2.StatusReply(json=json.dumps(told).encode())

    async def _promote(self, request: Any, who: str) -> Message:
        return self._replied(await self._controller.promote(_word(request.word, who)))

    async def _demote(self, request: Any, who: str) -> Message:
        return self._replied(await self._controller.demote(_word(request.word, who)))

    async def _resume(self, request: Any, who: str) -> Message:
        word = _word(request.word, who)
        return self._replied(await self._controller.resume(word, bootstrap=request.bootstrap))

    async def _accept_deletions(self, request: Any, who: str) -> Message:
        count = await self._controller.accept_deletions(request.kind, _word(request.word, who))
        return hacontrol_pb2.CountReply(count=count)

    async def _release(self, request: Any, who: str) -> Message:
        count = await self._controller.release(request.agent, _word(request.word, who))
        return hacontrol_pb2.CountReply(count=count)

    def _replied(self, state: str) -> Message:
        record = self._controller.role.record
        return hacontrol_pb2.RoleReply(state=state, epoch=record.served_epoch if record else 0)


def _word(word: Any, who: str) -> Word:
    """Whom a certificate names counts more than who the caller says that it is."""
    return Word(
        who=who or word.who or "unknown",
        why=word.reason,
        force=word.force,
        epoch=word.epoch if word.HasField("epoch") else None,
    )
