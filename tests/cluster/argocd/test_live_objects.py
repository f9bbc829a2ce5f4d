"""Live objects of a workload cluster through the hub's own argocd-server: both proxies, by its CLI and its REST API.

Only the workload cluster has an application controller.
"""

import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from argocd import names
from argocd.agents.vocabulary import Mode
from scripts.cluster.argocd.components import Component
from scripts.cluster.argocd.installation import NAMESPACE, ArgoCd
from scripts.cluster.argocd.programs import Programs
from scripts.cluster.binaries import Binaries
from scripts.cluster.controlplane import Cluster
from scripts.ports import free_port
from tests.cluster.argocd.agent_fleet import RESYNC_SECONDS, TARGET, Fleet, Object, started_ends
from tests.cluster.argocd.go_ends import GO_PORTS, GoEnd, go_agent, go_principal
from tests.cluster.argocd.live_by_cli import seen_by_the_cli
from tests.cluster.argocd.logs_and_terminal import POD, PlayedPods, logs, logs_and_a_terminal
from tests.cluster.argocd.rest_api import Rest
from tests.cluster.argocd.steered import HERE, config_map
from tests.cluster.installation import AGENT, MANIFESTS, certificates, sidecar, tiphys
from tests.sidecars.processes import Pki
from tests.webhook.guarded_cluster import until

APPLICATION = f"{AGENT}/web"
PASSWORD = "behind-the-proxy"
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
    certified: bool = False,
    go: GoEnd | None = None,
) -> Iterator[Fleet]:
    """`agent_words`: what else the agent is told. `certified`: no Redis has a password, all have TLS, and argocd-server
    shows a certificate to the proxy. `go`: which end is a real argocd-agent.
    """
    encrypted = (EncryptedRedis(folder / "hub"), EncryptedRedis(folder / "workload")) if certified else None
    with ExitStack() as stack:
        hub, workload = stack.enter_context(
            started_ends(
                ArgoCd(
                    Cluster(name="hub", binaries=binaries),
                    programs=programs,
                    components=(Component.REPO_SERVER,),
                    application_namespaces=(AGENT,),
                    redis_password="" if encrypted else PASSWORD,
                    redis_words=encrypted[0].words if encrypted else (),
                ),
                ArgoCd(
                    Cluster(name="workload", binaries=binaries),
                    programs=programs,
                    components=(Component.REPO_SERVER, Component.CONTROLLER),
                    resync_seconds=RESYNC_SECONDS,
                    redis_words=encrypted[1].words if encrypted else (),
                ),
                mode=mode,
            )
        )
        workload.cluster.kubectl("apply", "--server-side", "-f", str(EDIT_RIGHTS))
        agents, resources, redis = free_port(), free_port(), free_port()
        if go is GoEnd.PRINCIPAL:
            resources, redis = GO_PORTS
        certificates(hub.cluster, workload.cluster, folder=folder, resource_proxy_port=resources)
        listening = (
            *("--listen-host", "localhost", "--listen-port", str(agents), "--allowed-namespaces", "*"),
            *("--resource-proxy-port", str(resources), "--redis-proxy-port", str(redis)),
            "--disable-redis-proxy=false",
        )
        behind: tuple[str, ...]
        agents_redis: tuple[str, ...]
        if encrypted:
            behind = ("--redis-server-address", encrypted[0].address, "--redis-tls-enabled")
            behind += ("--redis-ca-path", str(encrypted[0].authority))
            agents_redis = ("--redis-addr", encrypted[1].address, "--redis-tls-enabled")
            agents_redis += ("--redis-tls-ca-path", str(encrypted[1].authority))
            hub.server_words = certified_client(hub, folder=folder)
        else:
            behind = ("--insecure-redis-plaintext", "--redis-server-address", hub.redis)
            behind += ("--redis-password", PASSWORD)
            agents_redis = ("--redis-addr", workload.redis)
        if go is GoEnd.PRINCIPAL:
            stack.enter_context(go_principal(hub, port=agents, password=PASSWORD, folder=folder))
        else:
            stack.enter_context(sidecar("principal", hub.cluster, *listening, *behind, folder=folder))
        more = agent_words(workload, stack)
        if go is GoEnd.AGENT:
            stack.enter_context(go_agent(workload, *more, mode=mode, port=agents, folder=folder))
        else:
            dialling = ("--server-address", "localhost", "--server-port", str(agents))
            words = ("--agent-mode", mode.value, *dialling, *agents_redis, *more)
            stack.enter_context(sidecar("agent", workload.cluster, *words, folder=folder))
        hub.redis_of_server = f"localhost:{redis}"
        hub.start_component(Component.SERVER)
        hub.log_in()
        yield Fleet(hub, workload)


