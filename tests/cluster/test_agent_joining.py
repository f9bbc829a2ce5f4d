"""An agent joined by one command on the hub and one on its own cluster."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from scripts.acceptance.clusters import Place, until
from scripts.cluster.controlplane import Cluster
from scripts.cluster.testing import Clusters
from scripts.ports import free_port
from tests.cluster.installation import AGENT, MANIFESTS, installed, sidecar, tiphys
from tests.command_here import Done, tiphys_here
from tiphys import __version__

CHART = MANIFESTS.parent / "chart"


def create(hub: Cluster, *words: str) -> Done:
    return tiphys_here("agents", "create", AGENT, *words, "--kubeconfig", str(hub.kubeconfig))


def without_secrets(stream: str) -> dict[str, Any]:
    things = yaml.safe_load_all(stream)
    return {
        f"{thing['kind']}/{thing['metadata']['name']}": thing for thing in things if thing["kind"] != "Secret"
    }


@pytest.mark.parametrize("mode", ["managed", "autonomous"])
def test_one_stream_brings_an_agent_that_connects(mode: str, clusters: Clusters, tmp_path: Path) -> None:
    hub, edge, port = clusters.control_plane, clusters.workload, free_port()
    with ExitStack() as stack:
        stack.enter_context(installed(hub, "control-plane"))
        stack.callback(edge.drop_namespace, "argocd")
        edge.create_namespace("argocd")
        tiphys(hub, "pki", "init")
        tiphys(hub, "pki", "issue", "principal", "--dns", "localhost")
        listening = ("--listen-host", "localhost", "--listen-port", str(port), "--allowed-namespaces", "*")
        stack.enter_context(sidecar("principal", hub, *listening, folder=tmp_path))

        words = ("--manifests", "--create-namespace", "--mode", mode, "--server-address", "localhost")
        made = create(hub, *words, "--server-port", str(port))
        assert made.returncode == 0, made.stderr
        assert "PRIVATE" not in made.stderr
        edge.kubectl("apply", "--server-side", "-f", "-", stdin=made.stdout)
        stack.callback(
            edge.kubectl, "delete", "--ignore-not-found", "--wait=false", "-f", "-", stdin=made.stdout
        )

        given = without_secrets(made.stdout)
        text = hub.kubectl("kustomize", str(MANIFESTS / f"workload-{mode}")).stdout
        rendered = without_secrets(text.replace("image: tiphys\n", f"image: tiphys:{__version__}\n"))
        assert given.keys() == {key for key, thing in rendered.items() if _is_agents(thing)}
        arguments = given["Deployment/tiphys-agent"]["spec"]["template"]["spec"]["containers"][0].pop("args")
        rendered["Deployment/tiphys-agent"]["spec"]["template"]["spec"]["containers"][0].pop("args")
        assert given == {key: rendered[key] for key in given}

        stack.enter_context(sidecar("agent", edge, *arguments[1:], folder=tmp_path))
        place = Place(kubeconfig=hub.kubeconfig, kubectl=str(hub.binaries.kubectl))
        other = Place(kubeconfig=edge.kubeconfig, kubectl=str(edge.binaries.kubectl))
        source, target, name = (
            (place, other, "shop") if mode == "managed" else (other, place, f"{AGENT}-shop")
        )
        source.must("apply", "-f", "-", stdin=json.dumps(PROJECT))
        until(lambda: target.get("appproject", name, namespace="argocd"), what="the project at the other end")


PROJECT = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "AppProject",
    "metadata": {"name": "shop", "namespace": "argocd"},
    "spec": {
        "sourceRepos": ["*"],
        "sourceNamespaces": ["*"],
        "destinations": [{"name": AGENT, "server": "*", "namespace": "*"}],
    },
}


def _is_agents(thing: Any) -> bool:
    return bool(thing["metadata"].get("labels", {}).get("app.kubernetes.io/component") == "agent")


@pytest.fixture
def hub(cluster: Cluster) -> Any:
    cluster.create_namespace("argocd")
    tiphys(cluster, "pki", "init")
    yield cluster
    cluster.drop_namespace("argocd")


def test_what_would_fail_on_the_agents_cluster_is_told_before_anything_is_made(hub: Cluster) -> None:
    assert "argocd-agent-principal does not exist" in create(hub, "--manifests").stderr
    service = {
        "metadata": {"name": "argocd-agent-principal"},
        "spec": {"ports": [{"port": 443}], "type": "LoadBalancer"},
    }
    hub.request("POST", SERVICES, service)
    assert "has no address outside yet" in create(hub, "--manifests").stderr
    status = {"status": {"loadBalancer": {"ingress": [{"hostname": "agents.example.org"}]}}}
    path = f"{SERVICES}/argocd-agent-principal/status"
    hub.request("PATCH", path, status, content_type="application/merge-patch+json")
    assert (
        "`tiphys pki issue principal --dns agents.example.org` makes it" in create(hub, "--manifests").stderr
    )
    tiphys(hub, "pki", "issue", "principal", "--dns", "other.example.org")
    assert "and not agents.example.org" in create(hub, "--manifests").stderr
    assert create(hub, "--manifests", "--helm-values").returncode == 2
    secrets = hub.kubectl("get", "secrets", "-n", "argocd", "-o", "name").stdout
    assert "cluster-" not in secrets

    tiphys(hub, "pki", "issue", "principal", "--dns", "agents.example.org", "--replace")
    printed = create(hub, "--helm-values", "--image", "images.example.org:5000/tiphys:1.2.3")
    assert printed.returncode == 0, printed.stderr
    values = yaml.safe_load(printed.stdout)
    jsonschema.validate(values, json.loads((CHART / "values.schema.json").read_text()))
    assert values["agent"]["principal"] == {"address": "agents.example.org", "port": 443}
    assert values["image"] == {"repository": "images.example.org:5000/tiphys", "tag": "1.2.3"}
    assert "exists already" in create(hub, "--manifests").stderr


SERVICES = "/api/v1/namespaces/argocd/services"
