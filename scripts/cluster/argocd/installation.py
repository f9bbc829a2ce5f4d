"""One Argo CD on one local cluster: each component a process under its own account, ended with the cluster."""

import base64
import contextlib
import http.client
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from scripts.cluster.api import MERGE_PATCH, RefusedError
from scripts.cluster.argocd.components import (
    EVERYTHING,
    REDIS,
    Component,
    Ports,
    Settings,
    arguments,
    controller_manager_command,
    environment,
    health,
    redis_command,
)
from scripts.cluster.argocd.programs import CLI, CONTROLLER_MANAGER, Programs
from scripts.cluster.argocd.repository import Repository
from scripts.cluster.controlplane import Cluster, ClusterError
from scripts.cluster.credentials import LIFETIME, write_private
from scripts.ports import free_port

NAMESPACE = "argocd"
"""Fixed: the bindings of Argo CD's own manifest name it."""

START_SECONDS = 60.0  # 1 to 3 s each on an idle machine
START_ATTEMPTS = 3  # a port that was free a moment ago may be taken
LOOK_SECONDS = 0.05
PROBE_SECONDS = 2.0
CLI_SECONDS = 60.0
SERVER_RIGHTS = [
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
    {
        "apiGroups": ["argoproj.io"],
        "resources": ["applications"],
        "verbs": ["create", "delete", "update", "patch"],
    },
]
"""What Argo CD's examples/k8s-rbac add for Applications in other namespaces."""


