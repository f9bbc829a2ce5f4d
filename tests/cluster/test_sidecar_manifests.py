"""The sidecars' manifests on a real API server, and the sidecars with the identities and rights that they give."""

import shutil
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from argocd.engine.configuration_file import parse_text
from argocd.engine.directory import Directory
from argocd.engine.judge import judge
from argocd.judging.case import Case, Kind, Surroundings, User
from argocd.settings.argocd_cm import Settings
from cli.main import tiphys
from scripts.cluster.controlplane import Cluster

MANIFESTS = Path(__file__).parents[2] / "manifests"
SIDECARS = ("control-plane", "workload-managed", "workload-autonomous", "kind")
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


def rendered(cluster: Cluster, overlay: str) -> list[dict[str, Any]]:
    text = cluster.kubectl("kustomize", str(MANIFESTS / "overlays" / overlay)).stdout
    return list(yaml.safe_load_all(text))


@pytest.fixture
def argocd(cluster: Cluster) -> Iterator[str]:
    """Argo CD's namespace, with the strictest Pod Security: its own manifests need less."""
    cluster.create_namespace("argocd", labels=RESTRICTED)
    yield "argocd"
    for namespace in ("tiphys-system", "argocd"):
        cluster.drop_namespace(namespace)


@pytest.mark.parametrize("overlay", SIDECARS)
def test_an_overlay_is_accepted_and_its_pods_pass_pod_security_restricted(
    cluster: Cluster, argocd: str, overlay: str
) -> None:
    folder = str(MANIFESTS / "overlays" / overlay)
    cluster.kubectl("apply", "--server-side", "-k", folder)
    try:
        made = [thing for thing in rendered(cluster, overlay) if thing["kind"] == "Deployment"]
        assert len(made) == 2
        for deployment in made:
            name, namespace = deployment["metadata"]["name"], deployment["metadata"]["namespace"]
            pod = {"metadata": {"name": name}, "spec": deployment["spec"]["template"]["spec"]}
            stored = cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)
            assert stored["spec"]["serviceAccountName"] == name
            (container,) = stored["spec"]["containers"]
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["readinessProbe"]
            assert container["livenessProbe"]
            assert container["resources"]["requests"]
    finally:
        cluster.kubectl("delete", "--wait=false", "-k", folder)


@pytest.mark.parametrize("overlay", [*SIDECARS, "webhook-only"])
def test_the_scheduler_is_told_what_matters(cluster: Cluster, overlay: str) -> None:
    """Several pods are kept apart and some of them kept; a single one can be drained, and leaves a dead node soon."""
    things = rendered(cluster, overlay)
    classes = {thing["metadata"]["name"] for thing in things if thing["kind"] == "PriorityClass"}
    budgets = [thing["spec"] for thing in things if thing["kind"] == "PodDisruptionBudget"]
    for thing in things:
        if thing["kind"] != "Deployment":
            continue
        pod, labels = thing["spec"]["template"]["spec"], thing["spec"]["template"]["metadata"]["labels"]
        kept = [
            budget["minAvailable"]
            for budget in budgets
            if budget["selector"]["matchLabels"].items() <= labels.items()
        ]
        assert pod["priorityClassName"] in classes
        if thing["spec"]["replicas"] > 1:
            assert kept == [1]
            assert pod["affinity"]["podAntiAffinity"]
        elif "affinity" in pod:  # the webhook, alone on a node of kind
            assert kept == [0]
        else:
            assert kept == []
            assert {toleration["tolerationSeconds"] for toleration in pod["tolerations"]} == {30}


