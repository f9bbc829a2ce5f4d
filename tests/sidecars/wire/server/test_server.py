"""Logins, refreshes and calls at a real listener with mutual TLS: who gets in, and which code the others read."""

import asyncio
import socket
import ssl
from datetime import timedelta
from pathlib import Path
from typing import Any

import bcrypt
import grpc
import pytest
import structlog

from argocd.agents.vocabulary import Mode
from sidecars.wire.auth.methods import header_method
from sidecars.wire.auth.passwords import Accounts, PasswordMethod
from sidecars.wire.auth.tokens import Holder
from sidecars.wire.capabilities import Capabilities
from tests.sidecars.wire.listening_principal import (
    AGENT,
    AUTHORITY,
    OTHER_AUTHORITY,
    PATIENCE,
    Principal,
    login,
    refresh,
    refusal,
    subscribe,
    version,
)
from tests.sidecars.wire.pki import CLIENT, SERVER, Issued, issue, name
from tiphys import __version__
from tiphys.errors import CallError, SurroundingsError

UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED
FAILED = (UNAUTHENTICATED, "authentication failed")
INVALID = (UNAUTHENTICATED, "invalid authentication data")


async def test_an_agent_logs_in_and_learns_what_go_agents_need(principal: Principal) -> None:
    async with principal.channel() as channel:
        answer = await login(channel)
    assert principal.tokens.verify(answer.accessToken) == Holder("agent-1", Mode.MANAGED)
    assert (answer.version, answer.principalNamespace) == ("0.9.0", "argocd")
    (admission,) = principal.gate.admitted
    assert (admission.agent, admission.agent_namespace, admission.version) == ("agent-1", "argocd", "0.9.0")
    assert len(admission.fingerprint) == 64


async def test_the_version_is_told_to_anybody_with_a_prefix_and_our_extensions(principal: Principal) -> None:
    async with principal.channel() as channel:
        call = channel.unary_unary("/versionapi.Version/Version")(b"")
        assert b"argocd-agent-0.9.0" in await call
        assert (
            dict(await call.initial_metadata())["tiphys-extensions"] == "batches,drift,ranges,reads,requests"
        )


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"mode": "admin"}, (grpc.StatusCode.UNKNOWN, "unknown agent mode: 'admin'")),
        ({"mode": ""}, (grpc.StatusCode.UNKNOWN, "unknown agent mode: ''")),
        ({"method": "userpass"}, FAILED),
        ({"method": ""}, FAILED),
        ({"version": ""}, (grpc.StatusCode.INVALID_ARGUMENT, "agent version is required")),
    ],
)
async def test_a_bad_login_gets_its_code(principal: Principal, fields: dict[str, Any], expected: Any) -> None:
    async with principal.channel() as channel:
        assert await refusal(login(channel, **fields)) == expected


@pytest.mark.parametrize(
    "agent",
    [
        issue(name(("CN", "agent-1"), ("CN", "agent-2")), AUTHORITY, usage=[CLIENT]),
        issue(name(("SERIALNUMBER", "CN=agent-2"), ("CN", "agent-1")), AUTHORITY, usage=[CLIENT]),
        issue(name(("O", "Acme")), AUTHORITY, usage=[CLIENT]),
        issue("Agent_1", AUTHORITY, usage=[CLIENT]),
        issue("argocd", AUTHORITY, usage=[CLIENT]),
    ],
    ids=[
        "two names",
        "name in a serial number",
        "no name",
        "no label",
        "named like the principal's namespace",
    ],
)
async def test_a_certificate_that_names_no_agent_fails(principal: Principal, agent: Issued) -> None:
    async with principal.channel(agent) as channel:
        assert await refusal(login(channel)) == FAILED


async def test_a_certificate_by_an_intermediate_is_fine(principal: Principal) -> None:
    middle = issue("middle", AUTHORITY, authority=True)
    async with principal.channel(issue("agent-7", middle, usage=[CLIENT]), chain=[middle]) as channel:
        assert (await login(channel)).accessToken


@pytest.mark.parametrize(
    "agent",
    [
        None,
        issue("agent-1", OTHER_AUTHORITY, usage=[CLIENT]),
        issue("agent-1", AUTHORITY, usage=[CLIENT], ends=timedelta(seconds=-5)),
        issue("agent-1", AUTHORITY, usage=[CLIENT], begins=timedelta(hours=1)),
        issue("agent-1", AUTHORITY, usage=[SERVER]),
    ],
    ids=["none", "of another authority", "expired", "not yet valid", "for servers"],
)
async def test_a_certificate_that_does_not_verify_ends_in_the_handshake(
    principal: Principal, agent: Issued | None
) -> None:
    async with principal.channel(agent) as channel:
        code, _ = await refusal(login(channel))
    assert code is grpc.StatusCode.UNAVAILABLE
    assert principal.gate.admitted == []


