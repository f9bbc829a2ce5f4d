"""Certificates of a sidecar, wherever they come from."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import bcrypt

from kube.embedded import EmbeddedStore
from sidecars.process.certificates import Files, Generated, Joined, Secrets
from sidecars.wire.auth.passwords import Accounts, Login, PasswordMethod
from sidecars.wire.tls import Material
from tests.sidecars import processes
from tests.sidecars.pair_in_memory import ARGOCD, Hub
from tests.sidecars.processes import PATIENCE, Pki


async def test_a_certificate_from_a_secret_and_authorities_from_a_file_are_both_followed(
    tmp_path: Path,
) -> None:
    store, pki, other = EmbeddedStore(namespaces=[ARGOCD]), Pki(), Pki()
    old, new = pki.pair("agent-a", server=False), pki.pair("agent-a", server=False)
    await pki.equip(store, namespace=ARGOCD, name="tls", pair=old)
    bundle = tmp_path / "ca.crt"
    bundle.write_bytes(pki.authority.pair.certificate)
    source = Joined(
        Secrets(store=store, namespace=ARGOCD, pair="tls", authorities=""),
        Files(certificate=None, key=None, authorities=bundle),
    )
    held = await source.load()
    assert held == Material(old, pki.authority.pair.certificate)
    seen: asyncio.Queue[Material] = asyncio.Queue()
    await pki.equip(store, namespace=ARGOCD, name="tls", pair=new)  # before anybody follows
    following = asyncio.ensure_future(source.follow(seen.put, held=held))
    try:
        async with asyncio.timeout(PATIENCE):
            assert await seen.get() == Material(new, pki.authority.pair.certificate)
            replaced = tmp_path / "new"
            replaced.write_bytes(other.authority.pair.certificate)
            replaced.replace(bundle)
            assert await seen.get() == Material(new, other.authority.pair.certificate)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def test_an_agent_that_verifies_nothing_reaches_a_principal_with_a_generated_certificate() -> None:
    hub, workload = EmbeddedStore(namespaces=[ARGOCD]), EmbeddedStore(namespaces=[ARGOCD])
    await Hub(hub).know("agent-a")
    accounts = Accounts.parse(f"agent-a:{bcrypt.hashpw(b'hunter2', bcrypt.gensalt(4)).decode()}")
    nothing = Secrets(store=hub, namespace=ARGOCD, pair="", authorities="")
    serving = {
        "method": PasswordMethod(accounts),
        "require_client_certificates": False,
        "source": Joined(Generated(now=datetime.now(UTC)), nothing),
    }
    async with processes.principal(hub, Pki(), serving=serving) as principal:
        agent = processes.agent(
            workload,
            port=principal.port,
            dialing={
                "method": "userpass",
                "login": Login("agent-a", "hunter2"),
                "skip_verification": True,
            },
            serving={"source": Secrets(store=workload, namespace=ARGOCD, pair="", authorities="")},
        )
        async with processes.started(agent), asyncio.timeout(PATIENCE):
            await agent.connected.wait()
