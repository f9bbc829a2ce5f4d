"""An installation by the manifests on local API servers, its programs under the accounts that these give them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from scripts.acceptance.steps import NAME
from scripts.cluster.controlplane import Cluster
from scripts.ports import free_port
from tests.command_here import tiphys_here
from tests.webhook.conftest import ROOT
from tests.webhook.webhook_process import environment

MANIFESTS = ROOT / "manifests" / "overlays"
AGENT = "prod"


@contextmanager
def installed(cluster: Cluster, overlay: str | Path) -> Iterator[None]:
    """One of ours by its name, or an admin's own by its folder."""
    try:
        cluster.create_namespace("argocd")
        cluster.kubectl("apply", "--server-side", "-k", str(MANIFESTS / overlay))
        yield
    finally:
        cluster.kubectl("delete", "--wait=false", "--ignore-not-found", "-k", str(MANIFESTS / overlay))
        for namespace in ("tiphys-system", "argocd", AGENT, NAME):
            cluster.kubectl("delete", "namespace", namespace, "--ignore-not-found", "--wait=false")
            cluster.drop_namespace(namespace)


def listening(role: str) -> list[str]:
    """Flags for ports that nobody else has."""
    words = ["--metrics-port", str(free_port()), "--healthz-port", str(free_port())]
    return words + (
        ["--agents-port", str(free_port()), "--disable-redis-proxy"] if role == "principal" else []
    )


@contextmanager
def sidecar(
    role: str, cluster: Cluster, *words: str, folder: Path, namespace: str = "argocd"
) -> Iterator[Path]:
    """`tiphys principal` or `tiphys agent`; yields its log."""
    account = cluster.kubeconfig_of_account(f"tiphys-{role}", namespace=namespace)
    log = folder / f"{role}.log"
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "cli", role, "--kubeconfig", str(account)),
            *listening(role),
            *words,
        ],
        stderr=log.open("wb"),
        env=environment(),
        cwd=ROOT,
    )
    try:
        yield log
        assert process.poll() is None, log.read_text()
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=30)
        finally:
            process.kill()
            process.wait(timeout=10)


def with_injection(folder: Path, overlay: str, *, image: str) -> Path:
    """An admin's own overlay as docs/injection.md shows it."""
    folder.mkdir()
    template = (MANIFESTS.parent / "components" / "injection" / "templates.yaml").read_text()
    (folder / "templates.yaml").write_text(template.replace("image: tiphys\n", f"image: {image}\n"))
    here = Path(os.path.relpath(MANIFESTS.parent, folder.resolve()))
    kustomization = {
        "resources": [str(here / "overlays" / overlay)],
        "components": [str(here / "components" / "injection")],
        "patches": [{"path": "templates.yaml"}],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return folder


def tiphys(cluster: Cluster, *words: str) -> None:
    done = tiphys_here(*words, "--kubeconfig", str(cluster.kubeconfig))
    assert done.returncode == 0, done.stderr


def certificates(
    control_plane: Cluster, workload: Cluster, *, folder: Path, resource_proxy_port: int = 0
) -> None:
    """By the commands that the docs name; with a port also what live objects need."""
    tiphys(control_plane, "pki", "init")
    tiphys(control_plane, "pki", "issue", "principal", "--dns", "localhost")
    proxy: tuple[str, ...] = ()
    if resource_proxy_port:
        tiphys(control_plane, "pki", "issue", "resource-proxy", "--dns", "localhost")
        proxy = ("--resource-proxy-address", f"localhost:{resource_proxy_port}")
    tiphys(control_plane, "agents", "create", AGENT, "--create-namespace", *proxy)
    tiphys(control_plane, "pki", "issue", "agent", AGENT, "--output", str(folder))
    secret = ("create", "secret", "--namespace", "argocd")
    pair = (f"--cert={folder / 'tls.crt'}", f"--key={folder / 'tls.key'}")
    workload.kubectl(*secret, "tls", "argocd-agent-client-tls", *pair)
    workload.kubectl(*secret, "generic", "argocd-agent-ca", f"--from-file=ca.crt={folder / 'ca.crt'}")


def allow_pair(cluster: Cluster) -> None:
    """What the component for a pair adds, without its fence."""
    patches = yaml.safe_load(
        (MANIFESTS.parent / "components" / "high-availability" / "roles.yaml").read_text()
    )
    name = {"name": "of-a-pair", "namespace": "argocd"}
    role = {"kind": "Role", "metadata": name, "rules": [patch["value"] for patch in patches]}
    binding = {
        "kind": "RoleBinding",
        "metadata": name,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "of-a-pair"},
        "subjects": [{"kind": "ServiceAccount", "name": "tiphys-principal", "namespace": "argocd"}],
    }
    for thing in (role, binding):
        body = {"apiVersion": "rbac.authorization.k8s.io/v1", **thing}
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(body))
