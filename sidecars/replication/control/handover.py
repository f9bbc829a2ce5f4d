"""The token by which a switchover's new active one knows that it lacks nothing, and nobody else can promote it."""

import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import grpc

from sidecars.replication.control.promotion import RefusedRoleChangeError
from sidecars.replication.handshake import Handshake, differences
from sidecars.replication.record import read_released
from sidecars.wire.auth.caller import Caller, caller_of
from sidecars.wire.refusals import RefusedError
from tiphys import logs
from tiphys.errors import TiphysError

SERVICE = "tiphysha.Handover"
TAKE_OVER = f"/{SERVICE}/TakeOver"
# With as many agents as may be released one by one.
_MAX_BYTES = 512 * 1024
NOT_THE_PEER = "the token is refused: whoever shows it is not this principal's peer"


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverToken:
    """For one pair, one epoch, one state of everything, one principal, once."""

    nonce: str
    pair: str
    epoch: int
    """That of whoever gives it, and served under no more."""
    giver: str
    taker: str
    history: str
    sequence: int
    digest: str
    holding: bool = False
    """Agents have what the giver does not know: the taker leaves that alone too."""
    released: tuple[str, ...] = ()
    """Agents of which it leaves nothing alone."""

    def plain(self) -> dict[str, Any]:
        """As it comes back from JSON."""
        return {**asdict(self), "released": list(self.released)}

    def encoded(self) -> bytes:
        return json.dumps(self.plain()).encode()

    @classmethod
    def decoded(cls, raw: bytes) -> "HandoverToken":
        try:
            told = json.loads(raw[: _MAX_BYTES + 1])
            token = cls(**{**told, "released": read_released(told.get("released", []))})
            fields = asdict(token)
        except (ValueError, TypeError, AttributeError) as error:
            raise RefusedRoleChangeError("the token cannot be read") from error
        del fields["released"]
        kinds = {"epoch": int, "sequence": int, "holding": bool}
        if any(type(part) is not kinds.get(key, str) for key, part in fields.items()):
            raise RefusedRoleChangeError("the token cannot be read")
        return token


def digest_of(digests: Mapping[str, str]) -> str:
    """One for all kinds."""
    return hashlib.sha256(json.dumps(sorted(digests.items())).encode()).hexdigest()


def check_token(token: HandoverToken, expected: HandoverToken) -> None:
    """Raises RefusedRoleChangeError with what is wrong; `expected` is what this principal knows itself."""
    for field, words in (
        ("pair", "it is for another pair"),
        ("giver", "it is not from this principal's peer"),
        ("taker", "it is for another principal"),
        ("epoch", "it is of another epoch"),
        ("history", "it is of another history"),
        ("sequence", "this replica has not applied exactly its sequence"),
        ("digest", "this replica's objects are not those of its digest"),
    ):
        given, known = str(getattr(token, field)), str(getattr(expected, field))
        if not hmac.compare_digest(given.encode(), known.encode()):
            raise RefusedRoleChangeError(f"the token is refused: {words}")


class HandoverService:
    """Over the replication port, with the peer's certificate, and nowhere else."""

    def __init__(
        self,
        *,
        check: Callable[[Caller], Awaitable[str]],
        mine: Callable[[], Handshake],
        is_peer: Callable[[str, Handshake], Awaitable[bool]],
        take_over: Callable[[HandoverToken, Handshake], Awaitable[int]],
        refused: Callable[[str, str], Awaitable[None]],
    ) -> None:
        """`is_peer` is asked about who calls by which certificate. `refused` notes who was, and why, before it came to
        `take_over`.
        """
        self._check = check
        self._is_peer = is_peer
        self._mine = mine
        self._take_over = take_over
        self._refused = refused

    def handlers(self) -> list[Any]:
        handler = grpc.unary_unary_rpc_method_handler(self._called)
        return [grpc.method_handlers_generic_handler(SERVICE, {"TakeOver": handler})]

    async def _called(self, request: bytes, context: Any) -> bytes:
        caller, who = caller_of(context), "unknown"
        try:
            who = await self._check(caller)
            theirs, token = await self._peer(who, caller), HandoverToken.decoded(request)
        except RefusedError as error:
            code, words = error.code, error.message
        except RefusedRoleChangeError as error:
            code, words = grpc.StatusCode.FAILED_PRECONDITION, str(error)
        else:
            return await self._taken_over(token, theirs, context)
        await self._refused(who, words)
        await context.abort(code, words)
        raise AssertionError("aborting raises")

    async def _taken_over(self, token: HandoverToken, giver: Handshake, context: Any) -> bytes:
        """Whoever gave it serves again where it was refused, and only there."""
        try:
            return json.dumps({"epoch": await self._take_over(token, giver)}).encode()
        except RefusedRoleChangeError as error:
            code, words = grpc.StatusCode.FAILED_PRECONDITION, str(error)
        except (TiphysError, TimeoutError) as error:
            code, words = (
                grpc.StatusCode.UNAVAILABLE,
                f"whether it was taken is not known: {logs.describe(error)}",
            )
        await context.abort(code, words)
        raise AssertionError("aborting raises")

    async def _peer(self, who: str, caller: Caller) -> Handshake:
        theirs = Handshake.of(caller.metadata)
        if theirs is None:
            raise RefusedRoleChangeError("the caller says nothing of itself")
        if found := differences(self._mine(), theirs):
            raise RefusedRoleChangeError(f"no principal of this pair: {'; '.join(found)}")
        if not await self._is_peer(who, theirs):
            raise RefusedRoleChangeError(NOT_THE_PEER)
        return theirs
