"""The whole sidecars with a real argocd-agent at the other end: both roles, both modes, restarts, resync."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from argocd import names
from argocd.agents.vocabulary import Mode
from certs.key_pair import Material
from certs.sources import Files
from kube.live import LiveStore
from kube.resources import APP_PROJECTS, APPLICATIONS, EVENTS
from kube.store import Object, PatchKind, WatchEventKind
from scripts.argocd_agent import BINARY, agent_arguments, principal_arguments
from scripts.cluster.controlplane import Cluster
from scripts.ports import free_port
from sidecars.agent import process as agent_running
from sidecars.agent.settings import AgentSettings
from sidecars.principal import process as principal_running
from sidecars.principal.settings import PrincipalSettings
from sidecars.wire.auth.methods import NamePattern, SubjectMethod
from sidecars.wire.auth.tokens import Tokens
from sidecars.wire.client.dialer import DialOptions
from tests.sidecars import pair_in_memory
from tests.sidecars.pair_in_memory import Hub, change, project
from tests.sidecars.wire.go_binary import running, said, written
from tests.sidecars.wire.listening_principal import AUTHORITY, KEY
from tests.sidecars.wire.pki import CLIENT, issue

pytestmark = [
    pytest.mark.skipif(not BINARY, reason="ARGOCD_AGENT_BIN names no argocd-agent"),
    pytest.mark.timeout(300),
]

until = partial(pair_in_memory.until, patience=60.0)


class Ground:
    """A hub's namespace, an agent's, and the hub's namespace for that agent's Applications."""

    def __init__(self, cluster: Cluster, store: LiveStore, folder: Path, *, go: str) -> None:
        self.cluster, self.store, self.folder, self.go = cluster, store, folder, go
        self.hub, self.spoke = cluster.create_namespace(), cluster.create_namespace()
        self.agent = f"agent-{uuid4().hex[:8]}"
        cluster.create_namespace(self.agent)
        self.port = free_port()
        self.compare_seconds = 600.0
        self.more: tuple[str, ...] = ()
        written(folder, agent=issue(self.agent, AUTHORITY, usage=[CLIENT]))

    async def know(self) -> None:
        await Hub(self.store, namespace=self.hub).know(self.agent)

    @asynccontextmanager
    async def principal(self) -> AsyncIterator[None]:
        if self.go == "principal":
            allowed = f"{self.hub},{self.agent}"
            arguments = principal_arguments(self.folder, self.cluster, self.hub, self.port, allowed=allowed)
            async with self._go("principal", *arguments, *self.more):
                yield
            return
        serving = principal_running.PrincipalOptions(
            settings=PrincipalSettings(
                namespace=self.hub,
                allowed_namespaces=(self.agent,),
                compare_seconds=self.compare_seconds,
            ),
            method=SubjectMethod(NamePattern("CN=([^,]+)")),
            tokens=Tokens(KEY, now=time.time),
            source=self._files("principal"),
            host="127.0.0.1",
            port=self.port,
            health_host="127.0.0.1",
            health_port=0,
            metrics_port=0,
            pages_port=0,
        )
        async with _ours(principal_running.PrincipalProcess(self.store, serving).run()):
            yield

    @asynccontextmanager
    async def agent_of(self, mode: Mode) -> AsyncIterator[None]:
        if self.go == "agent":
            arguments = agent_arguments(self.folder, self.cluster, self.spoke, self.port, mode.value)
            async with self._go("agent", *arguments):
                yield
            return
        serving = agent_running.AgentOptions(
            settings=AgentSettings(mode=mode, namespace=self.spoke, compare_seconds=self.compare_seconds),
            dialing=DialOptions(
                host="127.0.0.1",
                port=self.port,
                material=Material(None, b""),
                mode=mode,
                namespace=self.spoke,
                version="0.9.0",
            ),
            source=self._files("agent"),
            health_host="127.0.0.1",
            health_port=0,
            metrics_port=0,
        )
        async with _ours(agent_running.AgentProcess(self.store, serving).run()):
            yield

    @asynccontextmanager
    async def _go(self, name: str, *arguments: str) -> AsyncIterator[None]:
        place = self.folder / f"{name}-{uuid4().hex[:6]}"
        place.mkdir()
        async with running(place, *arguments) as log:
            try:
                yield
            except AssertionError as error:
                raise AssertionError(f"{error}\n{said(log)}") from error

    def _files(self, name: str) -> Files:
        return Files(
            certificate=self.folder / f"{name}.crt",
            key=self.folder / f"{name}.key",
            authorities=self.folder / "ca.crt",
        )

    async def patch(self, resource: Any, name: str, body: Object, *, namespace: str) -> None:
        await self.store.patch(resource, body, name=name, namespace=namespace, kind=PatchKind.MERGE)


@asynccontextmanager
async def _ours(work: Any) -> AsyncIterator[None]:
    task = asyncio.ensure_future(work)
    try:
        yield
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture(params=["agent", "principal"], ids=["go agent", "go principal"])
async def ground(request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path) -> AsyncIterator[Ground]:
    store = await LiveStore.connect(kubeconfig=cluster.kubeconfig)
    made = Ground(cluster, store, tmp_path, go=request.param)
    await made.know()
    yield made
    await store.close()
    for namespace in (made.hub, made.spoke, made.agent):
        cluster.drop_namespace(namespace)


def an_application(name: str, *, destination: dict[str, str], project_name: str) -> Object:
    return {
        "metadata": {"name": name},
        "spec": {
            "project": project_name,
            "source": {"repoURL": "https://git.example.org/shop.git", "path": ".", "targetRevision": "v1"},
            "destination": {**destination, "namespace": "shop"},
        },
    }


def revision(name: str, wanted: str) -> Any:
    return lambda there: name in there and there[name]["spec"]["source"]["targetRevision"] == wanted


async def test_a_managed_agent_is_kept_in_step_over_its_restart(ground: Ground) -> None:
    store, hub, spoke, agent = ground.store, ground.hub, ground.spoke, ground.agent
    destination = {"name": agent}
    async with ground.principal():
        async with ground.agent_of(Mode.MANAGED):
            await store.create(APP_PROJECTS, project("web", agents=agent), namespace=hub)
            await until(store, APP_PROJECTS, lambda there: "web" in there, namespace=spoke)
            body = an_application("shop", destination=destination, project_name="web")
            await store.create(APPLICATIONS, body, namespace=agent)
            await until(store, APPLICATIONS, revision("shop", "v1"), namespace=spoke)
            status = {
                "status": {"health": {"status": "Healthy"}, "sync": {"status": "Synced", "revision": "1"}}
            }
            await ground.patch(APPLICATIONS, "shop", status, namespace=spoke)
            await until(store, APPLICATIONS, healthy("shop"), namespace=agent)
            operation = {"operation": {"initiatedBy": {"username": "admin"}, "sync": {"revision": "v1"}}}
            await ground.patch(APPLICATIONS, "shop", operation, namespace=agent)
            await until(store, APPLICATIONS, lambda there: "operation" in there["shop"], namespace=spoke)
        # The agent is away.
        await ground.patch(APPLICATIONS, "shop", at("v2"), namespace=agent)
        await store.create(APP_PROJECTS, project("late", agents=agent), namespace=hub)
        await store.delete(APP_PROJECTS, name="web", namespace=hub)
        async with ground.agent_of(Mode.MANAGED):
            await until(store, APPLICATIONS, revision("shop", "v2"), namespace=spoke)
            await until(
                store,
                APP_PROJECTS,
                lambda there: "late" in there and "web" not in there,
                namespace=spoke,
            )


async def test_a_managed_agent_outlives_its_principal(ground: Ground) -> None:
    store, spoke, agent = ground.store, ground.spoke, ground.agent
    async with ground.agent_of(Mode.MANAGED):
        async with ground.principal():
            for name in ("stays", "goes"):
                body = an_application(name, destination={"name": agent}, project_name="default")
                await store.create(APPLICATIONS, body, namespace=agent)
            await until(store, APPLICATIONS, lambda there: {"stays", "goes"} <= set(there), namespace=spoke)
        # The principal is away.
        await store.delete(APPLICATIONS, name="goes", namespace=agent)
        await ground.patch(APPLICATIONS, "stays", at("v2"), namespace=agent)
        async with ground.principal():
            await until(
                store,
                APPLICATIONS,
                lambda there: revision("stays", "v2")(there) and "goes" not in there,
                namespace=spoke,
            )


async def test_an_autonomous_agent_is_mirrored_over_its_restart(ground: Ground) -> None:
    store, hub, spoke, agent = ground.store, ground.hub, ground.spoke, ground.agent
    mirrored = f"{agent}-ops"
    local = {"server": names.IN_CLUSTER_SERVER}
    async with ground.principal():
        async with ground.agent_of(Mode.AUTONOMOUS):
            body = project("ops")
            body["spec"]["destinations"] = [{**local, "namespace": "*"}]
            await store.create(APP_PROJECTS, body, namespace=spoke)
            await until(store, APP_PROJECTS, lambda there: mirrored in there, namespace=hub)
            shop = an_application("shop", destination=local, project_name="ops")
            await store.create(APPLICATIONS, shop, namespace=spoke)
            there = await until(store, APPLICATIONS, revision("shop", "v1"), namespace=agent)
            assert there["shop"]["spec"]["project"] == mirrored
            operation = {"operation": {"initiatedBy": {"username": "admin"}, "sync": {"revision": "v1"}}}
            await ground.patch(APPLICATIONS, "shop", operation, namespace=agent)
            await until(store, APPLICATIONS, lambda there: "operation" in there["shop"], namespace=spoke)
            await ground.patch(APPLICATIONS, "shop", {"operation": None}, namespace=spoke)
        # The agent is away.
        await ground.patch(APPLICATIONS, "shop", at("v2"), namespace=spoke)
        async with ground.agent_of(Mode.AUTONOMOUS):
            await until(store, APPLICATIONS, revision("shop", "v2"), namespace=agent)
            await store.delete(APPLICATIONS, name="shop", namespace=spoke)
            await until(store, APPLICATIONS, lambda there: "shop" not in there, namespace=agent)
            await change(
                store, APP_PROJECTS, "ops", namespace=spoke, spec={**body["spec"], "description": "new"}
            )
            there = await until(
                store,
                APP_PROJECTS,
                lambda there: there[mirrored]["spec"].get("description") == "new",
                namespace=hub,
            )
            assert there[mirrored]["spec"]["destinations"] == [
                {"name": agent, "server": "*", "namespace": "*"}
            ]


@pytest.mark.parametrize("ground", ["principal"], indirect=True)
async def test_what_a_go_principal_does_not_take_holds_up_nothing_else(ground: Ground) -> None:
    store, spoke, agent = ground.store, ground.spoke, ground.agent
    local = {"server": names.IN_CLUSTER_SERVER}
    ground.more = ("--grpc-max-message-size=100000",)
    async with ground.principal(), ground.agent_of(Mode.AUTONOMOUS):
        large = an_application("large", destination=local, project_name="default")
        large["metadata"]["annotations"] = {"note": "x" * 120_000}
        await store.create(APPLICATIONS, large, namespace=spoke)
        await until(store, EVENTS, lambda there: "100000 is the most" in str(there), namespace=spoke)
        small = an_application("small", destination=local, project_name="default")
        await store.create(APPLICATIONS, small, namespace=spoke)
        there = await until(store, APPLICATIONS, lambda there: "small" in there, namespace=agent)
        assert "large" not in there


async def test_an_autonomous_agent_outlives_its_principal(ground: Ground) -> None:
    store, spoke, agent = ground.store, ground.spoke, ground.agent
    local = {"server": names.IN_CLUSTER_SERVER}
    async with ground.agent_of(Mode.AUTONOMOUS):
        async with ground.principal():
            for name in ("stays", "goes"):
                body = an_application(name, destination=local, project_name="default")
                await store.create(APPLICATIONS, body, namespace=spoke)
            await until(store, APPLICATIONS, lambda there: {"stays", "goes"} <= set(there), namespace=agent)
        # The principal is away.
        await store.delete(APPLICATIONS, name="goes", namespace=spoke)
        await ground.patch(APPLICATIONS, "stays", at("v2"), namespace=spoke)
        async with ground.principal():
            await until(
                store,
                APPLICATIONS,
                lambda there: revision("stays", "v2")(there) and "goes" not in there,
                namespace=agent,
            )


def orphan(name: str) -> Object:
    body = an_application(name, destination={"name": "in-cluster"}, project_name="default")
    body["metadata"]["annotations"] = {names.SOURCE_UID: str(uuid4())}
    return body


@pytest.mark.parametrize("mode", list(Mode))
async def test_what_the_source_does_not_have_goes_without_a_restart(ground: Ground, mode: Mode) -> None:
    """argocd-agent compares when it starts, and then no more: whichever end is ours asks."""
    store, spoke, agent = ground.store, ground.spoke, ground.agent
    ground.compare_seconds = 1.0
    here, there = (agent, spoke) if mode is Mode.MANAGED else (spoke, agent)
    destination = {"name": agent} if mode is Mode.MANAGED else {"server": names.IN_CLUSTER_SERVER}
    async with ground.principal(), ground.agent_of(mode):
        body = an_application("stays", destination=destination, project_name="default")
        await store.create(APPLICATIONS, body, namespace=here)
        await until(store, APPLICATIONS, lambda found: "stays" in found, namespace=there)
        await store.create(APPLICATIONS, orphan("stray"), namespace=there)
        found = await until(store, APPLICATIONS, lambda found: "stray" not in found, namespace=there)
        assert "stays" in found


class Controller:
    """As much of Argo CD's as operations need: each is over as soon as it is seen."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self.operations = 0

    async def run(self) -> None:
        store, spoke = self._ground.store, self._ground.spoke
        async with aclosing(store.watch(APPLICATIONS, namespace=spoke, resource_version="0")) as events:
            async for event in events:
                if event.kind in {WatchEventKind.ADDED, WatchEventKind.MODIFIED}:
                    await self._reconcile(event.object)

    async def _reconcile(self, application: Object) -> None:
        name, metadata = application["metadata"]["name"], application["metadata"]
        body: Object = {}
        if names.REFRESH in metadata.get("annotations", {}):
            body["metadata"] = {"annotations": {names.REFRESH: None}}
        if application.get("operation"):
            self.operations += 1
            run = {"phase": "Succeeded", "message": str(self.operations), "startedAt": "2026-01-01T00:00:00Z"}
            body |= {
                "operation": None,
                "status": {"operationState": {**run, "operation": application["operation"]}},
            }
        if body:
            await self._ground.patch(APPLICATIONS, name, body, namespace=self._ground.spoke)


