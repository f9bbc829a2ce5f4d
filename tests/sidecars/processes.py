"""Principal and agent as processes over grpc with certificates, in this one, on any stores."""

import sidecars.wire  # noqa: F401  isort: skip - grpc reads its ciphers when it is first imported

import asyncio
import time
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography.hazmat.primitives.asymmetric import rsa

from argocd.agents.vocabulary import Mode
from certs.authority import Authority, LeafSubject
from certs.key_pair import KeyPair
from certs.sources import Secrets, secret_data
from kube.errors import AlreadyExistsError
from kube.resources import SECRETS
from kube.store import Store
from sidecars.agent import process as agents
from sidecars.agent.settings import AgentSettings
from sidecars.principal import process as principals
from sidecars.principal.settings import PrincipalSettings
from sidecars.wire.auth.methods import certificate_method
from sidecars.wire.auth.tokens import Tokens
from sidecars.wire.client.dialer import DialOptions

PATIENCE = 30.0
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


class Pki:
    """What `argocd-agentctl pki` leaves in the two clusters."""

    def __init__(self) -> None:
        self.authority = Authority.create("tests", now=datetime.now(UTC), lifetime=timedelta(days=1))

    def pair(self, name: str, *, server: bool, age: timedelta = timedelta()) -> KeyPair:
        """One that was made `age` ago, for an hour or so."""
        subject = LeafSubject(common_name=name, dns_names=("localhost",) if server else ())
        return self.authority.issue(
            subject,
            now=datetime.now(UTC) - age,
            lifetime=timedelta(hours=1),
            server=server,
            client=not server,
        )

    async def equip(self, store: Store, *, namespace: str, name: str, pair: KeyPair) -> None:
        await put_secret(
            store, namespace=namespace, name=name, data={"tls.crt": pair.certificate, "tls.key": pair.key}
        )
        bundle = self.authority.pair.certificate
        await put_secret(store, namespace=namespace, name="argocd-agent-ca", data={"ca.crt": bundle})


async def shown_certificate(store: Store, *, namespace: str = "argocd") -> KeyPair:
    """That of the agent beside the store."""
    data = await secret_data(store, namespace=namespace, name="argocd-agent-client-tls")
    return KeyPair(certificate=data["tls.crt"], key=data["tls.key"])


async def put_secret(store: Store, *, namespace: str, name: str, data: dict[str, bytes]) -> None:
    body = {
        "metadata": {"name": name, "namespace": namespace},
        "data": {key: b64encode(part).decode() for key, part in data.items()},
    }
    try:
        await store.create(SECRETS, body, namespace=namespace)
    except AlreadyExistsError:
        await store.replace(SECRETS, body)


@asynccontextmanager
async def started(process: Any) -> AsyncIterator[None]:
    task = asyncio.ensure_future(process.run())
    try:
        yield
        assert not task.done() or task.cancelled(), task.exception()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def principal(
    store: Store,
    pki: Pki,
    *,
    namespace: str = "argocd",
    port: int = 0,
    serving: dict[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[principals.PrincipalProcess]:
    """Once it listens."""
    await pki.equip(
        store,
        namespace=namespace,
        name="argocd-agent-principal-tls",
        pair=pki.pair("principal", server=True),
    )
    process = principal_process(store, namespace=namespace, port=port, serving=serving, **settings)
    async with started(process):
        async with asyncio.timeout(PATIENCE):
            await process.listening.wait()
        yield process


def principal_process(
    store: Store,
    *,
    namespace: str = "argocd",
    port: int = 0,
    serving: dict[str, Any] | None = None,
    **settings: Any,
) -> principals.PrincipalProcess:
    usual = principals.PrincipalOptions(
        settings=PrincipalSettings(namespace=namespace, **settings),
        method=certificate_method("CN=([^,]+)"),
        tokens=Tokens(KEY, now=time.time),
        source=Secrets(
            store=store,
            namespace=namespace,
            pair="argocd-agent-principal-tls",
            authorities="argocd-agent-ca",
        ),
        host="127.0.0.1",
        port=port,
        health_host="127.0.0.1",
        health_port=0,
        metrics_port=0,
        pages_port=0,
    )
    return principals.PrincipalProcess(store, replace(usual, **(serving or {})))


def agent(
    store: Store,
    *,
    port: int,
    mode: Mode = Mode.MANAGED,
    namespace: str = "argocd",
    dialing: dict[str, Any] | None = None,
    serving: dict[str, Any] | None = None,
    **settings: Any,
) -> agents.AgentProcess:
    usual = DialOptions(host="localhost", port=port, mode=mode, namespace=namespace, version="0.9.0")
    whole = agents.AgentOptions(
        settings=AgentSettings(mode=mode, namespace=namespace, **settings),
        dialing=replace(usual, **(dialing or {})),
        source=Secrets(
            store=store,
            namespace=namespace,
            pair="argocd-agent-client-tls",
            authorities="argocd-agent-ca",
        ),
        health_host="127.0.0.1",
        health_port=0,
        metrics_port=0,
    )
    return agents.AgentProcess(store, replace(whole, **(serving or {})))


@asynccontextmanager
async def connected_agent(
    store: Store, pki: Pki, *, name: str, **more: Any
) -> AsyncIterator[agents.AgentProcess]:
    process = await equipped_agent(store, pki, name=name, **more)
    async with started(process):
        async with asyncio.timeout(PATIENCE):
            await process.connected.wait()
        yield process


async def equipped_agent(
    store: Store, pki: Pki, *, name: str, age: timedelta = timedelta(), **more: Any
) -> agents.AgentProcess:
    """With a certificate of its own, not started yet."""
    await pki.equip(
        store,
        namespace=more.get("namespace", "argocd"),
        name="argocd-agent-client-tls",
        pair=pki.pair(name, server=False, age=age),
    )
    return agent(store, **more)


async def fetch(port: int, path: str) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        async with asyncio.timeout(PATIENCE):
            answer = (await reader.read()).decode()
    finally:
        writer.close()
    head, _, body = answer.partition("\r\n\r\n")
    return int(head.split()[1]), body
