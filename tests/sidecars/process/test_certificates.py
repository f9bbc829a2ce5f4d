"""Certificates of a sidecar, wherever they come from."""

import asyncio
from datetime import UTC, datetime

import bcrypt

from certs.sources import Generated, Joined, Secrets
from kube.embedded import EmbeddedStore
from sidecars.wire.auth.passwords import Accounts, Login, PasswordMethod
from tests.sidecars import processes
from tests.sidecars.pair_in_memory import ARGOCD, Hub
from tests.sidecars.processes import PATIENCE, Pki


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
