"""The Helm chart with a real Helm: it renders what kustomize renders, and lives through a release's whole life."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from argocd.agents.vocabulary import Mode
from certs.authority import Authority, LeafSubject
from scripts.cluster.binaries import Binaries
from scripts.cluster.controlplane import Cluster
from scripts.cluster.helm import find_helm
from sidecars.fleet.joining import Joining
from webhook.registration.table import Registration, mutating, validating

pytestmark = [pytest.mark.proof, pytest.mark.timeout(1200)]

MANIFESTS = Path(__file__).parents[2] / "manifests"
CHART = MANIFESTS / "chart"
HELMS_LABELS = {
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "helm.sh/chart",
}
NAME, COMPONENT = "app.kubernetes.io/name", "app.kubernetes.io/component"
Objects = dict[tuple[str, str, str], Any]

OVERLAYS = {
    "webhook-only": {},
    "control-plane": {"principal": {"enabled": True}},
    "standby": {
        "principal": {
            "enabled": True,
            "highAvailability": {
                "enabled": True,
                "preferredRole": "replica",
                "peer": {"address": "principal-peer.example.com:443", "name": "principal-peer"},
            },
        }
    },
    "workload-managed": {"agent": {"enabled": True}},
    "workload-autonomous": {"agent": {"enabled": True, "mode": "autonomous"}},
}
PEER = {"address": "principal-peer.example.com:443", "name": "principal-peer"}
PAIRED = {"principal": {"enabled": True, "highAvailability": {"enabled": True, "peer": PEER}}}
INJECTED = yaml.safe_load((MANIFESTS / "components/injection/templates.yaml").read_text())["data"]
COMPONENTS = {
    "injection": {"webhook": {"injection": {"templates": INJECTED}}},
    "registration": {"webhook": {"registration": {"enabled": True}}},
    "cert-manager": {"webhook": {"certManager": {"enabled": True}}},
    "monitoring": {"monitoring": {"enabled": True}},
    "application-namespace": {"argocd": {"applicationNamespaces": ["applications"]}},
}
NOW = datetime(2026, 9, 1, tzinfo=UTC)
RELEASE = ("tiphys", str(CHART), "--namespace", "tiphys-system")


class Helm:
    def __init__(self, program: Path, home: Path) -> None:
        self._program, self._home = program, home

    def __call__(
        self, *words: str, kubeconfig: Path | None = None, values: Any = None, fails: bool = False
    ) -> str:
        settings = {f"HELM_{name}_HOME": str(self._home / name) for name in ("CACHE", "CONFIG", "DATA")}
        told = ["--values", "-"] if values is not None else []
        done = subprocess.run(
            [str(self._program), *words, *told],
            input=yaml.safe_dump(values) if values is not None else None,
            env={
                **settings,
                "PATH": os.environ["PATH"],
                "HOME": str(self._home),
                "KUBECONFIG": str(kubeconfig or ""),
            },
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert bool(done.returncode) is fails, done.stderr
        return done.stderr if fails else done.stdout

    def rendered(self, values: Any, *words: str) -> Objects:
        return keyed(self("template", *RELEASE, *words, values=values))


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(find_helm(), tmp_path_factory.mktemp("helm"))


def keyed(text: str) -> Objects:
    """Without what only Helm says, and with the configuration read, whose comments are for people."""
    found = {}
    for thing in yaml.safe_load_all(text):
        if thing is None:
            continue
        metadata = thing["metadata"]
        labels = {key: value for key, value in metadata.get("labels", {}).items() if key not in HELMS_LABELS}
        thing["metadata"] = {**metadata, "labels": labels}
        if thing["kind"] == "ValidatingAdmissionPolicy":
            thing["spec"] = _in_one_line(thing["spec"])  # kustomize writes folded texts with other breaks
        if "tiphys.yaml" in thing.get("data", {}):
            thing["data"] = {"tiphys.yaml": yaml.safe_load(thing["data"]["tiphys.yaml"])}
        found[thing["kind"], metadata.get("namespace", ""), metadata["name"]] = thing
    return found


def _in_one_line(value: Any) -> Any:
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, list):
        return [_in_one_line(item) for item in value]
    return {key: _in_one_line(item) for key, item in value.items()} if isinstance(value, dict) else value


def kustomized(binaries: Binaries, folder: Path, *, overlay: str, component: str = "") -> Objects:
    """With the image that the chart names; without the namespace, which is not Helm's to make."""
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    kustomization: dict[str, Any] = {
        "resources": [os.path.relpath(MANIFESTS / "overlays" / overlay, folder)],
        "images": [{"name": "tiphys", "newTag": version}],
    }
    if component:
        kustomization["components"] = [os.path.relpath(MANIFESTS / "components" / component, folder)]
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    done = subprocess.run(
        [str(binaries.kubectl), "kustomize", str(folder)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    found = keyed(done.stdout)
    return {key: thing for key, thing in found.items() if key[0] != "Namespace"}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_chart_and_an_overlay_render_the_same_objects(
    overlay: str, helm: Helm, cluster_binaries: Binaries, tmp_path: Path
) -> None:
    expected = kustomized(cluster_binaries, tmp_path, overlay=overlay)
    assert alike(helm.rendered(OVERLAYS[overlay]), expected) == expected


@pytest.mark.parametrize("component", COMPONENTS)
def test_the_chart_and_a_component_render_the_same_objects(
    component: str, helm: Helm, cluster_binaries: Binaries, tmp_path: Path
) -> None:
    expected = kustomized(cluster_binaries, tmp_path, overlay="webhook-only", component=component)
    assert alike(helm.rendered(COMPONENTS[component]), expected) == expected


def test_the_chart_and_the_component_of_a_pair_render_the_same_active_principal(
    helm: Helm, cluster_binaries: Binaries, tmp_path: Path
) -> None:
    expected = kustomized(cluster_binaries, tmp_path, overlay="control-plane", component="high-availability")
    assert alike(helm.rendered(PAIRED), expected) == expected


def test_the_notes_name_the_next_commands_with_the_namespaces_of_the_release(helm: Helm) -> None:
    def notes(values: Any) -> str:
        moved = {**values, "argocd": {"namespace": "gitops", "applicationNamespaces": ["team-a"]}}
        return helm("install", *RELEASE, "--dry-run=client", values=moved).partition("NOTES:")[2]

    places = (
        "--argocd-namespace gitops --application-namespace team-a"  # the group's options, before its commands
    )
    for command in ("register", "unregister"):
        assert f"tiphys webhook {places} {command}\n" in notes(OVERLAYS["webhook-only"])
    for command in ("init", "issue principal --dns NAME", "issue redis-proxy", "issue resource-proxy"):
        assert f"  tiphys pki {command} --principal-namespace gitops\n" in notes(OVERLAYS["control-plane"])
    assert "--dns NAME --identity IDENTITY --principal-namespace gitops\n" in notes(PAIRED)
    assert "tiphys pki init" not in notes(OVERLAYS["standby"])
    for values in (PAIRED, OVERLAYS["standby"]):
        assert "tiphys doctor --argocd-namespace gitops" in notes(values)
    assert "--agent-context CONTEXT --agent-namespace gitops\n" in notes(OVERLAYS["workload-managed"])


@pytest.mark.parametrize(
    ("component", "value"),
    [("agent-logs", "logs"), ("agent-terminals", "terminals"), ("live-resources-edit", "liveResourcesEdit")],
)
def test_the_chart_and_a_component_of_an_agent_render_the_same_objects(
    component: str, value: str, helm: Helm, cluster_binaries: Binaries, tmp_path: Path
) -> None:
    expected = kustomized(cluster_binaries, tmp_path, overlay="workload-managed", component=component)
    rendered = helm.rendered({"agent": {"enabled": True, value: {"enabled": True}}})
    assert alike(rendered, expected) == expected


def test_the_chart_opens_the_admin_port_of_a_pair_as_the_component_does(
    helm: Helm, cluster_binaries: Binaries, tmp_path: Path
) -> None:
    expected = kustomized(cluster_binaries, tmp_path, overlay="standby", component="high-availability-admin")
    values: Any = deepcopy(OVERLAYS["standby"])
    values["principal"]["highAvailability"]["adminAuth"] = "mtls:subject:^CN=ops$"
    assert alike(helm.rendered(values), expected) == expected


def alike(rendered: Objects, expected: Objects) -> Objects:
    """Helm labels a component's objects too; of these kustomize labels all or nothing, and a pair has two components."""
    return {
        key: thing if NAME in expected[key]["metadata"]["labels"] else _without(thing, NAME, COMPONENT)
        for key, thing in rendered.items()
    }


def test_the_chart_watches_the_principal_as_the_component_does(
    helm: Helm, cluster_binaries: Binaries, tmp_path: Path
) -> None:
    expected = kustomized(cluster_binaries, tmp_path, overlay="control-plane", component="monitoring-fleet")
    rendered = helm.rendered({**PAIRED, "monitoring": {"enabled": True}})
    for kind, name in (
        ("ServiceMonitor", "tiphys-principal"),
        ("PrometheusRule", "tiphys-fleet"),
        ("PrometheusRule", "tiphys-principal-pair"),
        ("ConfigMap", "tiphys-fleet-dashboard"),
    ):
        key = (kind, "argocd", name)
        assert _without(rendered[key], NAME, COMPONENT) == _without(expected[key], NAME, COMPONENT)


def _without(thing: Any, *labels: str) -> Any:
    left = {key: value for key, value in thing["metadata"]["labels"].items() if key not in labels}
    return {**thing, "metadata": {**thing["metadata"], "labels": left}}


def test_in_other_namespaces_everything_moves_along(helm: Helm) -> None:
    values = {"argocd": {"namespace": "gitops"}, "webhook": {"registration": {"enabled": True}}}
    values |= {"principal": {"enabled": True}, "agent": {"enabled": True}}
    moved = keyed(helm("template", "tiphys", str(CHART), "--namespace", "steering", values=values))
    assert not re.search(r"tiphys-system|namespace: argocd$|\bargocd:", yaml.safe_dump(list(moved.values())))
    assert {namespace for _, namespace, _ in moved} == {"", "gitops", "steering"}
    registration = Registration(home="steering", argocd_namespace="gitops")
    for made in (validating(registration), mutating(registration)):
        there = moved[made["kind"], "", "tiphys"]
        assert [_sorted(entry) for entry in there["webhooks"]] == [
            _sorted(entry) for entry in made["webhooks"]
        ]


def test_namespaces_of_applications_are_guarded_and_read_wherever_the_webhook_is_told_of_them(
    helm: Helm,
) -> None:
    values = {
        "argocd": {"applicationNamespaces": ["team-a", "team-b"]},
        "webhook": {"registration": {"enabled": True}},
    }
    rendered = helm.rendered(values)
    registration = Registration(application_namespaces=("team-a", "team-b"))
    for made in (validating(registration), mutating(registration)):
        there = rendered[made["kind"], "", "tiphys"]
        assert [_sorted(entry) for entry in there["webhooks"]] == [
            _sorted(entry) for entry in made["webhooks"]
        ]
    for namespace in ("team-a", "team-b"):
        assert ("Role", namespace, "tiphys-webhook") in rendered
        [subject] = rendered["RoleBinding", namespace, "tiphys-webhook"]["subjects"]
        assert subject["namespace"] == "tiphys-system"
    [container] = rendered["Deployment", "tiphys-system", "tiphys-webhook"]["spec"]["template"]["spec"][
        "containers"
    ]
    assert container["args"][-2:] == ["--application-namespace=team-a", "--application-namespace=team-b"]


def _sorted(entry: Any) -> Any:
    """Names of namespaces in any order."""
    expressions = entry.get("namespaceSelector", {}).get("matchExpressions", [])
    return {
        **entry,
        "namespaceSelector": [{**one, "values": sorted(one.get("values", []))} for one in expressions],
    }


def test_helm_finds_nothing_to_complain_of(helm: Helm) -> None:
    told = helm("lint", "--strict", str(CHART))
    assert "0 chart(s) failed" in told


def test_wrong_values_are_refused_before_anything_is_rendered(helm: Helm) -> None:
    told = helm("template", *RELEASE, values={"agent": {"mode": "manged"}}, fails=True)
    assert "agent" in told
    assert "mode" in told
    certificate = {"key": "-----BEGIN PRIVATE KEY-----\nMII=\n"}
    told = helm(
        "template", *RELEASE, values={"agent": {"enabled": True, "certificate": certificate}}, fails=True
    )
    assert "agent.certificate" in told


@pytest.mark.parametrize("mode", Mode)
def test_an_agents_values_make_what_its_stream_holds(mode: Mode, helm: Helm) -> None:
    authority = Authority.create("fleet", now=NOW)
    pair = authority.issue(LeafSubject("prod"), now=NOW, server=False, client=True)
    joining = Joining(
        agent="prod",
        mode=mode,
        namespace="gitops",
        address="agents.example.org",
        port=8443,
        image="images.example.org:5000/tiphys:1.2.3",
        pair=pair,
        authority=authority.pair.certificate,
    )
    rendered = helm.rendered(joining.helm_values())
    expected = keyed(yaml.safe_dump_all(joining.objects()))
    assert alike(rendered, expected) == expected


@pytest.fixture
def hub(cluster_binaries: Binaries) -> Iterator[Cluster]:
    with Cluster(name="chart", binaries=cluster_binaries) as own:
        own.create_namespace("argocd")
        yield own


def test_a_release_is_installed_upgraded_rolled_back_and_uninstalled(helm: Helm, hub: Cluster) -> None:
    def deployments() -> dict[str, Any]:
        told = json.loads(hub.kubectl("get", "deployments", "-A", "-o", "json").stdout)
        return {one["metadata"]["name"]: one["spec"]["replicas"] for one in told["items"]}

    def objects() -> set[str]:
        kinds = "deployments,services,roles,rolebindings,clusterroles,clusterrolebindings,priorityclasses,networkpolicies"
        kinds += ",validatingadmissionpolicies,validatingwebhookconfigurations,serviceaccounts,poddisruptionbudgets"
        told = hub.kubectl("get", kinds, "-A", "-o", "name", "-l", "app.kubernetes.io/name=tiphys")
        return set(told.stdout.split())

    notes = helm("install", *RELEASE, "--create-namespace", kubeconfig=hub.kubeconfig)
    assert "tiphys webhook register" in notes
    assert deployments() == {"tiphys-webhook": 2}
    first = objects()

    whole = {"principal": {"enabled": True}, "webhook": {"replicas": 3, "registration": {"enabled": True}}}
    notes = helm("upgrade", *RELEASE, values=whole, kubeconfig=hub.kubeconfig)
    assert "tiphys pki issue principal" in notes
    assert "tiphys webhook register" not in notes
    assert deployments() == {"tiphys-webhook": 3, "tiphys-principal": 1}
    _write_bundle(hub)
    helm("upgrade", *RELEASE, values=whole, kubeconfig=hub.kubeconfig)
    registered = hub.request("GET", f"{CONFIGURATIONS}/tiphys")["webhooks"]
    assert {entry["clientConfig"].get("caBundle") for entry in registered} == {BUNDLE}, "it is not Helm's"

    helm("rollback", "tiphys", "1", "--namespace", "tiphys-system", kubeconfig=hub.kubeconfig)
    assert deployments() == {"tiphys-webhook": 2}
    assert objects() == first

    helm("uninstall", "tiphys", "--namespace", "tiphys-system", kubeconfig=hub.kubeconfig)
    assert objects() == set()


CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
BUNDLE = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCi0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K"


def _write_bundle(hub: Cluster) -> None:
    """As the running webhook does: with a field manager of its own."""
    entries = hub.request("GET", f"{CONFIGURATIONS}/tiphys")["webhooks"]
    patch = [
        {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": BUNDLE}
        for index in range(len(entries))
    ]
    path = f"{CONFIGURATIONS}/tiphys?fieldManager=tiphys-webhook"
    hub.request("PATCH", path, patch, content_type="application/json-patch+json")
