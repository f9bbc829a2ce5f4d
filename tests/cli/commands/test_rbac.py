"""`tiphys rbac`: exactly the accounts of a project, and for them exactly what the manifests need."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from argocd import names
from cli.commands.rbac import command
from cli.roles.kind_names import _CLUSTER_SCOPED, discovered, named, plural_of
from kube.live import LiveStore
from scripts.cluster.controlplane import Cluster
from scripts.cluster.testing import Kubectl
from tests.cli.golden_files import GOLDEN, compare
from tiphys.errors import CallError, ObjectError

FILE = str(GOLDEN / "explained.yaml")
MANIFESTS = str(GOLDEN / "rendered.yaml")


def run(*arguments: str) -> Result:
    done = CliRunner().invoke(command, arguments)
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def test_the_roles_are_what_the_golden_file_says() -> None:
    compare("rbac/impersonate.yaml", run("web", "-f", FILE).stdout)
    compare("rbac/impersonate.json", run("web", "-f", FILE, "--format", "json").stdout)


def test_what_the_account_needs_for_manifests_is_printed_too() -> None:
    done = run("web", "-f", FILE, "--manifests", MANIFESTS)
    compare("rbac/sync.yaml", done.stdout)
    assert "guessed: that Widget.widgets.test is called widgets and has a namespace" in done.stderr
    for verb in ("escalate", "bind"):
        told = f"the manifests give away in shop more than shop has itself, so it needs the verb {verb}"
        assert told in done.stderr
    exact = run("web", "-f", FILE, "--manifests", MANIFESTS, "--by-name", "--no-prune").stdout
    compare("rbac/sync-by-name.yaml", exact)


def test_a_destination_may_have_no_namespace(tmp_path: Path) -> None:
    file = tmp_path / "rendered.yaml"
    file.write_text(
        "{kind: Namespace, apiVersion: v1, metadata: {name: shop}}\n---\n"
        "{kind: ConfigMap, apiVersion: v1, metadata: {name: lost}}\n"
    )
    with pytest.raises(CallError, match="'' for none"):
        run("web", "-f", FILE, "--manifests", str(file))
    done = run("web", "-f", FILE, "--manifests", str(file), "--namespace", "", "--format", "json")
    assert "ConfigMap lost has no namespace and neither has the destination" in done.stderr
    [bound] = [
        one["subjects"]
        for one in json.loads(done.stdout)["items"]
        if one["metadata"]["name"].endswith("sync") and "subjects" in one
    ]
    assert bound == [{"kind": "ServiceAccount", "name": "rest", "namespace": "argocd"}]


def test_what_an_object_refers_to_is_asked_for_too(tmp_path: Path) -> None:
    """The API server asks whether who writes a policy may read its parameters, and a bundle's writer vouch for it."""
    admission = "apiVersion: admissionregistration.k8s.io/v1"
    file = tmp_path / "rendered.yaml"
    file.write_text(
        f"{{{admission}, kind: ValidatingAdmissionPolicy, metadata: {{name: own}}, "
        "spec: {paramKind: {apiVersion: v1, kind: ConfigMap}}}\n---\n"
        f"{{{admission}, kind: ValidatingAdmissionPolicyBinding, metadata: {{name: one}}, "
        "spec: {policyName: own, paramRef: {selector: {}, namespace: limits}}}\n---\n"
        f"{{{admission}, kind: ValidatingAdmissionPolicyBinding, metadata: {{name: lost}}, "
        "spec: {policyName: others, paramRef: {name: limits}}}\n---\n"
        "{apiVersion: certificates.k8s.io/v1beta1, kind: ClusterTrustBundle, metadata: {name: x}, "
        "spec: {signerName: example.test/mesh}}\n"
    )
    done = run("web", "-f", FILE, "--manifests", str(file), "--namespace", "shop", "--format", "json")
    assert "lost has parameters, and its policy is not among the manifests" in done.stderr
    rules = {
        one["metadata"].get("namespace", ""): one["rules"]
        for one in json.loads(done.stdout)["items"]
        if one["metadata"]["name"].endswith("sync") and "rules" in one
    }
    read = {"apiGroups": [""], "resources": ["configmaps"]}
    attested = {"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "verbs": ["attest"]}
    assert {**read, "verbs": ["get"]} in rules[""]
    assert {**attested, "resourceNames": ["example.test/mesh"]} in rules[""]
    assert rules["limits"] == [{**read, "verbs": ["list"]}]


def test_the_user_who_syncs_can_be_another() -> None:
    told = json.loads(run("web", "-f", FILE, "--user", "sync@example.test", "--format", "json").stdout)
    subjects = {one["subjects"][0]["name"] for one in told["items"] if "subjects" in one}
    assert subjects == {"sync@example.test"}


def test_what_is_missing_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(CallError, match="there is no project nothing"):
        run("nothing", "-f", FILE)
    bare = tmp_path / "bare.yaml"
    bare.write_text("{apiVersion: argoproj.io/v1alpha1, kind: AppProject, metadata: {name: bare}, spec: {}}")
    with pytest.raises(ObjectError, match="names no account"):
        run("bare", "-f", str(bare))
    two = tmp_path / "two.yaml"
    two.write_text("{kind: ConfigMap, apiVersion: v1, metadata: {name: a}}")
    with pytest.raises(CallError, match="say with --namespace"):
        run("web", "-f", FILE, "--manifests", str(two))


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        ("Ingress", "ingresses"),
        ("NetworkPolicy", "networkpolicies"),
        ("Gateway", "gateways"),
        ("Endpoints", "endpoints"),
        ("PriorityClass", "priorityclasses"),
    ],
)
def test_plurals_are_formed_as_kubernetes_does(kind: str, plural: str) -> None:
    assert plural_of(kind) == plural


