"""Who may replicate, and who may change roles."""

from datetime import UTC, datetime

import grpc
import pytest

from sidecars.replication.access import ReplicationAccess
from sidecars.replication.control.admin_access import AdminAccess
from sidecars.wire.auth.caller import Caller
from sidecars.wire.auth.methods import certificate_method
from sidecars.wire.auth.trust import Trust
from sidecars.wire.refusals import RefusedError
from tests.sidecars.wire.listening_principal import AUTHORITY, OTHER_AUTHORITY
from tests.sidecars.wire.pki import CLIENT, SERVER, Issued, issue
from tiphys.errors import CallError


def trust() -> Trust:
    return Trust(AUTHORITY.pem, now=lambda: datetime.now(UTC))


def caller(*shown: Issued, tls: str = "TLSv1.3") -> Caller:
    return Caller(
        address="ipv4:127.0.0.1:1",
        metadata={},
        chain=[each.certificate for each in shown],
        tls_version=tls,
    )


def access() -> ReplicationAccess:
    return ReplicationAccess(
        method=certificate_method("CN=([^,]+)"),
        trust=trust(),
        allowed=frozenset({"principal-b", "agent-a"}),
        is_agent=lambda name: name == "agent-a",
    )


async def test_the_peer_that_is_on_the_list_may_replicate() -> None:
    peer = issue("principal-b", AUTHORITY, usage=[SERVER, CLIENT])
    assert await access().check(caller(peer)) == "principal-b"


@pytest.mark.parametrize(
    ("shown", "code", "words"),
    [
        ([], grpc.StatusCode.UNAUTHENTICATED, "replication auth failed: the call came without"),
        (
            [issue("principal-b", OTHER_AUTHORITY, usage=[CLIENT])],
            grpc.StatusCode.UNAUTHENTICATED,
            "replication auth failed: the certificate does not verify",
        ),
        (
            [issue("principal-b", AUTHORITY, usage=[SERVER])],
            grpc.StatusCode.UNAUTHENTICATED,
            "not meant for clients",
        ),
        (
            [issue("agent-1", AUTHORITY, usage=[CLIENT])],
            grpc.StatusCode.PERMISSION_DENIED,
            'identity "agent-1" not in allowed replication clients',
        ),
        (
            [issue("agent-a", AUTHORITY, usage=[CLIENT])],
            grpc.StatusCode.PERMISSION_DENIED,
            'identity "agent-a" is an agent\'s',
        ),
    ],
)
async def test_everybody_else_is_refused_with_a_reason(
    shown: list[Issued], code: grpc.StatusCode, words: str
) -> None:
    with pytest.raises(RefusedError) as caught:
        await access().check(caller(*shown))
    assert caught.value.code is code
    assert words in caught.value.message


async def test_an_operators_certificate_is_known_by_its_subject_or_its_uri() -> None:
    operator = issue("ops", AUTHORITY, usage=[CLIENT])
    assert "CN=ops" in await AdminAccess("mtls:subject:^CN=ops$", trust=trust()).check(caller(operator))
    for pattern in ("mtls:subject:^CN=other", "mtls:uri:spiffe://fleet/ops"):
        with pytest.raises(RefusedError) as caught:
            await AdminAccess(pattern, trust=trust()).check(caller(operator))
        assert caught.value.code is grpc.StatusCode.PERMISSION_DENIED
    with pytest.raises(RefusedError) as caught:
        await AdminAccess("mtls:subject:ops", trust=trust()).check(caller())
    assert caught.value.code is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize(
    "text", ["", "ops", "mtls:", "mtls:cn:x", "mtls:subject:", "mtls:uri:(", "header:subject:x"]
)
def test_a_pattern_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(CallError, match="--ha-admin-auth"):
        AdminAccess(text, trust=trust())
