"""Live objects of a workload cluster through the hub's own argocd-server: both proxies, by its CLI and its REST API.

Only the workload cluster has an application controller.
"""

import http.client
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml

from argocd.agents.vocabulary import Mode
from scripts.cluster.argocd.components import Component
from scripts.cluster.argocd.installation import NAMESPACE, ArgoCd
from scripts.cluster.argocd.programs import Programs
from scripts.cluster.binaries import Binaries
from scripts.cluster.controlplane import Cluster
from tests.cluster.argocd.agent_fleet import RESYNC_SECONDS, TARGET, Fleet, Object
from tests.cluster.argocd.steered import HERE, config_map
from tests.cluster.installation import AGENT, MANIFESTS, certificates, sidecar
from tests.webhook.conftest import free_port
from tests.webhook.guarded_cluster import until

APPLICATION = f"{AGENT}/web"
PASSWORD = "behind-the-proxy"
PATIENCE_SECONDS = 60.0
EDIT_RIGHTS = MANIFESTS.parent / "components" / "live-resources-edit" / "role.yaml"

pytestmark = pytest.mark.timeout(420)


@contextmanager
def live_fleet(
    programs: Programs,
    binaries: Binaries,
    *,
    mode: Mode,
    folder: Path,
    agent_words: Callable[[ArgoCd, ExitStack], tuple[str, ...]] = lambda _workload, _stack: (),
) -> Iterator[Fleet]:
    """`agent_words`: what else the agent is told."""
    with ExitStack() as stack:
        hub = ArgoCd(
            stack.enter_context(Cluster(name="hub", binaries=binaries)),
            programs=programs,
            components=(Component.REPO_SERVER,),
            application_namespaces=(AGENT,),
            redis_password=PASSWORD,
        ).start()
        workload = ArgoCd(
            stack.enter_context(Cluster(name="workload", binaries=binaries)),
            programs=programs,
            components=(Component.REPO_SERVER, Component.CONTROLLER),
            resync_seconds=RESYNC_SECONDS,
        ).start()
        for argo_cd, overlay in ((hub, "control-plane"), (workload, f"workload-{mode}")):
            argo_cd.cluster.kubectl("apply", "--server-side", "-k", str(MANIFESTS / overlay))
        workload.cluster.kubectl("apply", "--server-side", "-f", str(EDIT_RIGHTS))
        agents, resources, redis = free_port(), free_port(), free_port()
        certificates(hub.cluster, workload.cluster, folder=folder, resource_proxy_port=resources)
        listening = (
            *("--listen-host", "localhost", "--listen-port", str(agents), "--allowed-namespaces", "*"),
            *("--resource-proxy-port", str(resources), "--redis-proxy-port", str(redis)),
            *(
                "--disable-redis-proxy=false",
                "--insecure-redis-plaintext",
                "--redis-server-address",
                hub.redis,
                "--redis-password",
                PASSWORD,
            ),
        )
        stack.enter_context(sidecar("principal", hub.cluster, *listening, folder=folder))
        dialling = ("--agent-mode", mode.value, "--server-address", "localhost", "--server-port", str(agents))
        stack.enter_context(
            sidecar(
                "agent",
                workload.cluster,
                *(*dialling, "--redis-addr", workload.redis, *agent_words(workload, stack)),
                folder=folder,
            )
        )
        hub.redis_of_server = f"127.0.0.1:{redis}"
        hub.start_component(Component.SERVER)
        hub.log_in()
        yield Fleet(hub, workload)


