"""`tiphys webhook` as a process in front of a real API server."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.cluster.controlplane import Cluster
from scripts.ports import free_port
from tests.command_here import tiphys_here
from tests.webhook.conftest import ROOT

READY_SECONDS = 60


@dataclass
class Guard:
    """Namespaces of its own, so that several can share a cluster; only one can be registered at a time."""

    cluster: Cluster
    folder: Path
    home: str
    argocd: str
    arguments: tuple[str, ...] = ()
    kubeconfig: Path | None = None
    port: int = field(default_factory=free_port)
    probes: int = field(default_factory=free_port)
    pages: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Guard":
        self.launch()
        self.wait_ready()
        return self

    def launch(self) -> None:
        """Does not wait until it is ready."""
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "cli", *self.command("webhook")),
                *("--host", "127.0.0.1", "--port", str(self.port)),
                *("--probes-host", "127.0.0.1", "--probes-port", str(self.probes)),
                *("--pages-port", str(self.pages)),
                *("--runtime-folder", str(self.folder), "--drain-seconds", "1"),
                *self.arguments,
            ],
            stderr=(self.folder / f"log-{self.port}").open("ab"),
            env=environment(),
            cwd=ROOT,
        )

    @property
    def log(self) -> str:
        return (self.folder / f"log-{self.port}").read_text()

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    def command(self, *words: str) -> list[str]:
        """`tiphys webhook` with its namespaces; more words follow."""
        first, *rest = words
        places = ["--namespace", self.home, "--argocd-namespace", self.argocd]
        account = ["--kubeconfig", str(self.kubeconfig or self.cluster.kubeconfig)]
        return [first, *places, *account, *rest]

    def tiphys(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = tiphys_here(*self.command(*words))
        assert not check or done.returncode == 0, done.stdout + done.stderr
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def register(self, url: str = "") -> None:
        self.tiphys("webhook", "register", "--url", url or self.url)

    def unregister(self) -> None:
        """Also lets go of the caBundle, whoever registers next."""
        self.tiphys("webhook", "unregister")

    def status(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(
            self.tiphys("webhook", "status", "--format", "json", check=False).stdout
        )
        return told

    def page(self, path: str) -> tuple[int, str]:
        port = self.probes if path in {"/healthz", "/readyz", "/metrics"} else self.pages
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    @property
    def troubles(self) -> dict[str, str]:
        """Of the status page; empty until it is served."""
        with contextlib.suppress(OSError):
            told: dict[str, str] = json.loads(self.page("/status.json")[1])["troubles"]
            return told
        return {}

    def wait_ready(self) -> None:
        assert self.process is not None
        deadline, said = time.monotonic() + READY_SECONDS, ""
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.log
            with contextlib.suppress(OSError):
                code, said = self.page("/readyz")
                if code == 200:
                    return
            time.sleep(0.1)
        raise AssertionError(f"not ready: {said}\n{self.log}")

    def stop(self) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(timeout=10)


def environment() -> dict[str, str]:
    kept = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    return {**kept, "PYTHONPATH": str(ROOT)}
