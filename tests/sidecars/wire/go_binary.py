"""A real argocd-agent as a child process; `ARGOCD_AGENT_BIN` names the binary."""

import asyncio
import os
import random
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from scripts.cluster.controlplane import Cluster
from tests.sidecars.wire.pki import Issued
from tests.sidecars.wire.principals import AUTHORITY, PRINCIPAL

BINARY = os.environ.get("ARGOCD_AGENT_BIN", "")


def free_port() -> int:
    """argocd-agent takes no port above 32767 for its own listeners."""
    for port in random.sample(range(20_000, 32_767), k=50):
        with socket.socket() as bound, suppress(OSError):
            bound.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no free port among fifty")


@asynccontextmanager
async def running(folder: Path, *arguments: str) -> AsyncIterator[Path]:
    """The binary until the end of the block; yields the file that holds its log."""
    log = folder / "log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(BINARY, *arguments, stdout=output, stderr=output)
    try:
        yield log
    finally:
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(20):
            await process.wait()


def said(log: Path) -> str:
    return log.read_text()[-4000:]


def written(folder: Path, *, agent: Issued) -> Path:
    """What argocd-agent reads from files."""
    for name, issued in (("principal", PRINCIPAL), ("agent", agent)):
        pair = issued.pair()
        (folder / f"{name}.crt").write_bytes(pair.certificate)
        (folder / f"{name}.key").write_bytes(pair.key)
    (folder / "ca.crt").write_bytes(AUTHORITY.pem)
    return folder


def agent_arguments(folder: Path, cluster: Cluster, namespace: str, port: int, mode: str) -> Sequence[str]:
    return (
        "agent",
        f"--agent-mode={mode}",
        "--creds=mtls:any",
        "--server-address=127.0.0.1",
        f"--server-port={port}",
        f"--root-ca-path={folder / 'ca.crt'}",
        f"--tls-client-cert={folder / 'agent.crt'}",
        f"--tls-client-key={folder / 'agent.key'}",
        f"--namespace={namespace}",
        f"--kubeconfig={cluster.kubeconfig}",
        f"--metrics-port={free_port()}",
        f"--healthz-port={free_port()}",
        "--enable-resource-proxy=false",
        "--redis-addr=127.0.0.1:1",
    )


def principal_arguments(
    folder: Path, cluster: Cluster, namespace: str, port: int, *, allowed: str = "*"
) -> Sequence[str]:
    return (
        "principal",
        "--listen-host=127.0.0.1",
        f"--listen-port={port}",
        f"--namespace={namespace}",
        f"--allowed-namespaces={allowed}",
        f"--tls-cert={folder / 'principal.crt'}",
        f"--tls-key={folder / 'principal.key'}",
        f"--root-ca-path={folder / 'ca.crt'}",
        "--require-client-certs",
        "--auth=mtls:CN=([^,]+)",
        "--insecure-jwt-generate",
        "--enable-resource-proxy=false",
        "--disable-redis-proxy",
        "--redis-server-address=127.0.0.1:1",
        f"--kubeconfig={cluster.kubeconfig}",
        f"--metrics-port={free_port()}",
        f"--healthz-port={free_port()}",
    )