@pytest.mark.parametrize(
    ("overlay", "account", "verb", "resource", "namespace"),
    [
        ("control-plane", "tiphys-principal", "list", "secrets", "kube-system"),
        ("control-plane", "tiphys-principal", "update", "secrets", "argocd"),
        ("control-plane", "tiphys-principal", "create", "secrets", "argocd"),
        ("control-plane", "tiphys-principal", "create", "namespaces", ""),
        ("control-plane", "tiphys-principal", "update", "configmaps/argocd-cm", "argocd"),
        ("control-plane", "tiphys-principal", "update", "appprojects.argoproj.io", "default"),
        ("control-plane", "tiphys-principal", "impersonate", "serviceaccounts", "argocd"),
        ("workload-managed", "tiphys-agent", "list", "applications.argoproj.io", "default"),
        ("workload-managed", "tiphys-agent", "update", "configmaps/argocd-cm", "argocd"),
        ("workload-managed", "tiphys-agent", "get", "secrets", "default"),
        ("workload-managed", "tiphys-agent", "create", "pods", "argocd"),
        ("workload-autonomous", "tiphys-agent", "list", "secrets", "argocd"),
        ("workload-autonomous", "tiphys-agent", "update", "appprojects.argoproj.io", "argocd"),
        ("workload-autonomous", "tiphys-agent", "create", "applications.argoproj.io", "argocd"),
        ("workload-autonomous", "tiphys-agent", "delete", "applications.argoproj.io", "argocd"),
    ],
)
def test_a_sidecar_may_do_no_more(
    *, cluster: Cluster, overlay: str, account: str, verb: str, resource: str, namespace: str
) -> None:
    """Judged from the rules themselves: nobody else grants anything to these accounts."""
    group_resource, _, name = resource.partition("/")
    plural, _, group = group_resource.partition(".")
    for thing in rendered(cluster, overlay):
        if thing["kind"] not in {"Role", "ClusterRole"} or thing["metadata"]["name"] != account:
            continue
        if thing["kind"] == "Role" and thing["metadata"]["namespace"] != namespace:
            continue
        for rule in thing["rules"]:
            covers = group in rule["apiGroups"] and plural in rule["resources"] and verb in rule["verbs"]
            names = rule.get("resourceNames")
            assert not (covers and (names is None or name in names)), rule


@pytest.mark.parametrize("overlay", [*SIDECARS, "webhook-only"])
def test_the_command_line_understands_what_the_pods_are_started_with(cluster: Cluster, overlay: str) -> None:
    for thing in rendered(cluster, overlay):
        if thing["kind"] != "Deployment":
            continue
        (container,) = thing["spec"]["template"]["spec"]["containers"]
        name, *words = container["args"]
        command = tiphys.get_command(click.Context(tiphys), name)
        assert command is not None, name
        command.make_context(name, words, parent=click.Context(tiphys, info_name="tiphys"))


def overlay_with(component: str, *, base: str, folder: Path) -> Path:
    copy = folder / "manifests"
    shutil.copytree(MANIFESTS, copy)
    own = copy / "overlays" / "own"
    own.mkdir()
    (own / "kustomization.yaml").write_text(
        yaml.safe_dump(
            {
                "apiVersion": "kustomize.config.k8s.io/v1beta1",
                "kind": "Kustomization",
                "resources": [f"../{base}"],
                "components": [f"../../components/{component}"],
            }
        )
    )
    return own


@pytest.mark.parametrize("component", sorted(path.name for path in (MANIFESTS / "components").iterdir()))
def test_every_component_can_be_added_to_an_overlay(cluster: Cluster, component: str, tmp_path: Path) -> None:
    """Kinds of cert-manager and the Prometheus operator are not on this API server: rendered, not applied."""
    of_agents = {"agent-autonomous", "agent-logs", "agent-terminals", "workload-role"}
    base = "workload-managed" if component in of_agents else "control-plane"
    own = overlay_with(component, base=base, folder=tmp_path)
    made = list(yaml.safe_load_all(cluster.kubectl("kustomize", str(own)).stdout))
    added = {
        "agent-autonomous": ("Role", "tiphys-agent"),
        "agent-logs": ("ClusterRole", "tiphys-agent-logs"),
        "agent-terminals": ("ClusterRole", "tiphys-agent-terminals"),
        "application-namespace": ("Role", "tiphys-webhook"),
        "cert-manager": ("Certificate", "tiphys-webhook"),
        "high-availability": ("ValidatingAdmissionPolicy", "tiphys-ha-fence"),
        "high-availability-admin": ("NetworkPolicy", "tiphys-principal-ha-admin"),
        "injection": ("ConfigMap", "tiphys-injection"),
        "live-resources-edit": ("ClusterRole", "tiphys-agent-live-resources-edit"),
        "monitoring": ("ConfigMap", "tiphys-dashboard"),
        "monitoring-fleet": ("ConfigMap", "tiphys-fleet-dashboard"),
        "registration": ("ValidatingWebhookConfiguration", "tiphys"),
        "workload-role": ("ConfigMap", "tiphys"),
    }[component]
    assert added in {(thing["kind"], thing["metadata"]["name"]) for thing in made}


