"""A hub whose Argo CD deploys nothing itself, a workload cluster whose Argo CD does, and the sidecars between them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argocd.agents.vocabulary import Mode
from scripts.cluster.api import RefusedError
from scripts.cluster.argocd.components import Component
from scripts.cluster.argocd.installation import NAMESPACE, ArgoCd
from scripts.cluster.argocd.programs import Programs
from scripts.cluster.binaries import Binaries
from scripts.cluster.controlplane import Cluster
from scripts.ports import free_port
from tests.cluster.installation import AGENT, MANIFESTS, certificates, sidecar
from tests.webhook.webhook_process import Guard

TARGET = "web"
HOME = "tiphys-system"
RESYNC_SECONDS = 10  # what Argo CD does at rest is seen within a test
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Fleet:
    hub: ArgoCd
    workload: ArgoCd

    def deployed(self) -> dict[str, str] | None:
        found = get(self.workload.cluster, f"/api/v1/namespaces/{TARGET}/configmaps/prices")
        return found["data"] if found else None

    def on_hub(self, plural: str, name: str) -> Object | None:
        """Applications are in the agent's namespace."""
        namespace = AGENT if plural == "applications" else NAMESPACE
        return get(self.hub.cluster, f"/apis/argoproj.io/v1alpha1/namespaces/{namespace}/{plural}/{name}")

    def on_workload(self, plural: str, name: str) -> Object | None:
        return get(
            self.workload.cluster, f"/apis/argoproj.io/v1alpha1/namespaces/{NAMESPACE}/{plural}/{name}"
        )


def get(cluster: Cluster, path: str) -> Object | None:
    try:
        found: Object = cluster.request("GET", path)
    except RefusedError as error:
        if error.code != 404:
            raise
        return None
    return found


def writes(cluster: Cluster, *, since: int) -> list[tuple[str, str]]:
    """Who wrote how to Applications and projects, from the audit log's line `since` on."""
    return [
        (event["user"]["username"].rpartition(":")[2], event["verb"])
        for event in cluster.audited(since=since)
        if event["verb"] in WRITES and event.get("objectRef", {}).get("apiGroup") == "argoproj.io"
    ]


@contextmanager
def started_fleet(
    programs: Programs, binaries: Binaries, *, mode: Mode, folder: Path, guarded: bool = False
) -> Iterator[Fleet]:
    """With `guarded` the webhook enforces on both clusters, and on the hub its rules see the agent's Applications."""
    with ExitStack() as stack:
        hub, workload = stack.enter_context(
            started_ends(
                ArgoCd(
                    Cluster(name="hub", binaries=binaries),
                    programs=programs,
                    components=(Component.SERVER, Component.REPO_SERVER),
                    application_namespaces=(AGENT,),
                ),
                ArgoCd(
                    Cluster(name="workload", binaries=binaries),
                    programs=programs,
                    components=(Component.REPO_SERVER, Component.CONTROLLER),
                    resync_seconds=RESYNC_SECONDS,
                ),
                mode=mode,
            )
        )
        certificates(hub.cluster, workload.cluster, folder=folder)
        if guarded:
            stack.enter_context(guard(hub.cluster, applications=AGENT))
            stack.enter_context(guard(workload.cluster))
        port = str(free_port())
        listening = ("--listen-host", "localhost", "--listen-port", port, "--allowed-namespaces", "*")
        stack.enter_context(sidecar("principal", hub.cluster, *listening, folder=folder))
        dialling = ("--agent-mode", mode.value, "--server-address", "localhost", "--server-port", port)
        stack.enter_context(sidecar("agent", workload.cluster, *dialling, folder=folder))
        yield Fleet(hub, workload)


@contextmanager
def started_ends(hub: ArgoCd, workload: ArgoCd, *, mode: Mode) -> Iterator[tuple[ArgoCd, ArgoCd]]:
    """With their clusters and our manifests; both at once, since a start is mostly waiting."""

    def start(argo_cd: ArgoCd, overlay: str) -> None:
        argo_cd.cluster.start()
        argo_cd.start()
        argo_cd.cluster.kubectl("apply", "--server-side", "-k", str(MANIFESTS / overlay))

    with ExitStack() as stack:
        for argo_cd in (hub, workload):
            stack.callback(argo_cd.cluster.stop)
        with ThreadPoolExecutor() as pool:
            list(pool.map(start, (hub, workload), ("control-plane", f"workload-{mode}")))
        yield hub, workload


@contextmanager
def guard(cluster: Cluster, *, applications: str = "") -> Iterator[Guard]:
    """`applications`: another namespace of them, as the component for it has it."""
    words: tuple[str, ...] = ()
    if applications:
        role = (MANIFESTS.parent / "components" / "application-namespace" / "role.yaml").read_text()
        own = role.replace("namespace: applications", f"namespace: {applications}")
        cluster.kubectl("apply", "--server-side", "-f", "-", stdin=own)
        words = ("--application-namespace", applications)
    folder = cluster.folder / "guard"  # a test's own would be too long for the path of a socket
    folder.mkdir()
    account = cluster.kubeconfig_of_account("tiphys-webhook", namespace=HOME)
    made = Guard(
        cluster=cluster, folder=folder, home=HOME, argocd=NAMESPACE, kubeconfig=account, arguments=words
    )
    made.start()
    try:
        made.kubeconfig = None  # an admin registers
        made.register()
        yield made
    finally:
        made.stop()
