"""The checks of a call without a connection under it."""

import time
from datetime import UTC, datetime

import grpc
import pytest

from argocd.agents.vocabulary import Mode
from sidecars.wire.auth.authenticator import Authenticator, LoginRequest, Rules
from sidecars.wire.auth.caller import Caller
from sidecars.wire.auth.methods import CallCredentials, NamePattern, SubjectMethod
from sidecars.wire.auth.passwords import TooManyLoginsError
from sidecars.wire.auth.tokens import Holder, Tokens
from sidecars.wire.auth.trust import Trust
from sidecars.wire.refusals import MAX_REMEMBERED, RefusalLog, RefusedError
from tests.sidecars.wire.listening_principal import AGENT, AUTHORITY, KEY, OpenGate

LOGIN = LoginRequest(method="mtls", mode="managed", version="0.9.0", agent_namespace="argocd", credentials={})


class Busy:
    name = "mtls"

    async def identify(self, evidence: CallCredentials) -> str:
        raise TooManyLoginsError("too many logins at once")


def authenticator(method: SubjectMethod | Busy | None = None) -> Authenticator:
    rules = Rules(
        method=method or SubjectMethod(NamePattern("CN=([^,]+)")),
        tokens=Tokens(KEY, now=time.time),
        trust=Trust(AUTHORITY.pem, now=lambda: datetime.now(UTC)),
        namespace="argocd",
        version="0.9.0",
        gate=OpenGate(),
    )
    return Authenticator(rules, monotonic=time.monotonic)


def caller(tls_version: str = "TLSv1.3") -> Caller:
    token = Tokens(KEY, now=time.time).issue(Holder("agent-1", Mode.MANAGED)).access
    return Caller(
        address="ipv4:192.0.2.1:4711",
        metadata={"authorization": [token]},
        chain=(AGENT.certificate,),
        tls_version=tls_version,
    )


async def test_old_tls_that_got_through_the_handshake_ends_here() -> None:
    assert await authenticator().check(caller()) == Holder("agent-1", Mode.MANAGED)
    with pytest.raises(RefusedError) as caught:
        await authenticator().check(caller("TLSv1.2"))
    assert caught.value.code is grpc.StatusCode.UNAUTHENTICATED
    with pytest.raises(RefusedError):
        await authenticator().login(caller("TLSv1.2"), LOGIN)


async def test_too_many_logins_are_told_to_come_back() -> None:
    with pytest.raises(RefusedError) as caught:
        await authenticator(Busy()).login(caller(), LOGIN)
    assert caught.value.code is grpc.StatusCode.UNAVAILABLE


def test_the_same_refusal_is_due_once_a_minute_and_counts_what_was_left_out() -> None:
    now = 0.0
    log = RefusalLog(lambda: now)
    assert [log.turn(("a", "x")) for _ in range(4)] == [0, None, None, None]
    assert log.turn(("a", "y")) == 0
    now = 60.0
    assert log.turn(("a", "x")) == 3
    assert log.turn(("a", "x")) is None


def test_callers_cannot_fill_the_memory_of_refusals() -> None:
    log = RefusalLog(lambda: 0.0)
    for number in range(3 * MAX_REMEMBERED):
        log.turn((str(number), "x"))
    assert len(log._said) == MAX_REMEMBERED