class EncryptedRedis:
    """A second port of a redis-server, with TLS."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        pki = Pki()
        pair = pki.pair("redis", server=True)
        self.authority = folder / "ca.crt"
        for name, content in (
            ("ca.crt", pki.authority.pair.certificate),
            ("tls.crt", pair.certificate),
            ("tls.key", pair.key),
        ):
            (folder / name).write_bytes(content)
        port = free_port()
        self.address = f"localhost:{port}"
        self.words = (
            *("--tls-port", str(port), "--tls-auth-clients", "no"),
            *("--tls-cert-file", str(folder / "tls.crt"), "--tls-key-file", str(folder / "tls.key")),
            *("--tls-ca-cert-file", str(self.authority)),
        )


def certified_client(hub: ArgoCd, *, folder: Path) -> tuple[str, ...]:
    """What argocd-server is told, after the commands that the docs name."""
    tiphys(hub.cluster, "pki", "issue", "redis-proxy", "--dns", "localhost")
    tiphys(hub.cluster, "pki", "issue", "redis-client")
    files = {}
    for secret, keys in (
        (names.REDIS_CLIENT_TLS_SECRET, ("tls.crt", "tls.key")),
        (names.AGENT_CA_SECRET, ("tls.crt",)),
    ):
        data = hub.cluster.request("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/{secret}")["data"]
        for key in keys:
            files[secret, key] = folder / f"{secret}-{key}"
            files[secret, key].write_bytes(b64decode(data[key]))
    return (
        "--redis-use-tls",
        f"--redis-ca-certificate={files[names.AGENT_CA_SECRET, 'tls.crt']}",
        f"--redis-client-certificate={files[names.REDIS_CLIENT_TLS_SECRET, 'tls.crt']}",
        f"--redis-client-key={files[names.REDIS_CLIENT_TLS_SECRET, 'tls.key']}",
    )


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


def live_manifest(rest: Rest, what: dict[str, str]) -> Object:
    code, answer = rest("GET", "/resource", **what)
    assert code == 200, answer
    found: Object = json.loads(answer["manifest"])
    return found


def seen_from_the_hub(fleet: Fleet, *, go: GoEnd | None = None) -> None:
    """Tree, live manifest, diff, edit, action, events and delete of an Application that is deployed."""
    rest, hub = Rest(fleet.hub), fleet.hub
    config_maps = f"/api/v1/namespaces/{TARGET}/configmaps/prices"

    def nodes() -> set[str]:
        code, tree = rest("GET", "/resource-tree")
        # One that is not deployed yet has no uid.
        return {node["name"] for node in tree.get("nodes") or [] if node.get("uid")} if code == 200 else set()

    until(lambda: {"prices", "web"} <= nodes(), what="the tree comes through the agent's Redis")

    def told_of_the_cluster() -> bool:
        clusters = json.loads(hub.cli("cluster", "list", "-o", "json").stdout)
        [info] = [each["info"] for each in clusters if each["name"] == AGENT]
        state, counted = info["connectionState"], info["cacheInfo"]
        if go is not None:
            return bool(state["status"] == "Successful")
        connected = state["status"] == "Successful" and f"agent {AGENT}, version" in state["message"]
        counts = min(counted.get("resourcesCount", 0), counted.get("apisCount", 0), info["applicationsCount"])
        return connected and counts > 0 and info["serverVersion"].startswith("1.")

    until(told_of_the_cluster, what="the page of clusters shows the agent")
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
    # An agent of argocd-agent's would carry it out as a merge patch: it is not asked.
    assert (code == 200) is (go is not GoEnd.AGENT), answer
    code, answer = rest("POST", "/resource/actions", "restart", **WEB)
    assert code == 200, answer
    template = live_manifest(rest, WEB)["spec"]["template"]
    image = "example.org/web:1" if go is GoEnd.AGENT else "example.org/web:2"
    assert template["spec"]["containers"][0]["image"] == image
    assert "kubectl.kubernetes.io/restartedAt" in template["metadata"]["annotations"]

    def differs() -> bool:
        done = hub.cli("app", "diff", APPLICATION, "--refresh", check=False)
        return done.returncode == 1 and "tea" in done.stdout

    until(differs, what="the diff shows the edit")
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


def create_managed(managed: Fleet, **more: str) -> None:
    """By `argocd app create`, with validation; `more` is committed too."""
    hub, workload = managed.hub, managed.workload
    repository = hub.repository("shop")
    repository.commit(
        {
            "shop/prices.json": config_map("prices", tea="3"),
            "shop/web.json": deployment(),
            **{f"shop/{name}.json": text for name, text in more.items()},
        }
    )
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
    # Validated, too.
    hub.cli("app", "set", APPLICATION, "--sync-option", "PruneLast=true")
    limit = json.dumps({"spec": {"revisionHistoryLimit": 7}})
    hub.cli("app", "patch", APPLICATION, "--type", "merge", "--patch", limit)

    def changed() -> bool:
        spec = (managed.on_workload("applications", "web") or {})["spec"]
        return bool(
            spec.get("revisionHistoryLimit") == 7 and spec["syncPolicy"]["syncOptions"] == ["PruneLast=true"]
        )

    until(changed, what="the agent has both changes")


def test_a_managed_application_is_created_with_validation_and_worked_with_live(managed: Fleet) -> None:
    create_managed(managed)
    seen_from_the_hub(managed)
    managed.hub.cli("app", "sync", APPLICATION, "--async")  # what was edited and deleted is there again
    until(lambda: managed.deployed() == {"tea": "3"}, what="it is deployed again")
    seen_by_the_cli(managed)


def create_autonomous(autonomous: Fleet, **more: str) -> None:
    """`more` is committed too."""
    workload = autonomous.workload
    repository = workload.repository("shop")
    repository.commit(
        {
            "shop/prices.json": config_map("prices", tea="3"),
            "shop/web.json": deployment(),
            **{f"shop/{name}.json": text for name, text in more.items()},
        }
    )
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


def test_an_autonomous_application_is_worked_with_live_its_logs_and_terminal_too(
    argocd_programs: Programs, cluster_binaries: Binaries, tmp_path: Path
) -> None:
    """With TLS and certificates where the managed one has a password."""
    pods = PlayedPods()
    with live_fleet(
        argocd_programs,
        cluster_binaries,
        mode=Mode.AUTONOMOUS,
        folder=tmp_path,
        agent_words=pods,
        certified=True,
    ) as fleet:
        create_autonomous(fleet, pod=json.dumps(POD))
        seen_from_the_hub(fleet)
        logs_and_a_terminal(fleet, pods.front, folder=tmp_path, project=f"{AGENT}-web")
        assert "container cache is not valid for pod web-1" in logs(fleet.hub, container="cache")
        audit = (tmp_path / "principal.log").read_text()
        assert set(re.findall("log read|terminal used", audit)) == {"log read", "terminal used"}
