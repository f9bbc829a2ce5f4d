"""From a former release to this one and back, while people write and an agent listens: no call fails, nothing is lost."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kube.errors import ApiError
from kube.live import LiveStore
from kube.resources import APP_PROJECTS, APPLICATIONS
from kube.store import Object, PatchKind
from scripts.cluster.binaries import Binaries
from scripts.cluster.controlplane import Cluster
from scripts.ports import free_port
from tests.cluster.installation import AGENT
from tests.cluster.releases import ARGOCD, FORMER, Release, join_agent, stop
from tests.webhook import webhook_process
from tests.webhook.conftest import ROOT
from tests.webhook.server.balancer import Balancer
from tests.webhook.webhook_process import Guard

pytestmark = [pytest.mark.proof, pytest.mark.timeout(1800)]

CALLS = 2_000
AT_ONCE = 4
PAUSE = 0.05
"""Between a caller's calls: two API servers and eight programs share the processors with them."""
READY_SECONDS = 300
PROJECTS = 20
REPLICAS = 2
CONVERGE_SECONDS = 180.0
PROJECT: Object = {
    "spec": {
        "sourceRepos": ["*"],
        "sourceNamespaces": [AGENT],
        "destinations": [{"name": AGENT, "server": "*", "namespace": "*"}],
    }
}
APPLICATION: Object = {
    "metadata": {"name": "shop"},
    "spec": {
        "project": "team-0",
        "source": {"repoURL": "https://git.example.org/shop.git", "path": "."},
        "destination": {"name": AGENT, "namespace": "shop"},
    },
}


@pytest.fixture
def former(tmp_path: Path) -> Iterator[Release]:
    there = subprocess.run(
        ["git", "cat-file", "-e", f"{FORMER}^{{commit}}"], cwd=ROOT, capture_output=True, check=False
    )
    if there.returncode:
        pytest.skip(f"a shallow clone: commit {FORMER} is not in it")
    folder = tmp_path / "former"
    subprocess.run(
        ["git", "worktree", "add", "--quiet", "--detach", str(folder), FORMER],
        cwd=ROOT,
        check=True,
        timeout=60,
    )
    yield Release(folder)
    subprocess.run(["git", "worktree", "remove", "--force", str(folder)], cwd=ROOT, check=True, timeout=60)


@dataclass
class Installation:
    """Webhooks behind a Service in miniature, a principal, an agent; each can be of another release."""

    hub: Cluster
    edge: Cluster
    folder: Path
    port: int = field(default_factory=free_port)
    address: int = field(default_factory=free_port)
    webhooks: list[Guard] = field(default_factory=list)
    sidecars: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    started: int = 0

    def add_webhook(self, release: Release) -> None:
        self.started += 1
        self.webhooks.append(release.webhook(self.hub, self.folder / f"webhook-{self.started}").start())

    def end_webhook(self) -> None:
        """A Service's pod that ends: it drains while it is still among those that are called."""
        self.webhooks[0].stop()
        del self.webhooks[0]

    def register(self, release: Release) -> None:
        release.tiphys(self.hub, "webhook", "register", "--url", f"https://localhost:{self.address}")

    def start_sidecar(self, release: Release, role: str) -> None:
        words = {
            "principal": (
                "--listen-host",
                "localhost",
                "--listen-port",
                str(self.port),
                "--allowed-namespaces=*",
            ),
            "agent": ("--agent-mode=managed", "--server-address=localhost", f"--server-port={self.port}"),
        }
        cluster = self.hub if role == "principal" else self.edge
        self.sidecars[role] = release.sidecar(role, cluster, *words[role], log=self.folder / f"{role}.log")

    def move_to(self, release: Release) -> None:
        """In the order of docs/upgrade.md, one pod after another."""
        release.apply(self.hub, "control-plane")
        release.apply(self.edge, "workload-managed")
        for _ in range(REPLICAS):
            self.add_webhook(release)
            self.end_webhook()
        self.register(release)
        for role in ("principal", "agent"):
            stop(self.sidecars[role])
            self.start_sidecar(release, role)

    def end(self) -> None:
        for process in self.sidecars.values():
            stop(process)
        for webhook in self.webhooks:
            webhook.stop()


@pytest.fixture
async def installation(
    former: Release, cluster_binaries: Binaries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Installation]:
    with (
        Cluster(name="hub", binaries=cluster_binaries) as hub,
        Cluster(name="edge", binaries=cluster_binaries) as edge,
    ):
        monkeypatch.setattr(webhook_process, "READY_SECONDS", READY_SECONDS)
        made = Installation(hub, edge, tmp_path)

        def install() -> None:
            for cluster, overlay in ((hub, "control-plane"), (edge, "workload-managed")):
                cluster.create_namespace(ARGOCD)
                former.apply(cluster, overlay)
            join_agent(former, hub, edge, folder=tmp_path)
            for _ in range(REPLICAS):
                made.add_webhook(former)
            for role in ("principal", "agent"):
                made.start_sidecar(former, role)

        await asyncio.to_thread(install)
        async with Balancer(lambda: tuple(made.webhooks), port=made.address):
            await asyncio.to_thread(made.register, former)
            yield made
        await asyncio.to_thread(made.end)


