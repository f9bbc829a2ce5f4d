"""kubectl in front of an API server that asks `tiphys webhook`: what most tests on a real cluster need."""

import json
import os
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from argocd import names
from scripts.cluster.api import APPLY, RefusedError
from scripts.cluster.controlplane import Cluster
from tests.webhook.webhook_process import Guard

PATIENCE_SECONDS = 60  # most of it passes in milliseconds, on a busy machine in seconds
GOLDEN = Path(__file__).with_name("golden")
GROUP = "/apis/argoproj.io/v1alpha1"

Object = dict[str, Any]
Done = subprocess.CompletedProcess[str]


@dataclass
class Guarded:
    """Objects without a namespace go to Argo CD's; the tests of a module share it, so names are a test's own."""

    guard: Guard

    @property
    def cluster(self) -> Cluster:
        return self.guard.cluster

    @property
    def argocd(self) -> str:
        return self.guard.argocd

    def kubectl(
        self, *arguments: str, stdin: str | None = None, writer: str = "", check: bool = True
    ) -> Done:
        """As the administrator, or as `writer` with the same rights."""
        acting = ("--as", writer, "--as-group", "system:masters") if writer else ()
        return self.cluster.kubectl(*arguments, *acting, stdin=stdin, check=check)

    def write(
        self,
        things: str | Object | list[Object],
        *arguments: str,
        writer: str = "",
        namespace: str = "",
        check: bool = True,
    ) -> Done:
        """`kubectl apply` of one or several objects unless the arguments say otherwise."""
        text = (
            things
            if isinstance(things, str)
            else yaml.safe_dump_all(things if isinstance(things, list) else [things])
        )
        words = arguments if arguments and not arguments[0].startswith("-") else ("apply", *arguments)
        return self.kubectl(
            *words, "-n", namespace or self.argocd, "-f", "-", stdin=text, writer=writer, check=check
        )

    def account(self, name: str) -> str:
        return f"{names.SERVICE_ACCOUNT_PREFIX}{self.argocd}:{name}"

    @property
    def controller(self) -> str:
        return self.account("argocd-application-controller")

    @property
    def principal(self) -> str:
        return self.account("tiphys-principal")

    def get(self, kind: str, name: str, namespace: str = "") -> Object:
        found: Object = json.loads(
            self.kubectl("get", kind, name, "-n", namespace or self.argocd, "-o", "json").stdout
        )
        return found

    def config_map(self, name: str, namespace: str, data: dict[str, str] | None) -> None:
        """Written past kubectl, because tests do it often; None deletes."""
        path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
        if data is None:
            with suppress(RefusedError):
                self.cluster.request("DELETE", path)
            return
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
        self.cluster.request("PATCH", f"{path}?fieldManager=tests&force=true", body, content_type=APPLY)

    @contextmanager
    def configured(self, text: str) -> Iterator[None]:
        """With this `tiphys.yaml`; callers wait for what they expect of it. After it none counts any more."""
        self._configure(text)
        try:
            yield
        finally:
            self._end_configuration()
            self.config_map(names.TIPHYS_CONFIG_MAP, self.guard.home, None)

    def _configure(self, text: str) -> None:
        self.config_map(names.TIPHYS_CONFIG_MAP, self.guard.home, {names.TIPHYS_CONFIG_KEY: text})

    def _end_configuration(self) -> None:
        """One that changes nothing for anybody else's objects, but can be seen to count."""
        name = f"nobodys-{uuid.uuid4().hex}"
        self._configure(f"exemptions: [{{rules: [project/*], names: [{name}], reason: seen}}]")
        until(
            lambda: self._passes(name) and not self._passes(f"{name}-neither"),
            what="the test's configuration has ended",
        )

    def _passes(self, name: str) -> bool:
        bad = {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "AppProject",
            "metadata": {"name": name},
            "spec": {"sourceRepos": ["!*"]},
        }
        try:
            self.cluster.request("POST", f"{GROUP}/namespaces/{self.argocd}/appprojects?dryRun=All", bad)
        except RefusedError:
            return False
        return True

    def clear(self) -> None:
        """What tests wrote into Argo CD's namespace, once nobody guards it."""
        for plural in ("applications", "applicationsets", "appprojects"):
            self.cluster.empty(f"{GROUP}/namespaces/{self.argocd}/{plural}")
        for plural in ("configmaps", "secrets"):
            self.cluster.empty(f"/api/v1/namespaces/{self.argocd}/{plural}")

    @contextmanager
    def settings(self, **data: str) -> Iterator[None]:
        """With this argocd-cm."""
        self.config_map(names.ARGOCD_CM, self.argocd, data)
        try:
            yield
        finally:
            self.config_map(names.ARGOCD_CM, self.argocd, None)


def until(told: Callable[[], Any], *, what: str) -> Any:
    """What is watched arrives a moment after it was written: asks until the answer is true."""
    deadline, last = time.monotonic() + PATIENCE_SECONDS, None
    while time.monotonic() < deadline:
        last = told()
        if last:
            return last
        time.sleep(0.05)
    raise AssertionError(f"{what}: still {last!r} after {PATIENCE_SECONDS} s")


def compare_with_golden(path: str, told: str) -> None:
    """`TIPHYS_GOLDEN=write` renews the file."""
    expected = GOLDEN / path
    if os.environ.get("TIPHYS_GOLDEN") == "write":
        expected.parent.mkdir(parents=True, exist_ok=True)
        expected.write_text(told)
    assert told == expected.read_text()
