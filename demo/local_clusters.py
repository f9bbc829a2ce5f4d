"""Four real API servers on this machine, started by scripts/cluster of a source checkout and set up as manifests/ says."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from demo.clusters import (
    AUTONOMOUS,
    CONTROL_PLANE,
    CONTROLLER,
    DEVELOPER,
    MANAGED,
    NAMESPACES_OF,
    SECOND_REGION,
    TEAM,
    DemoClusters,
)
from kube.errors import AlreadyExistsError
from kube.live import LiveStore
from kube.resources import NAMESPACES, SERVICE_ACCOUNTS
from kube.store import Identity, Object, Resource
from tiphys.errors import CallError, SurroundingsError

ROOT = Path(__file__).parents[1]
CLUSTER_SCRIPT = ROOT / "scripts" / "cluster" / "__main__.py"
OVERLAYS = {
    # The first region's is the same but for a flag of a Deployment, which nothing runs here.
    CONTROL_PLANE: "standby",
    SECOND_REGION: "standby",
    MANAGED: "workload-managed",
    AUTONOMOUS: "workload-autonomous",
}
ARGOCD_PARTS = {CONTROL_PLANE: "hub", MANAGED: "workload"}
"""What of Argo CD runs where, as scripts/cluster calls it; the others' has nothing to do in the story."""
END_SECONDS = 15.0
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)


@dataclass(frozen=True, slots=True)
class LocalServer:
    """One API server: its administrator's kubeconfig, and a kubectl of its version."""

    kubeconfig: Path
    kubectl: Path
    argocd_server: str = ""
    """Host and port of its Argo CD, where one runs; `argocd_password` is the file with the administrator's password,
    `repository` one that it can deploy from.
    """
    argocd_password: str = ""
    repository: str = ""


class LocalClusters(DemoClusters):
    def __init__(self, servers: Mapping[str, LocalServer], stores: Mapping[str, LiveStore]) -> None:
        super().__init__(stores)
        self.servers = servers
        self._connections: dict[tuple[str, str], LiveStore] = {}

    async def as_user(self, cluster: str, user: Identity) -> LiveStore:
        """By impersonation: RBAC and admission see the user, not the administrator."""
        key = (cluster, user.user)
        if key not in self._connections:
            self._connections[key] = await LiveStore.connect(
                kubeconfig=self.servers[cluster].kubeconfig,
                impersonate=user,
                on_warning=partial(self.warned, user.user),
            )
        return self._connections[key]

    async def close(self) -> None:
        for store in (*self._connections.values(), *self.stores.values()):
            await store.close()


def check_source_checkout() -> None:
    if not CLUSTER_SCRIPT.exists():
        raise CallError(
            "--cluster starts API servers with scripts/cluster, which an installed tiphys does not have:"
            " call it from a source checkout (make run ARGS=--cluster), or leave --cluster out"
        )


@asynccontextmanager
async def local_clusters(folder: Path, *, argocd: bool) -> AsyncIterator[LocalClusters]:
    """All four with the accounts, rights and settings of manifests/; gone at the end. A real Argo CD runs on two."""
    async with AsyncExitStack() as stack:
        processes: list[Process] = []
        stack.push_async_callback(_end_all, processes)
        # The first time ever it builds for minutes, and says so.
        parts = ARGOCD_PARTS if argocd else {}
        ensure = _cluster_command("ensure", *(["--argocd"] if argocd else []))
        await _run_process(processes, *ensure, what="preparing")
        found = await asyncio.gather(*(_start_server(processes, parts.get(name)) for name in NAMESPACES_OF))
        servers = dict(zip(NAMESPACES_OF, found, strict=True))
        stores = {
            cluster: await LiveStore.connect(kubeconfig=one.kubeconfig) for cluster, one in servers.items()
        }
        clusters = LocalClusters(servers, stores)
        stack.push_async_callback(clusters.close)
        await asyncio.gather(*(_set_up(processes, clusters, cluster, folder=folder) for cluster in servers))
        yield clusters


def _cluster_command(*words: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "scripts.cluster", *words)


async def _start_server(processes: list[Process], part: str | None) -> LocalServer:
    argocd = ("--argocd", part) if part else ()
    process = await start_process(*_cluster_command("lend", *argocd), stdout=PIPE)
    processes.append(process)
    assert process.stdout
    line = await process.stdout.readline()
    if not line:
        raise SurroundingsError("a local API server did not start; the reason stands above")
    told = json.loads(line)
    return LocalServer(Path(told.pop("kubeconfig")), Path(told.pop("kubectl")), **told)


async def _set_up(processes: list[Process], clusters: LocalClusters, cluster: str, *, folder: Path) -> None:
    """What no controller does here, then what an admin applies."""
    store = clusters.stores[cluster]
    for namespace in NAMESPACES_OF[cluster]:
        with suppress(AlreadyExistsError):
            await store.create(NAMESPACES, {"metadata": {"name": namespace}})
        if namespace == TEAM:  # pods are created in it
            with suppress(AlreadyExistsError):
                await store.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, namespace=namespace)
    server = clusters.servers[cluster]
    await _run_process(
        processes,
        *(str(server.kubectl), f"--kubeconfig={server.kubeconfig}", f"--cache-dir={folder / cluster}"),
        *("apply", "--server-side", "--force-conflicts"),
        *("--kustomize", str(ROOT / "manifests" / "overlays" / OVERLAYS[cluster])),
        what=f"applying manifests/overlays/{OVERLAYS[cluster]}",
    )
    for resource, body in _rights():
        await store.create(resource, body)


def _rights() -> tuple[tuple[Resource, Object], ...]:
    """Developers write what the story tells of; Argo CD's controller, which does not run here, its ConfigMap."""
    name = "demonstration"
    group = {"apiGroup": CLUSTER_ROLES.group, "kind": "Group", "name": DEVELOPER.groups[0]}
    controller = {"apiGroup": CLUSTER_ROLES.group, "kind": "User", "name": CONTROLLER.user}
    verbs = ["get", "list", "create", "update"]
    rules = [
        {"apiGroups": ["argoproj.io"], "resources": ["appprojects", "applications"], "verbs": verbs},
        {"apiGroups": [""], "resources": ["configmaps", "pods"], "verbs": verbs},
    ]
    role = {"apiGroup": CLUSTER_ROLES.group, "kind": "ClusterRole", "name": name}
    return (
        (CLUSTER_ROLES, {"metadata": {"name": name}, "rules": rules}),
        (
            CLUSTER_ROLE_BINDINGS,
            {"metadata": {"name": name}, "roleRef": role, "subjects": [group, controller]},
        ),
    )


async def start_process(*command: str, stdout: int = DEVNULL, stderr: int | None = None) -> Process:
    """In a session of its own: Ctrl-C is for the demonstration, which ends the others in order."""
    return await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, stdin=PIPE, stdout=stdout, stderr=stderr, start_new_session=True
    )


async def end_process(process: Process) -> None:
    """Asked first, with whatever it started; killed where it does not listen or nobody wants to wait."""
    if process.returncode is not None:
        return
    try:
        _signal(process, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await process.wait()
    finally:
        if process.returncode is None:
            _signal(process, signal.SIGKILL)


def _signal(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


async def _run_process(processes: list[Process], *command: str, what: str) -> None:
    process = await start_process(*command)
    processes.append(process)
    if code := await process.wait():
        raise SurroundingsError(f"{what} ended with {code}; the reason stands above")


async def _end_all(processes: list[Process]) -> None:
    await asyncio.gather(*(end_process(process) for process in processes))