async def test_operations_that_end_at_once_are_over_on_the_hub_too(ground: Ground) -> None:
    """Whether the status or the acknowledgement comes first."""
    store, spoke, agent = ground.store, ground.spoke, ground.agent
    controller = Controller(ground)
    async with ground.principal(), ground.agent_of(Mode.MANAGED), _ours(controller.run()):
        body = an_application("shop", destination={"name": agent}, project_name="default")
        await store.create(APPLICATIONS, body, namespace=agent)
        await until(store, APPLICATIONS, lambda there: "shop" in there, namespace=spoke)
        for number in range(1, 9):
            operation = {"sync": {"revision": f"v{number}"}}
            await ground.patch(APPLICATIONS, "shop", {"operation": operation}, namespace=agent)
            await until(store, APPLICATIONS, over("shop", number), namespace=agent)
        assert controller.operations == 8


def over(name: str, number: int) -> Any:
    def holds(there: dict[str, Object]) -> bool:
        state = there[name].get("status", {}).get("operationState", {})
        return "operation" not in there[name] and state.get("message") == str(number)

    return holds


def at(version: str) -> Object:
    return {"spec": {"source": {"targetRevision": version}}}


def healthy(name: str) -> Any:
    return lambda there: there[name].get("status", {}).get("health", {}).get("status") == "Healthy"