class ArgoCd:
    """On a cluster that runs; a hub has only some of the components."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        programs: Programs,
        components: Sequence[Component] = EVERYTHING,
        resync_seconds: int = 30,
        application_namespaces: tuple[str, ...] = (),
        redis_password: str = "",
        redis_words: tuple[str, ...] = (),
    ) -> None:
        """`redis_words`: what else redis-server is told."""
        self.cluster = cluster
        self.seconds: dict[str, float] = {}
        """What each step of the start took."""
        self.server = ""
        """Host and port of argocd-server, where there is one."""
        self._programs = programs
        self._components = components
        self._resync_seconds = resync_seconds
        self._application_namespaces = application_namespaces
        self._repo_server = ""
        self._redis_password = redis_password
        self._redis_words = redis_words
        self.redis = ""
        self.redis_of_server = ""
        """Another one for argocd-server alone: host and port of a proxy."""
        self.server_words: tuple[str, ...] = ()
        """What else argocd-server is told."""

    def start(self) -> Self:
        """Everything at work when it returns."""
        for name in ("tmp", "plugins", "ssh", "tls"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "ssh" / "ssh_known_hosts").touch()
        with self._timed(CONTROLLER_MANAGER):
            self._start_controllers()
        with self._timed("install"):
            self._install()
        with self._timed(REDIS):
            self._start_redis()
        for component in EVERYTHING:
            if component in self._components:
                with self._timed(component):
                    self.start_component(component)
        if Component.SERVER in self._components:
            with self._timed("login"):
                self.log_in()
        return self

    @property
    def folder(self) -> Path:
        return self.cluster.folder / "argo-cd"

    @property
    def password_file(self) -> Path:
        """The administrator's password in argocd-server."""
        return self.folder / "admin-password"

    @property
    def client_config(self) -> Path:
        """With it `argocd` is logged in as the administrator."""
        return self.folder / "client.yaml"

    def repository(self, name: str) -> Repository:
        return Repository(self.folder / "repositories" / name)

    def cli(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """`argocd` as the administrator, against argocd-server."""
        done = subprocess.run(
            [str(self._programs.argocd), *words, "--config", str(self.client_config)],
            env={"ARGOCD_BINARY_NAME": CLI, "HOME": str(self.folder), "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            timeout=CLI_SECONDS,
            check=False,
        )
        if check and done.returncode:
            raise ClusterError(f"argocd {' '.join(words)} ended with {done.returncode}: {done.stderr}")
        return done

    def start_component(self, component: Component) -> None:
        """Returns when it is healthy."""
        kubeconfig = self.cluster.kubeconfig_of_account(
            component.value, namespace=NAMESPACE, seconds=int(LIFETIME.total_seconds())
        )
        variables = environment(component, folder=self.folder, kubeconfig=kubeconfig, path=os.environ["PATH"])
        if self._redis_password:
            variables["REDIS_PASSWORD"] = self._redis_password

        def start() -> Callable[[], bool]:
            serving = free_port()
            ports = Ports(serving=serving, metrics=free_port(), probe=free_port())
            address = f"127.0.0.1:{serving}"
            if component is Component.REPO_SERVER:
                self._repo_server = address
            if component is Component.SERVER:
                self.server = address
            settings = Settings(
                redis=(component is Component.SERVER and self.redis_of_server) or self.redis,
                repo_server=self._repo_server,
                resync_seconds=self._resync_seconds,
                application_namespaces=self._application_namespaces,
            )
            words = arguments(component, ports=ports, settings=settings)
            if component is Component.SERVER:
                words += self.server_words
            self._start_program(component.value, [str(self._programs.argocd), *words], variables)
            return lambda: _answers(*health(component, ports))

        self._started(component.value, start)

    def end_component(self, component: Component, *, kill: bool = False) -> None:
        self.cluster.processes.end(component.value, kill=kill)

    def log(self, component: Component) -> str:
        return self.cluster.log(component.value)

    def _start_controllers(self) -> None:
        user = self.cluster.kubeconfig_of("system:kube-controller-manager")
        self._start_program(
            CONTROLLER_MANAGER,
            controller_manager_command(self._programs.controller_manager, kubeconfig=user),
            None,
        )
        self.cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
        self._wait(CONTROLLER_MANAGER, lambda: self._get(account) is not None)

    def _install(self) -> None:
        # Forced: the definitions of the cluster's seed are those of another version.
        apply = ("apply", "--server-side", "--force-conflicts", "--namespace", NAMESPACE)
        self.cluster.kubectl(*apply, "-f", str(self._programs.install))
        if self._application_namespaces:
            self.cluster.grant(rules=SERVER_RIGHTS, account=f"{NAMESPACE}/{Component.SERVER}")
            # The components have a flag for it; others look where a cluster says it.
            self.cluster.request(
                "PATCH",
                f"/api/v1/namespaces/{NAMESPACE}/configmaps/argocd-cmd-params-cm",
                {"data": {"application.namespaces": ",".join(self._application_namespaces)}},
                content_type=MERGE_PATCH,
            )
        if Component.SERVER not in self._components:
            # argocd-server would make it, and without it no Application is valid.
            key = base64.b64encode(secrets.token_bytes(32)).decode()
            self.cluster.request(
                "PATCH",
                f"/api/v1/namespaces/{NAMESPACE}/secrets/argocd-secret",
                {"stringData": {"server.secretkey": key}},
                content_type=MERGE_PATCH,
            )

    def _start_redis(self) -> None:
        def start() -> Callable[[], bool]:
            port = free_port()
            self.redis = f"127.0.0.1:{port}"
            command = redis_command(self._programs.redis, port=port, folder=self.folder)
            if self._redis_password:
                command += ["--requirepass", self._redis_password]
            command += self._redis_words
            self._start_program(REDIS, command, None)
            return lambda: _listens(port)

        self._started(REDIS, start)

    def log_in(self) -> None:
        secret = f"/api/v1/namespaces/{NAMESPACE}/secrets/argocd-initial-admin-secret"
        self._wait(Component.SERVER, lambda: self._get(secret) is not None)
        password = base64.b64decode(self._get(secret)["data"]["password"])
        write_private(self.password_file, password)
        self.cli("login", self.server, "--plaintext", "--username", "admin", "--password", password.decode())

    def _start_program(self, name: str, argv: list[str], variables: dict[str, str] | None) -> None:
        self.cluster.pids[name] = self.cluster.processes.start(name, argv, environment=variables)

    def _started(self, name: str, start: Callable[[], Callable[[], bool]]) -> None:
        """Starts it, on other ports where somebody has just taken one; `start` tells how to see that it is ready."""
        for attempt in range(1, START_ATTEMPTS + 1):
            try:
                self._wait(name, start())
            except ClusterError as error:
                if attempt == START_ATTEMPTS or "address already in use" not in str(error).lower():
                    raise
            else:
                return

    def _wait(self, name: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            code = self.cluster.processes.exit_code(name)
            if code is not None:
                raise ClusterError(f"{name} ended with {code} while starting: {self._last_words(name)}")
            if ready():
                return
            time.sleep(LOOK_SECONDS)
        raise ClusterError(f"{name} was not ready within {START_SECONDS:.0f} s: {self._last_words(name)}")

    def _last_words(self, name: str) -> str:
        return "\n".join(self.cluster.log(name).splitlines()[-5:])

    def _get(self, path: str) -> Any:
        try:
            return self.cluster.request("GET", path)
        except RefusedError as error:
            if error.code != http.client.NOT_FOUND:
                raise
            return None

    @contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        begin = time.monotonic()
        yield
        self.seconds[step] = time.monotonic() - begin


def _answers(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PROBE_SECONDS)
    with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
        connection.request("GET", path)
        return connection.getresponse().status == http.client.OK
    return False


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=PROBE_SECONDS):
        return True
    return False