@pytest.mark.parametrize(
    ("newest", "accepted"), [(ssl.TLSVersion.TLSv1_2, False), (ssl.TLSVersion.TLSv1_3, True)]
)
async def test_nothing_older_than_tls_13_gets_through(
    principal: Principal, newest: ssl.TLSVersion, tmp_path: Path, *, accepted: bool
) -> None:
    pair = AGENT.pair()
    (tmp_path / "agent.pem").write_bytes(pair.certificate + pair.key)
    context = ssl.create_default_context(cadata=AUTHORITY.pem.decode())
    context.load_cert_chain(tmp_path / "agent.pem")
    context.maximum_version = newest
    context.set_alpn_protocols(["h2"])

    def shake() -> str | None:
        with socket.create_connection(("127.0.0.1", principal.port), timeout=PATIENCE) as connection:
            return context.wrap_socket(connection, server_hostname="localhost").version()

    if accepted:
        assert await asyncio.to_thread(shake) == "TLSv1.3"
    else:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.to_thread(shake)


@pytest.mark.parametrize(
    "path",
    [
        "/eventstreamapi.EventStream/Ping",
        "/eventstreamapi.EventStream/subscribe",
        "/replicationapi.Replication/GetSnapshot",
        "/haadminapi.HAAdmin/Promote",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    ],
)
async def test_what_is_not_served_is_unimplemented(principal: Principal, path: str) -> None:
    async with principal.channel() as channel:
        code, _ = await refusal(channel.unary_unary(path)(b"", timeout=PATIENCE))
    assert code is grpc.StatusCode.UNIMPLEMENTED


async def test_bytes_that_are_no_login_are_refused(principal: Principal) -> None:
    async with principal.channel() as channel:
        call = channel.unary_unary("/authapi.Authentication/Authenticate")
        assert (await refusal(call(b"\xff\xff", timeout=PATIENCE)))[0] is grpc.StatusCode.INVALID_ARGUMENT
        assert (await refusal(call(bytes(100_000), timeout=PATIENCE)))[
            0
        ] is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_an_agent_of_any_version_joins_and_is_noticed(principal: Principal) -> None:
    with structlog.testing.capture_logs() as lines:
        async with principal.channel() as channel:
            for _ in range(3):
                await login(channel, version="1.2.3-later")
            for known in ("99.9.9-unreleased", __version__):
                await login(channel, version=known)
    noticed = [line for line in lines if "another version" in line["event"]]
    assert [(line["agent"], line["version"]) for line in noticed] == [("agent-1", "1.2.3-later")]


async def test_the_principal_may_object(principal: Principal) -> None:
    principal.gate.objection = "no cluster secret for agent-1"
    async with principal.channel() as channel:
        assert await refusal(login(channel)) == FAILED


async def test_a_failure_of_the_principal_keeps_its_details_to_itself(principal: Principal) -> None:
    principal.gate.broken = True
    with structlog.testing.capture_logs():
        async with principal.channel() as channel:
            assert await refusal(login(channel)) == (grpc.StatusCode.UNAVAILABLE, "try again later")


async def test_refusals_are_logged_once_a_minute_with_their_reason(principal: Principal) -> None:
    with structlog.testing.capture_logs() as lines:
        async with principal.channel(issue("Agent_1", AUTHORITY, usage=[CLIENT])) as channel:
            for _ in range(5):
                await refusal(login(channel))
    (line,) = [line for line in lines if line["event"] == "call refused"]
    assert line["code"] == "UNAUTHENTICATED"
    assert "'Agent_1' from the subject is no agent's name" in line["reason"]


async def test_a_refresh_gives_a_new_access_token_only(principal: Principal) -> None:
    async with principal.channel() as channel:
        answer = await login(channel)
        renewed = await refresh(channel, answer.refreshToken)
    assert principal.tokens.verify(renewed.accessToken) == Holder("agent-1", Mode.MANAGED)
    assert (renewed.refreshToken, renewed.version, renewed.principalNamespace) == ("", "", "")


async def test_a_refresh_asks_everything_again(principal: Principal) -> None:
    async with principal.channel() as channel:
        answer = await login(channel)
        assert await refusal(refresh(channel, answer.accessToken)) == INVALID
        assert await refusal(refresh(channel, "")) == INVALID
        async with principal.channel(issue("agent-2", AUTHORITY, usage=[CLIENT])) as thief:
            assert await refusal(refresh(thief, answer.refreshToken)) == INVALID
        principal.gate.strangers.add("agent-1")
        assert await refusal(refresh(channel, answer.refreshToken)) == INVALID


async def test_a_stream_needs_the_token_of_its_own_agent(principal: Principal) -> None:
    foreign = principal.tokens.issue(Holder("agent-2", Mode.MANAGED)).access
    reserved = principal.tokens.issue(Holder("argocd", Mode.MANAGED)).access
    async with principal.channel() as channel:
        answer = await login(channel)
        for metadata in (
            [],
            [("authorization", "")],
            [("authorization", "Bearer " + answer.accessToken)],
            [("authorization", answer.refreshToken)],
            [("authorization", answer.accessToken)] * 2,
            [("authorization", foreign)],
        ):
            assert await refusal(subscribe(channel, *metadata).read()) == INVALID
    async with principal.channel(issue("argocd", AUTHORITY, usage=[CLIENT])) as channel:
        assert await refusal(subscribe(channel, ("authorization", reserved)).read()) == INVALID
    assert principal.recorder.streams.empty()