class Rest:
    """argocd-server's API as its own UI calls it."""

    def __init__(self, hub: ArgoCd) -> None:
        self._hub = hub
        config = yaml.safe_load(hub.client_config.read_text())
        self._token = config["users"][0]["auth-token"]

    def __call__(self, method: str, path: str, body: Any = None, **query: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(self._hub.server, timeout=60)
        try:
            connection.request(
                method,
                f"/api/v1/applications/web{path}?{urlencode({'appNamespace': AGENT, **query})}",
                body=None if body is None else json.dumps(body),
                headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
            )
            response = connection.getresponse()
            text = response.read()
            return response.status, json.loads(text) if text else None
        finally:
            connection.close()


PRICES = {"resourceName": "prices", "version": "v1", "group": "", "kind": "ConfigMap", "namespace": TARGET}
WEB = {"resourceName": "web", "version": "v1", "group": "apps", "kind": "Deployment", "namespace": TARGET}


def deployment() -> str:
    labels = {"app": "web"}
    return json.dumps(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "web", "image": "example.org/web:1"}]},
                },
            },
        }
    )


def eventually(condition: Any, what: str) -> Any:
    deadline, last = time.monotonic() + PATIENCE_SECONDS, None
    while time.monotonic() < deadline:
        last = condition()
        if last:
            return last
        time.sleep(0.5)
    raise AssertionError(f"{what}: {last}")


def live_manifest(rest: Rest, what: dict[str, str]) -> Object:
    code, answer = rest("GET", "/resource", **what)
    assert code == 200, answer
    found: Object = json.loads(answer["manifest"])
    return found


def seen_from_the_hub(fleet: Fleet) -> None:
    """Tree, live manifest, diff, edit, action, events and delete of an Application that is deployed."""
    rest, hub = Rest(fleet.hub), fleet.hub
    config_maps = f"/api/v1/namespaces/{TARGET}/configmaps/prices"

    def nodes() -> set[str]:
        code, tree = rest("GET", "/resource-tree")
        # One that is not deployed yet has no uid.
        return {node["name"] for node in tree.get("nodes") or [] if node.get("uid")} if code == 200 else set()

    eventually(lambda: {"prices", "web"} <= nodes(), "the tree comes through the agent's Redis")

    def told_of_the_cluster() -> bool:
        clusters = json.loads(hub.cli("cluster", "list", "-o", "json").stdout)
        [state] = [each["info"]["connectionState"] for each in clusters if each["name"] == AGENT]
        return state["status"] == "Successful" and f"agent {AGENT}, version" in state["message"]

    eventually(told_of_the_cluster, "the page of clusters shows the agent")
    found = live_manifest(rest, PRICES)
    assert found["data"] == {"tea": "3"}
    assert found["metadata"]["uid"] == fleet.workload.cluster.request("GET", config_maps)["metadata"]["uid"]

    code, answer = rest(
        "POST",
        "/resource",
        json.dumps({"data": {"tea": "9"}}),
        patchType="application/merge-patch+json",
        **PRICES,
    )
    assert (code, fleet.deployed()) == (200, {"tea": "9"}), answer
    strategic = {
        "spec": {"template": {"spec": {"containers": [{"name": "web", "image": "example.org/web:2"}]}}}
    }
    code, answer = rest(
        "POST",
        "/resource",
        json.dumps(strategic),
        patchType="application/strategic-merge-patch+json",
        **WEB,
    )
    assert code == 200, answer
    code, answer = rest("POST", "/resource/actions", "restart", **WEB)
    assert code == 200, answer
    template = live_manifest(rest, WEB)["spec"]["template"]
    assert template["spec"]["containers"][0]["image"] == "example.org/web:2"
    assert "kubectl.kubernetes.io/restartedAt" in template["metadata"]["annotations"]

    def differs() -> bool:
        done = hub.cli("app", "diff", APPLICATION, "--refresh", check=False)
        return done.returncode == 1 and "tea" in done.stdout

    eventually(differs, "the diff shows the edit")
    uid = found["metadata"]["uid"]
    code, events = rest("GET", "/events", resourceName="prices", resourceNamespace=TARGET, resourceUID=uid)
    assert (code, events.get("items") or []) == (200, [])
    about = {"kind": "ConfigMap", "apiVersion": "v1", "name": "prices", "namespace": TARGET, "uid": uid}
    event = {"metadata": {"name": "prices.1"}, "involvedObject": about, "message": "noted"}
    fleet.workload.cluster.request("POST", f"/api/v1/namespaces/{TARGET}/events", event)
    code, events = rest("GET", "/events", resourceName="prices", resourceNamespace=TARGET, resourceUID=uid)
    assert [each["message"] for each in events["items"]] == ["noted"]

    code, answer = rest("DELETE", "/resource", **PRICES)
    assert code == 200, answer
    until(lambda: fleet.deployed() is None, what="it is deleted")
    code, answer = rest("GET", "/resource", **{**PRICES, "kind": "Secret"})
    assert code != 200, "not in the tree"


