"""A token ends with the password that earned it."""

import time
from dataclasses import replace
from pathlib import Path

import bcrypt
import pytest

from argocd.agents.vocabulary import Mode
from kube.embedded import EmbeddedStore
from sidecars.principal.process import PrincipalProcess
from sidecars.wire.auth.authenticator import Authenticator, LoginRequest, Rules
from sidecars.wire.auth.caller import Caller
from sidecars.wire.auth.passwords import Accounts, Login, PasswordMethod, read_accounts
from sidecars.wire.auth.tokens import Tokens
from sidecars.wire.refusals import RefusedError
from tests.sidecars import processes
from tests.sidecars.pair_in_memory import ARGOCD, Hub
from tests.sidecars.wire.listening_principal import KEY, OpenGate
from tests.sidecars.wire.listening_principal import until as eventually


def account(password: str) -> str:
    return f"agent-a:{bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()}\n"


def login(password: str) -> LoginRequest:
    return LoginRequest(
        method="userpass",
        mode=Mode.MANAGED,
        version="0.9.0",
        agent_namespace="argocd",
        credentials={"clientid": "agent-a", "clientsecret": password},
    )


CALLER = Caller(address="ipv4:192.0.2.1:4711", metadata={})


async def test_no_token_outlives_the_password_that_earned_it() -> None:
    method = PasswordMethod(Accounts.parse(account("old")))
    rules = Rules(
        method=method,
        tokens=Tokens(KEY, now=time.time),
        trust=None,
        namespace="argocd",
        version="0.9.0",
        gate=OpenGate(),
    )
    checks = Authenticator(rules, monotonic=time.monotonic)
    pair = await checks.login(CALLER, login("old"))
    calling = replace(CALLER, metadata={"authorization": [pair.access]})
    holder = await checks.check(calling)
    assert (await checks.refresh(CALLER, pair.refresh)).access
    method.swap(Accounts.parse(account("new")))
    with pytest.raises(RefusedError):
        await checks.check(calling)
    with pytest.raises(RefusedError):
        await checks.refresh(CALLER, pair.refresh)
    assert checks.complaint((), holder) is not None
    fresh = await checks.login(CALLER, login("new"))
    assert (await checks.refresh(CALLER, fresh.refresh)).access


def connected(process: PrincipalProcess) -> bool:
    return process.server is not None and len(process.server.sessions) == 1


async def test_the_file_is_followed_and_a_stream_of_the_old_password_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "passwords"
    path.write_text(account("old"))
    hub, workload = EmbeddedStore(namespaces=[ARGOCD, "agent-a"]), EmbeddedStore(namespaces=[ARGOCD])
    pki = processes.Pki()
    await Hub(hub).know("agent-a")
    passwords = {
        "method": PasswordMethod(read_accounts(path)),
        "passwords": path,
        "require_client_certificates": False,
    }
    dialing = {"method": "userpass", "login": Login("agent-a", "old")}
    async with (
        processes.principal(hub, pki, serving=passwords) as principal,
        processes.connected_agent(
            workload, pki, name="agent-a", port=principal.port, dialing=dialing
        ) as agent,
    ):
        await eventually(lambda: connected(principal))
        written = tmp_path / "written"
        written.write_text(account("new"))
        written.replace(path)
        await eventually(lambda: not agent.connected.is_set())
        await eventually(lambda: "UNAUTHENTICATED" in agent.link.error)
        assert not connected(principal)
