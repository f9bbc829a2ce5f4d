"""kubectl and tiphys against clusters that somebody else made."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CALL_SECONDS = 60
PATIENCE_SECONDS = 60.0
PAUSE_SECONDS = 0.2

Object = dict[str, Any]
Done = subprocess.CompletedProcess[str]


class FailedError(Exception):
    """A step did not show what it must."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One cluster, and where on it Tiphys and Argo CD live."""

    kubeconfig: Path
    kubectl: str = "kubectl"
    home: str = "tiphys-system"
    argocd: str = "argocd"

    def run(self, *words: str, stdin: str | None = None) -> Done:
        return _run([self.kubectl, "--kubeconfig", str(self.kubeconfig), *words], stdin=stdin)

    def must(self, *words: str, stdin: str | None = None) -> str:
        done = self.run(*words, stdin=stdin)
        if done.returncode:
            raise FailedError(f"kubectl {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def apply(self, thing: Object, *words: str) -> Done:
        return self.run(
            "apply", "--server-side", "--force-conflicts", *words, "-f", "-", stdin=yaml.safe_dump(thing)
        )

    def get(self, kind: str, name: str, *, namespace: str = "") -> Object | None:
        where = ("--namespace", namespace) if namespace else ()
        done = self.run("get", kind, name, *where, "--output", "json")
        return json.loads(done.stdout) if done.returncode == 0 else None

    def webhook(self, *words: str) -> Done:
        places = ["--namespace", self.home, "--argocd-namespace", self.argocd]
        return _run(
            [sys.executable, "-m", "cli", "webhook", *places, "--kubeconfig", str(self.kubeconfig), *words]
        )


def _run(command: list[str], *, stdin: str | None = None) -> Done:
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=CALL_SECONDS, check=False, cwd=ROOT
    )


def until(told: Callable[[], Any], *, what: str) -> Any:
    """A cluster watches for us, a script cannot: asks until the answer is true."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if found := told():
            return found
        time.sleep(PAUSE_SECONDS)
    raise FailedError(f"not within {PATIENCE_SECONDS:g} s: {what}")


def demand(holds: object, what: str) -> None:
    if not holds:
        raise FailedError(what)
