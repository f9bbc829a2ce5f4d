"""An operator's words to the admin port of a principal."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import grpc
from grpc import aio

from certs.key_pair import Material
from sidecars.wire.generated import hacontrol_pb2
from sidecars.wire.tls import channel_credentials
from tiphys.errors import CallError, SurroundingsError

SERVICE = "tiphysha.HaControl"
STATUS_SECONDS = 10.0
# A promotion stops writes, flips the fence and starts to serve.
ANSWER_SECONDS = 90.0
# Longer than all that the principal waits for, one after the other: another change of role, agents' last words, the
# replica, its answer, and a record that cannot be written.
SWITCHOVER_SECONDS = 300.0

_REFUSED = {
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
}


class HaRefusedError(CallError):
    """The principal answered no, and why. Nothing has changed."""

    exit_code = 1


class HaUnknownError(SurroundingsError):
    """It may have happened, or goes on: look before anything else is done."""

    exit_code = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class HaClient:
    """`material` None means plaintext, on loopback or through a port-forward."""

    address: str
    material: Material | None = None

    async def status(self) -> dict[str, Any]:
        async with self._channel() as channel:
            reply = hacontrol_pb2.StatusReply.FromString(await self._asked(channel))
        told: dict[str, Any] = json.loads(reply.json)
        return told

    async def change_role(self, call: str, word: Any, *, bootstrap: bool = False) -> tuple[str, int]:
        """Promote, Demote or Resume; the state and the epoch afterwards."""
        request = hacontrol_pb2.RoleRequest(word=word, bootstrap=bootstrap)
        reply = hacontrol_pb2.RoleReply.FromString(await self._call(call, request))
        return reply.state, reply.epoch

    async def accept_deletions(self, kind: str, word: Any) -> int:
        request = hacontrol_pb2.AcceptDeletionsRequest(word=word, kind=kind)
        raw = await self._call("AcceptDeletions", request)
        return int(hacontrol_pb2.CountReply.FromString(raw).count)

    async def release(self, agent: str, word: Any) -> int:
        raw = await self._call("Release", hacontrol_pb2.ReleaseRequest(word=word, agent=agent))
        return int(hacontrol_pb2.CountReply.FromString(raw).count)

    async def switchover(self, word: Any, *, dry_run: bool) -> AsyncIterator[str]:
        """A line per step. Once it has begun, which may be before the first line, it goes on without this connection."""
        request = hacontrol_pb2.SwitchoverRequest(word=word, dry_run=dry_run)
        async with self._channel() as channel:
            await self._asked(channel)
            call = channel.unary_stream(f"/{SERVICE}/Switchover")(
                request.SerializeToString(), timeout=SWITCHOVER_SECONDS
            )
            try:
                async for raw in call:
                    yield hacontrol_pb2.SwitchoverStep.FromString(raw).text
            except aio.AioRpcError as error:
                raise _error(error, address=self.address, begun=not dry_run) from error

    def _channel(self) -> Any:
        if self.material is None:
            return aio.insecure_channel(self.address)
        return aio.secure_channel(self.address, channel_credentials(self.material))

    async def _asked(self, channel: Any) -> bytes:
        """Changes nothing, whatever becomes of the answer."""
        try:
            raw: bytes = await channel.unary_unary(f"/{SERVICE}/Status")(
                hacontrol_pb2.StatusRequest().SerializeToString(), timeout=STATUS_SECONDS
            )
        except aio.AioRpcError as error:
            raise _error(error, address=self.address, begun=False) from error
        return raw

    async def _call(self, name: str, request: Any) -> bytes:
        """It is asked first: once the principal answers, a change whose answer is lost may have happened."""
        async with self._channel() as channel:
            await self._asked(channel)
            try:
                raw: bytes = await channel.unary_unary(f"/{SERVICE}/{name}")(
                    request.SerializeToString(), timeout=ANSWER_SECONDS
                )
            except aio.AioRpcError as error:
                raise _error(error, address=self.address, begun=True) from error
            return raw


def _error(error: aio.AioRpcError, *, address: str, begun: bool) -> Exception:
    words = error.details() or error.code().name
    if error.code() in _REFUSED:
        return HaRefusedError(words)
    if error.code() is grpc.StatusCode.UNKNOWN:
        return HaUnknownError(words)
    if error.code() is grpc.StatusCode.UNIMPLEMENTED:
        return CallError(f"{address} is no principal of ours: use argocd-agentctl ha there")
    if begun:
        return HaUnknownError(
            f"the answer is lost ({words}), and what was asked may have happened, or goes on without it: look at"
            " `tiphys ha status` on both sides"
        )
    return SurroundingsError(
        f"the admin port {address} does not answer ({words}): run this in the principal's pod, or"
        " kubectl port-forward to its port 8405"
    )