@dataclass
class Work:
    """What people and Argo CD write meanwhile: projects and statuses, each newer than the last."""

    hub: LiveStore
    edge: LiveStore
    calls: int = 0
    failed: list[str] = field(default_factory=list)
    last: dict[str, str] = field(default_factory=dict)
    status: int = 0

    async def begin(self) -> None:
        for number in range(PROJECTS):
            await self.hub.create(
                APP_PROJECTS, {"metadata": {"name": f"team-{number}"}, **PROJECT}, namespace=ARGOCD
            )
        await self.hub.create(APPLICATIONS, APPLICATION, namespace=AGENT)
        await until(lambda: found(self.edge, APPLICATIONS, "shop", ARGOCD), lambda _: True)

    async def go_on_during(self, moving: Callable[[], None]) -> None:
        """At least `CALLS` calls, and as many more as it takes."""
        moved = asyncio.ensure_future(asyncio.to_thread(moving))
        goal = self.calls + CALLS
        statuses = asyncio.create_task(self._write_statuses())

        async def caller(offset: int) -> None:
            while self.calls < goal or not moved.done():
                self.calls += 1
                await self._write(f"team-{(self.calls * AT_ONCE + offset) % PROJECTS}", str(self.calls))
                await asyncio.sleep(PAUSE)

        try:
            await asyncio.gather(*(caller(offset) for offset in range(AT_ONCE)))
            await moved
        finally:
            statuses.cancel()
            await asyncio.gather(statuses, return_exceptions=True)

    async def _write(self, name: str, text: str) -> None:
        patch = {"spec": {"description": text}}
        try:
            stored = await self.hub.patch(
                APP_PROJECTS, patch, name=name, namespace=ARGOCD, kind=PatchKind.MERGE
            )
        except ApiError as error:
            self.failed.append(str(error))
        else:
            kept = self.last.get(name)
            if kept is None or int(kept.partition(" ")[0]) < int(stored["metadata"]["resourceVersion"]):
                self.last[name] = f"{stored['metadata']['resourceVersion']} {text}"

    async def _write_statuses(self) -> None:
        """As Argo CD's controller beside the agent does."""
        while True:
            self.status += 1
            patch = {"status": {"sync": {"status": "Synced", "revision": str(self.status)}}}
            await self.edge.patch(APPLICATIONS, patch, name="shop", namespace=ARGOCD, kind=PatchKind.MERGE)
            await asyncio.sleep(0.2)

    async def arrived(self) -> None:
        for name, written in self.last.items():
            text = written.partition(" ")[2]
            await until(
                lambda name=name: found(self.edge, APP_PROJECTS, name, ARGOCD),  # type: ignore[misc]
                lambda there, text=text: there["spec"].get("description") == text,  # type: ignore[misc]
            )
        await until(
            lambda: found(self.hub, APPLICATIONS, "shop", AGENT),
            lambda there: there.get("status", {}).get("sync", {}).get("revision") == str(self.status),
        )


async def found(store: LiveStore, resource: Any, name: str, namespace: str) -> Any:
    try:
        return await store.get(resource, name=name, namespace=namespace)
    except ApiError:
        return None


async def until(read: Callable[[], Awaitable[Any]], holds: Callable[[Any], bool]) -> None:
    there: Any = None
    try:
        async with asyncio.timeout(CONVERGE_SECONDS):
            while True:
                there = await read()
                if there is not None and holds(there):
                    return
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"still: {there}") from None


async def test_an_upgrade_and_the_way_back_refuse_no_call_and_lose_nothing(
    installation: Installation, former: Release
) -> None:
    hub = await LiveStore.connect(kubeconfig=installation.hub.kubeconfig, concurrency=AT_ONCE)
    edge = await LiveStore.connect(kubeconfig=installation.edge.kubeconfig)
    work = Work(hub, edge)
    try:
        await work.begin()
        for release in (Release(ROOT), former):
            await work.go_on_during(lambda release=release: installation.move_to(release))  # type: ignore[misc]
            assert work.failed == []
            await work.arrived()
        assert work.calls >= 2 * CALLS
    finally:
        await hub.close()
        await edge.close()
    logs = [*installation.folder.glob("*.log"), *installation.folder.glob("webhook-*/log-*")]
    assert len(logs) >= 2 + 3 * REPLICAS
    assert "Traceback" not in "".join(path.read_text() for path in logs)