def test_the_right_to_exec_comes_with_the_switch_and_not_without_it(
    cluster: Cluster, argocd: str, tmp_path: Path
) -> None:
    for overlay in (*SIDECARS, "webhook-only"):
        text = cluster.kubectl("kustomize", str(MANIFESTS / "overlays" / overlay)).stdout
        assert "exec" not in text
        rules = [rule for thing in yaml.safe_load_all(text) for rule in thing.get("rules") or ()]
        assert [rule for rule in rules if {"*", "pods/*"} & set(rule.get("resources") or ())] == []
    own = overlay_with("agent-terminals", base="workload-managed", folder=tmp_path)
    asked = ("auth", "can-i", "--as", f"system:serviceaccount:{argocd}:tiphys-agent", "--subresource", "exec")
    verbs = ("get", "create")
    try:
        cluster.kubectl("apply", "--server-side", "-k", str(MANIFESTS / "overlays" / "workload-managed"))
        without = [cluster.kubectl(*asked, verb, "pods", check=False).stdout.strip() for verb in verbs]
        cluster.kubectl("apply", "--server-side", "-k", str(own))
        granted = [cluster.kubectl(*asked, verb, "pods", check=False).stdout.strip() for verb in verbs]
        arguments = cluster.request("GET", f"/apis/apps/v1/namespaces/{argocd}/deployments/tiphys-agent")
    finally:
        cluster.kubectl("delete", "--wait=false", "-k", str(own))
    assert (without, granted) == (["no", "no"], ["yes", "yes"])
    assert "--enable-exec" in arguments["spec"]["template"]["spec"]["containers"][0]["args"]


@pytest.mark.parametrize("overlay", [*SIDECARS, "webhook-only"])
def test_every_deployment_has_a_network_policy_without_asking(cluster: Cluster, overlay: str) -> None:
    things = rendered(cluster, overlay)
    deployed = {thing["metadata"]["name"] for thing in things if thing["kind"] == "Deployment"}
    assert deployed == {thing["metadata"]["name"] for thing in things if thing["kind"] == "NetworkPolicy"}


def test_both_proxies_admit_argocd_server_alone(cluster: Cluster) -> None:
    [policy] = [
        thing["spec"]
        for thing in rendered(cluster, "control-plane")
        if (thing["kind"], thing["metadata"]["name"]) == ("NetworkPolicy", "tiphys-principal")
    ]
    assert policy["policyTypes"] == ["Ingress"]
    server = [{"podSelector": {"matchLabels": {"app.kubernetes.io/name": "argocd-server"}}}]
    for port in (6379, 9090):
        rules = [rule for rule in policy["ingress"] if any(each["port"] == port for each in rule["ports"])]
        assert rules == [{"from": server, "ports": [{"port": port}]}]
    assert all(rule["ports"] for rule in policy["ingress"]), "no rule is about every port"


def test_the_webhooks_probes_admit_monitoring_alone_and_need_more_than_one_failure(cluster: Cluster) -> None:
    things = {
        (thing["kind"], thing["metadata"]["name"]): thing for thing in rendered(cluster, "webhook-only")
    }
    reviews, metrics = things["NetworkPolicy", "tiphys-webhook"]["spec"]["ingress"]
    assert reviews == {"ports": [{"port": 8443}]}
    assert metrics["ports"] == [{"port": 8080}]
    (source,) = metrics["from"]
    assert source["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "monitoring"}
    (container,) = things["Deployment", "tiphys-webhook"]["spec"]["template"]["spec"]["containers"]
    assert container["readinessProbe"]["failureThreshold"] > 1


@pytest.mark.parametrize(("overlay", "warned"), [("workload-managed", 1), ("workload-autonomous", 0)])
def test_a_project_is_local_only_where_the_agent_is_managed(
    cluster: Cluster, overlay: str, warned: int
) -> None:
    [text] = [
        thing["data"]["tiphys.yaml"]
        for thing in rendered(cluster, overlay)
        if (thing["kind"], thing["metadata"]["name"]) == ("ConfigMap", "tiphys")
    ]
    configuration, problems = parse_text(text)
    assert not problems
    project = {"metadata": {"name": "shop", "namespace": "argocd"}, "spec": {"sourceRepos": ["*"]}}
    case = Case(
        kind=Kind.PROJECT,
        object=project,
        surroundings=Surroundings(
            settings=Settings(), configuration=configuration, neighbours=Directory(argocd_namespace="argocd")
        ),
        writer=User("ada"),
    )
    spoke = [one.finding.rule for one in judge(case, today=date(2026, 1, 1))]
    assert spoke.count("agent/local-project") == warned