async def test_a_standby_turns_every_call_of_an_agent_away_before_it_looks_at_it(
    principal: Principal,
) -> None:
    standing_by = (grpc.StatusCode.UNAVAILABLE, "not accepting connections in state replicating")
    async with principal.channel() as channel:
        tokens = await login(channel)
        principal.gate.state = "replicating"
        assert await refusal(login(channel)) == standing_by
        assert await refusal(refresh(channel, tokens.refreshToken)) == standing_by
        assert await refusal(subscribe(channel, ("authorization", tokens.accessToken)).read()) == standing_by
        assert await refusal(subscribe(channel).read()) == standing_by


async def test_a_certificates_name_can_be_demanded_for_passwords_too(start: Any) -> None:
    accounts = Accounts.parse(f"agent-2:{bcrypt.hashpw(b'right', bcrypt.gensalt(4)).decode()}")
    principal = await start(method=PasswordMethod(accounts), rules={"match_common_name": True})
    credentials = {"clientid": "agent-2", "clientsecret": "right"}
    async with principal.channel() as channel:
        token = (await login(channel, method="userpass", credentials=credentials)).accessToken
        assert await refusal(subscribe(channel, ("authorization", token)).read()) == INVALID


async def test_passwords_work_without_client_certificates(start: Any) -> None:
    method = PasswordMethod(Accounts.parse(f"agent-2:{bcrypt.hashpw(b'right', bcrypt.gensalt(4)).decode()}"))
    principal = await start(
        method=method, listening={"require_client_certificates": False}, rules={"trust": None}
    )
    async with principal.channel(None) as channel:
        good = {"clientid": "agent-2", "clientsecret": "right"}
        answer = await login(channel, method="userpass", credentials=good)
        assert (
            await refusal(login(channel, method="userpass", credentials={**good, "clientsecret": "x"}))
            == FAILED
        )
        subscribe(channel, ("authorization", answer.accessToken))
        peer, _ = await principal.recorder.stream()
        assert (peer.name, peer.fingerprint) == ("agent-2", "")
        method.swap(Accounts.parse(""))
        assert await refusal(refresh(channel, answer.refreshToken)) == INVALID
        assert [cut.name for cut in await principal.server.recheck()] == ["agent-2"]


async def test_a_plaintext_listener_for_everybody_is_mentioned(start: Any) -> None:
    plain = {"method": header_method("x:(.+)"), "rules": {"trust": None}}
    with structlog.testing.capture_logs() as lines:
        await start(listening={"material": None, "host": ""}, **plain)
        await start(listening={"material": None}, **plain)
    assert len([line for line in lines if "can be any agent" in line["event"]]) == 1


async def test_a_meshs_header_names_the_agent_on_every_call(start: Any) -> None:
    principal = await start(
        method=header_method("x-client-id:^(.+)$"), listening={"material": None}, rules={"trust": None}
    )
    async with principal.plain_channel() as channel:
        assert await version(channel) == "argocd-agent-0.9.0"
        assert await refusal(login(channel, method="header")) == FAILED
        mine = ("x-client-id", "agent-3")
        token = ("authorization", (await login(channel, method="header", metadata=[mine])).accessToken)
        assert await refusal(subscribe(channel, token).read()) == INVALID
        assert await refusal(subscribe(channel, token, ("x-client-id", "agent-4")).read()) == INVALID
        subscribe(channel, token, mine)
        peer, _ = await principal.recorder.stream()
        assert peer.name == "agent-3"


@pytest.mark.parametrize(
    ("method", "listening"),
    [("header:x:(.+)", {}), ("mtls:CN=(.+)", {"material": None})],
)
async def test_methods_and_listeners_that_do_not_fit_are_refused_at_the_start(
    start: Any, method: str, listening: dict[str, Any]
) -> None:
    changes: dict[str, Any] = {"method": header_method("x:(.+)")} if method.startswith("header") else {}
    with pytest.raises(CallError, match="--auth"):
        await start(listening=listening, **changes)


async def test_certificates_are_never_believed_without_authorities(start: Any) -> None:
    with pytest.raises(CallError, match="needs the authorities"):
        await start(rules={"trust": None})


async def test_a_port_in_use_is_said_in_one_line(start: Any, principal: Principal) -> None:
    with pytest.raises(SurroundingsError, match=r"cannot listen on 127\.0\.0\.1"):
        await start(listening={"port": principal.port})


async def test_announcements_of_an_agent_reach_the_stream_owner(principal: Principal) -> None:
    async with principal.channel() as channel:
        token = (await login(channel)).accessToken
        subscribe(channel, ("authorization", token), ("tiphys-extensions", "batches,future"))
        peer, _ = await principal.recorder.stream()
    assert peer.announced == Capabilities(frozenset({"batches", "future"}))