@pytest.fixture
def managed(argocd_programs: Programs, cluster_binaries: Binaries, tmp_path: Path) -> Iterator[Fleet]:
    with live_fleet(argocd_programs, cluster_binaries, mode=Mode.MANAGED, folder=tmp_path) as fleet:
        yield fleet


@pytest.fixture
def autonomous(argocd_programs: Programs, cluster_binaries: Binaries, tmp_path: Path) -> Iterator[Fleet]:
    with live_fleet(argocd_programs, cluster_binaries, mode=Mode.AUTONOMOUS, folder=tmp_path) as fleet:
        yield fleet


def test_a_managed_application_is_created_with_validation_and_worked_with_live(managed: Fleet) -> None:
    hub, workload = managed.hub, managed.workload
    repository = hub.repository("shop")
    repository.commit({"shop/prices.json": config_map("prices", tea="3"), "shop/web.json": deployment()})
    workload.cluster.create_namespace(TARGET)
    project = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": "web"},
        "spec": {
            "sourceRepos": [repository.url],
            "sourceNamespaces": [AGENT],
            "destinations": [{"name": AGENT, "server": "*", "namespace": TARGET}],
        },
    }
    hub.cluster.kubectl("apply", "-n", NAMESPACE, "-f", "-", stdin=json.dumps(project))
    until(lambda: managed.on_workload("appprojects", "web"), what="the agent has the project")
    source = ("--repo", repository.url, "--path", "shop", "--revision", "main", "--project", "web")
    hub.cli("app", "create", APPLICATION, *source, "--dest-name", AGENT, "--dest-namespace", TARGET)
    until(lambda: managed.on_workload("applications", "web"), what="the agent has the Application")
    hub.cli("app", "sync", APPLICATION, "--async")
    until(lambda: managed.deployed() == {"tea": "3"}, what="it is deployed")
    hub.cli("app", "set", APPLICATION, "--sync-option", "PruneLast=true")  # validated, too
    seen_from_the_hub(managed)


def test_an_autonomous_application_is_worked_with_live(autonomous: Fleet) -> None:
    workload = autonomous.workload
    repository = workload.repository("shop")
    repository.commit({"shop/prices.json": config_map("prices", tea="3"), "shop/web.json": deployment()})
    workload.cluster.create_namespace(TARGET)
    api = {"apiVersion": "argoproj.io/v1alpha1", "metadata": {"name": "web"}}
    destination = {"server": HERE, "namespace": TARGET}
    source = {"repoURL": repository.url, "path": "shop", "targetRevision": "main"}
    for body in (
        {
            **api,
            "kind": "AppProject",
            "spec": {"sourceRepos": [repository.url], "destinations": [destination]},
        },
        {
            **api,
            "kind": "Application",
            "spec": {"project": "web", "source": source, "destination": destination},
        },
    ):
        workload.cluster.kubectl("apply", "-n", NAMESPACE, "-f", "-", stdin=json.dumps(body))
    until(lambda: autonomous.on_hub("applications", "web"), what="the hub has the mirror")
    autonomous.hub.cli("app", "sync", APPLICATION, "--async")
    until(lambda: autonomous.deployed() == {"tea": "3"}, what="it is deployed")
    seen_from_the_hub(autonomous)
