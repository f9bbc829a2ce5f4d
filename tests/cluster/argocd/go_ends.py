"""A real argocd-agent in place of one of our sidecars, beside a real Argo CD."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from argocd.agents.vocabulary import Mode
from scripts.argocd_agent import BINARY, agent_arguments
from scripts.cluster.argocd.installation import NAMESPACE, ArgoCd
from scripts.ports import free_port

GO_PORTS = (9090, 6379)
"""Of its principal's proxies: there is no flag for others."""


class GoEnd(StrEnum):
    AGENT = "agent"
    PRINCIPAL = "principal"


@contextmanager
def _running(name: str, *words: str, folder: Path) -> Iterator[None]:
    log = folder / f"{name}.log"
    process = subprocess.Popen([BINARY, name, *words], stdout=log.open("wb"), stderr=subprocess.STDOUT)
    try:
        yield
        assert process.poll() is None, log.read_text()[-3000:]
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        finally:
            process.kill()
            process.wait(timeout=10)


@contextmanager
def go_agent(workload: ArgoCd, *words: str, mode: Mode, port: int, folder: Path) -> Iterator[None]:
    for suffix in ("crt", "key"):
        shutil.copy(folder / f"tls.{suffix}", folder / f"agent.{suffix}")
    arguments = agent_arguments(folder, workload.cluster, NAMESPACE, port, mode.value, resource_proxy=True)
    more = ("--server-address=localhost", f"--redis-addr={workload.redis}", *words)
    with _running(*arguments, *more, folder=folder):
        yield


@contextmanager
def go_principal(hub: ArgoCd, *, port: int, password: str, folder: Path) -> Iterator[None]:
    """With the Secrets that `tiphys pki` has made, which are argocd-agentctl's."""
    words = (
        "--listen-host=localhost",
        f"--listen-port={port}",
        f"--namespace={NAMESPACE}",
        "--allowed-namespaces=*",
        "--auth=mtls:CN=([^,]+)",
        "--disable-redis-proxy=false",
        f"--redis-server-address={hub.redis}",
        f"--redis-password={password}",
        f"--kubeconfig={hub.cluster.kubeconfig}",
        f"--metrics-port={free_port()}",
        f"--healthz-port={free_port()}",
    )
    with _running("principal", *words, folder=folder):
        yield