def sheep(*, scope: str) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "sheep.farm.test"},
        "spec": {
            "group": "farm.test",
            "names": {"kind": "Sheep", "plural": "sheep"},
            "scope": scope,
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }


DOLLY = {"apiVersion": "farm.test/v1", "kind": "Sheep", "metadata": {"name": "dolly", "namespace": "shop"}}


@pytest.mark.parametrize(("scope", "role"), [("Namespaced", "Role"), ("Cluster", "ClusterRole")])
def test_a_definition_among_the_manifests_tells_what_its_kind_is_called(
    scope: str, role: str, tmp_path: Path
) -> None:
    file = tmp_path / "rendered.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [DOLLY, sheep(scope=scope)]}))
    done = run("web", "-f", FILE, "--manifests", str(file), "--format", "json")
    assert "guessed" not in done.stderr
    assert role in {
        one["kind"]
        for one in json.loads(done.stdout)["items"]
        for rule in one.get("rules", ())
        if rule["resources"][-1] == "sheep"
    }


def test_a_cluster_tells_what_its_kinds_are_called(
    cluster: Cluster, kubectl: Kubectl, namespace: str, tmp_path: Path
) -> None:
    """An API server takes a moment to serve a new kind, so it is asked of one that it has: Argo CD's."""
    project = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "destinationServiceAccounts": [
                {"server": "*", "namespace": "*", "defaultServiceAccount": "deployer"}
            ]
        },
    }
    kubectl("apply", "-f", "-", stdin=json.dumps(project))
    file = tmp_path / "rendered.json"
    file.write_text(json.dumps(project))
    where = ("--kubeconfig", str(cluster.kubeconfig), "--argocd-namespace", namespace)
    done = run("web", *where, "--manifests", str(file), "--format", "json")
    assert done.stderr == ""
    rules = [rule for one in json.loads(done.stdout)["items"] for rule in one.get("rules", ())]
    assert "appprojects" in {plural for rule in rules for plural in rule["resources"]}


async def test_kubernetes_own_kinds_are_known_as_an_api_server_has_them(cluster: Cluster) -> None:
    store = await LiveStore.connect(kubeconfig=cluster.kubeconfig)
    wrong = {}
    try:
        for group in _CLUSTER_SCOPED:
            versions = ("v1", "v2") if group == "autoscaling" else ("v1",)
            things = [{"apiVersion": f"{group}/{version}".lstrip("/")} for version in versions]
            for (_, kind), there in (await discovered(store, things)).items():
                written = kind != "Binding" and not kind.endswith(("Review", "Status"))
                if written and named(group, kind, {}) != there:
                    wrong[group, kind] = there
    finally:
        await store.close()
    assert not wrong


def can(kubectl: Kubectl, who: str, verb: str, what: str, namespace: str) -> bool:
    done = kubectl("auth", "can-i", verb, what, "-n", namespace, "--as", who, check=False)
    return done.stdout.strip() == "yes"


def test_an_api_server_grants_exactly_that(kubectl: Kubectl, namespace: str, tmp_path: Path) -> None:
    project: dict[str, Any] = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": f"web-{namespace}", "namespace": "argocd"},
        "spec": {
            "destinationServiceAccounts": [
                {"server": "*", "namespace": namespace, "defaultServiceAccount": "deployer"}
            ]
        },
    }
    rendered = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a", "namespace": namespace},
    }
    (tmp_path / "project.json").write_text(json.dumps(project))
    (tmp_path / "rendered.json").write_text(json.dumps(rendered))
    name = f"web-{namespace}"
    roles = run(name, "-f", str(tmp_path / "project.json"), "--manifests", str(tmp_path / "rendered.json"))
    kubectl("apply", "-f", "-", stdin=roles.stdout)
    controller = f"{names.SERVICE_ACCOUNT_PREFIX}argocd:argocd-application-controller"
    deployer = f"{names.SERVICE_ACCOUNT_PREFIX}{namespace}:deployer"
    assert can(kubectl, controller, "impersonate", "serviceaccounts/deployer", namespace)
    assert not can(kubectl, controller, "impersonate", "serviceaccounts/default", namespace)
    assert not can(kubectl, controller, "impersonate", "serviceaccounts/deployer", "default")
    assert can(kubectl, deployer, "create", "deployments.apps", namespace)
    assert not can(kubectl, deployer, "create", "secrets", namespace)
