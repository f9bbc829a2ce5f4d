"""Tiphys as it is and as it was: code and manifests of a commit, each run under the accounts of its manifests."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from scripts.cluster.controlplane import Cluster
from scripts.ports import free_port
from tests.cluster.installation import AGENT, listening
from tests.webhook.conftest import ROOT
from tests.webhook.webhook_process import Guard

FORMER = "8c4a691"
"""The first state of the code that others were given."""

STOP_SECONDS = 60
HOME, ARGOCD = "tiphys-system", "argocd"


@dataclass(frozen=True, slots=True)
class Release:
    root: Path

    @property
    def is_former(self) -> bool:
        return self.root != ROOT

    def environment(self) -> dict[str, str]:
        kept = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
        return {**kept, "PYTHONPATH": str(self.root)}

    def apply(self, cluster: Cluster, overlay: str) -> None:
        folder = str(self.root / "manifests" / "overlays" / overlay)
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", folder)

    def tiphys(self, cluster: Cluster, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "cli", *words],
            env=self.environment() | {"KUBECONFIG": str(cluster.kubeconfig)},
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def webhook(self, cluster: Cluster, folder: Path) -> Guard:
        account = cluster.kubeconfig_of_account("tiphys-webhook", namespace=HOME)
        made = FormerGuard if self.is_former else Guard
        folder.mkdir(parents=True)
        guard = made(cluster=cluster, folder=folder, home=HOME, argocd=ARGOCD, kubeconfig=account)
        guard.release = self  # type: ignore[attr-defined]
        return guard

    def sidecar(self, role: str, cluster: Cluster, *words: str, log: Path) -> subprocess.Popen[bytes]:
        account = cluster.kubeconfig_of_account(f"tiphys-{role}", namespace=ARGOCD)
        ports = ["--metrics-port", str(free_port()), "--healthz-port", str(free_port())]
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "cli", role, "--kubeconfig", str(account)),
                *(ports if self.is_former else listening(role)),
                *words,
            ],
            stderr=log.open("ab"),
            env=self.environment(),
            cwd=self.root,
        )


class FormerGuard(Guard):
    """Its probes were on the port of its pages."""

    release: Release

    def launch(self) -> None:
        self.probes = self.pages
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "cli", *self.command("webhook")),
                *("--host", "127.0.0.1", "--port", str(self.port)),
                *("--pages-host", "127.0.0.1", "--pages-port", str(self.pages)),
                *("--runtime-folder", str(self.folder), "--drain-seconds", "1"),
                *self.arguments,
            ],
            stderr=(self.folder / f"log-{self.port}").open("ab"),
            env=self.release.environment(),
            cwd=self.release.root,
        )


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    finally:
        process.kill()
        process.wait(10)


def join_agent(release: Release, hub: Cluster, edge: Cluster, *, folder: Path) -> None:
    """By the commands that the first pages named."""
    release.tiphys(hub, "pki", "init")
    release.tiphys(hub, "pki", "issue", "principal", "--dns", "localhost")
    release.tiphys(hub, "agents", "create", AGENT, "--create-namespace")
    release.tiphys(hub, "pki", "issue", "agent", AGENT, "--output", str(folder))
    secret = ("create", "secret", "--namespace", ARGOCD)
    edge.kubectl(
        *secret, "tls", "argocd-agent-client-tls", f"--cert={folder}/tls.crt", f"--key={folder}/tls.key"
    )
    edge.kubectl(*secret, "generic", "argocd-agent-ca", f"--from-file=ca.crt={folder}/ca.crt")
