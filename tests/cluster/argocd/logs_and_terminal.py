"""Logs and the terminal by the hub's own argocd-server, through both sidecars, to pods that are played."""

import asyncio
import http.client
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from scripts.cluster.api import MERGE_PATCH
from scripts.cluster.argocd.components import Component
from scripts.cluster.argocd.installation import NAMESPACE, ArgoCd
from tests.cluster.argocd.agent_fleet import TARGET, Fleet
from tests.cluster.argocd.pods_in_front import PodsInFront, pods_in_front
from tests.cluster.argocd.rest_api import Rest
from tests.cluster.argocd.user_actions import APPLICATION
from tests.cluster.installation import AGENT, MANIFESTS
from tests.webhook.guarded_cluster import until

COMPONENTS = MANIFESTS.parent / "components"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web-1"},
    "spec": {"containers": [{"name": "web", "image": "example.org/web:1"}]},
}


class PlayedPods:
    """What an agent is told, by which its pods are played."""

    front: PodsInFront

    def __call__(self, workload: ArgoCd, stack: ExitStack) -> tuple[str, ...]:
        for component in ("agent-logs", "agent-terminals"):
            workload.cluster.kubectl(
                "apply", "--server-side", "-f", str(COMPONENTS / component / "role.yaml")
            )
        self.front, kubeconfig = stack.enter_context(
            pods_in_front(workload.cluster, account="tiphys-agent", namespace=NAMESPACE)
        )
        return "--enable-exec", "--kubeconfig", str(kubeconfig)


def logs_and_a_terminal(fleet: Fleet, front: PodsInFront, *, folder: Path, project: str) -> None:
    """Of the pod `web-1` of the Application."""
    hub, workload = fleet.hub, fleet.workload
    pod = f"/api/v1/namespaces/{TARGET}/pods/web-1"
    until(lambda: _found(workload, pod), what="the pod is deployed")
    running = {"status": {"phase": "Running"}}
    workload.cluster.request("PATCH", f"{pod}/status", running, content_type=MERGE_PATCH)
    rest = Rest(hub)

    def in_the_tree() -> bool:
        code, tree = rest("GET", "/resource-tree")
        return code == 200 and any(node["name"] == "web-1" for node in tree.get("nodes") or [])

    until(in_the_tree, what="the pod is in the tree")
    done = hub.cli("app", "logs", APPLICATION, "--kind", "Pod", "--name", "web-1", check=False)
    assert [line for line in done.stdout.splitlines() if line] == [f"line {number}" for number in range(5)], (
        done.stderr
    )
    assert "line 4" in logs(hub, follow="true")
    exec_on = {"data": {"exec.enabled": "true"}}
    config = f"/api/v1/namespaces/{NAMESPACE}/configmaps/argocd-cm"
    hub.cluster.request("PATCH", config, exec_on, content_type=MERGE_PATCH)
    problems: list[str] = []
    try:
        until(
            lambda: asyncio.run(_typed(hub, "tea", front, problems, project=project)),
            what="the terminal gives back what is typed",
        )
    except AssertionError as error:
        server = hub.log(Component.SERVER)[-3000:]
        said = "\n".join((*problems[-2:], server, (folder / "agent.log").read_text()[-2000:]))
        raise AssertionError(said) from error
    assert front.commands[-2:] == ["bash", "sh"]  # the first is missing


def _found(argo_cd: ArgoCd, path: str) -> Any:
    try:
        return argo_cd.cluster.request("GET", path)
    except Exception:  # noqa: BLE001 - not there yet
        return None


def _token(hub: ArgoCd) -> str:
    return str(yaml.safe_load(hub.client_config.read_text())["users"][0]["auth-token"])


def logs(hub: ArgoCd, **query: str) -> str:
    connection = http.client.HTTPConnection(hub.server, timeout=60)
    try:
        wanted = {"appNamespace": AGENT, "podName": "web-1", "container": "web", "namespace": TARGET, **query}
        path = "&".join(f"{name}={text}" for name, text in wanted.items())
        connection.request(
            "GET", f"/api/v1/applications/web/logs?{path}", headers={"Authorization": f"Bearer {_token(hub)}"}
        )
        response, read = connection.getresponse(), ""
        # One that is followed through argocd-agent's principal never ends.
        while "line 4" not in read and (line := response.readline()):
            read += line.decode()
        return read
    finally:
        connection.close()


async def _type(socket: aiohttp.ClientWebSocketResponse, text: str) -> None:
    """Again and again: what is typed before there is a shell goes to the one that is missing."""
    while True:
        await socket.send_str(json.dumps({"operation": "resize", "cols": 100, "rows": 30}))
        await socket.send_str(json.dumps({"operation": "stdin", "data": text}))
        await asyncio.sleep(0.5)


async def _typed(hub: ArgoCd, text: str, front: PodsInFront, problems: list[str], *, project: str) -> bool:
    """In the UI's own way."""
    query = {
        "pod": "web-1",
        "container": "web",
        "appName": "web",
        "appNamespace": AGENT,
        "projectName": project,
        "namespace": TARGET,
    }
    cookies = {"argocd.token": _token(hub)}
    async with aiohttp.ClientSession(cookies=cookies) as session:
        try:
            async with (
                asyncio.timeout(30),
                session.ws_connect(f"ws://{hub.server}/terminal", params=query) as socket,
            ):
                typing = asyncio.ensure_future(_type(socket, text))
                shown = ""
                try:
                    async for message in socket:
                        shown += json.loads(message.data).get("data", "")
                        if text in shown and front.sizes:
                            return True
                finally:
                    typing.cancel()
        except (aiohttp.ClientError, TimeoutError) as error:
            async with session.get(f"http://{hub.server}/terminal", params=query) as answer:
                problems.append(f"{error!r} {answer.status} {(await answer.text())[:500]}")
            return False
        problems.append(f"closed after {shown!r}")
    return False
