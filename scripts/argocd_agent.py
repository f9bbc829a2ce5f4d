"""How a real argocd-agent is started beside local API servers; `ARGOCD_AGENT_BIN` names the binary."""

import os
from collections.abc import Sequence
from pathlib import Path

from scripts.cluster.controlplane import Cluster
from scripts.ports import free_port

BINARY = os.environ.get("ARGOCD_AGENT_BIN", "")
AGENTCTL = str(Path(BINARY).with_name("argocd-agentctl")) if BINARY else ""
"""Its command line tool, where it is beside it."""


def agent_arguments(
    folder: Path,
    cluster: Cluster,
    namespace: str,
    port: int,
    mode: str,
    *,
    name: str = "agent",
    resource_proxy: bool = False,
) -> Sequence[str]:
    return (
        "agent",
        f"--agent-mode={mode}",
        "--creds=mtls:any",
        "--server-address=127.0.0.1",
        f"--server-port={port}",
        f"--root-ca-path={folder / 'ca.crt'}",
        f"--tls-client-cert={folder / f'{name}.crt'}",
        f"--tls-client-key={folder / f'{name}.key'}",
        f"--namespace={namespace}",
        f"--kubeconfig={cluster.kubeconfig}",
        f"--metrics-port={free_port()}",
        f"--healthz-port={free_port()}",
        f"--enable-resource-proxy={str(resource_proxy).lower()}",
        "--redis-addr=127.0.0.1:1",
    )


def principal_arguments(
    folder: Path,
    cluster: Cluster,
    namespace: str,
    port: int,
    *,
    allowed: str = "*",
    resource_proxy: bool = False,
) -> Sequence[str]:
    """Its resource proxy has port 9090, whatever one wants."""
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
        f"--enable-resource-proxy={str(resource_proxy).lower()}",
        f"--resource-proxy-cert-path={folder / 'principal.crt'}",
        f"--resource-proxy-key-path={folder / 'principal.key'}",
        f"--resource-proxy-ca-path={folder / 'ca.crt'}",
        "--disable-redis-proxy",
        "--redis-server-address=127.0.0.1:1",
        f"--kubeconfig={cluster.kubeconfig}",
        f"--metrics-port={free_port()}",
        f"--healthz-port={free_port()}",
    )
