"""kubectl against the local cluster, client-side and server-side."""

import json
from typing import Any

import pytest

from scripts.cluster.api import RefusedError
from scripts.cluster.controlplane import Cluster
from scripts.cluster.testing import Kubectl

PROJECT = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "AppProject",
    "metadata": {"name": "web"},
    "spec": {"sourceRepos": ["*"], "destinations": [{"namespace": "web", "server": "*"}]},
}


def stored(cluster: Cluster, namespace: str) -> dict[str, Any]:
    project: dict[str, Any] = cluster.request(
        "GET", f"/apis/argoproj.io/v1alpha1/namespaces/{namespace}/appprojects/web"
    )
    return project


def test_a_client_side_apply_stores_the_project(cluster: Cluster, namespace: str, kubectl: Kubectl) -> None:
    done = kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(PROJECT))

    assert done.stdout == "appproject.argoproj.io/web created\n"
    project = stored(cluster, namespace)
    assert project["spec"] == PROJECT["spec"]
    assert "kubectl.kubernetes.io/last-applied-configuration" in project["metadata"]["annotations"]


def test_a_server_side_apply_stores_the_project(cluster: Cluster, namespace: str, kubectl: Kubectl) -> None:
    done = kubectl("apply", "--server-side", "-n", namespace, "-f", "-", stdin=json.dumps(PROJECT))

    assert done.stdout == "appproject.argoproj.io/web serverside-applied\n"
    project = stored(cluster, namespace)
    assert project["spec"] == PROJECT["spec"]
    assert [entry["operation"] for entry in project["metadata"]["managedFields"]] == ["Apply"]


async def test_an_awaited_kubectl_leaves_the_loop_free(namespace: str, kubectl: Kubectl) -> None:
    done = await kubectl.awaited("get", "serviceaccounts", "-n", namespace, "-o", "name")

    assert done.stdout == "serviceaccount/default\n"


def test_argo_cds_definitions_are_there_whole_after_a_server_side_apply(cluster: Cluster) -> None:
    found = cluster.request("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]
    managers = {
        each["spec"]["names"]["kind"]: [
            (entry["manager"], entry["operation"]) for entry in each["metadata"]["managedFields"]
        ]
        for each in found
    }
    assert set(managers) == {"AppProject", "Application", "ApplicationSet"}
    for entries in managers.values():
        assert ("tiphys-cluster", "Apply") in entries


def test_a_user_without_a_role_may_do_nothing(cluster: Cluster, namespace: str, kubectl: Kubectl) -> None:
    eve = cluster.kubeconfig_of("eve", groups=("dev",))

    done = kubectl("get", "secrets", "-n", namespace, kubeconfig=eve, check=False)

    assert done.returncode == 1
    assert 'User "eve" cannot list resource "secrets"' in done.stderr


def test_a_bound_user_may_do_what_the_role_says(cluster: Cluster, namespace: str, kubectl: Kubectl) -> None:
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]
    cluster.grant(rules=rules, group="dev", namespace=namespace)
    eve = cluster.kubeconfig_of("eve", groups=("dev",))

    assert kubectl("get", "configmaps", "-n", namespace, kubeconfig=eve).returncode == 0


@pytest.mark.parametrize("in_file", [True, False])
def test_a_service_account_calls_with_its_own_token(
    cluster: Cluster, namespace: str, kubectl: Kubectl, *, in_file: bool
) -> None:
    token = cluster.account_token("default", namespace=namespace)
    account = cluster.kubeconfig_with_token(token, in_file=in_file)

    done = kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}", kubeconfig=account)

    assert done.stdout == f"system:serviceaccount:{namespace}:default"


def test_an_expired_token_or_certificate_is_refused(cluster: Cluster, kubectl: Kubectl) -> None:
    for old in (
        cluster.kubeconfig_with_token(cluster.expired_token()),
        cluster.kubeconfig_of("eve", expired=True),
    ):
        done = kubectl("get", "namespaces", kubeconfig=old, check=False)
        assert done.returncode == 1
        assert "Unauthorized" in done.stderr or "must be logged in" in done.stderr


def test_a_pod_gets_the_default_accounts_token(cluster: Cluster, namespace: str) -> None:
    pod = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}

    created = cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod)

    assert created["spec"]["serviceAccountName"] == "default"
    assert created["spec"]["volumes"][0]["projected"]["sources"][0]["serviceAccountToken"]["path"] == "token"


def test_a_dropped_namespace_is_gone_with_all_that_was_held_by_finalizers(cluster: Cluster) -> None:
    name = cluster.create_namespace()
    held = {**PROJECT, "metadata": {"name": "web", "finalizers": ["tiphys.dev/held"]}}
    cluster.request("POST", f"/apis/argoproj.io/v1alpha1/namespaces/{name}/appprojects", held)

    cluster.drop_namespace(name)

    with pytest.raises(RefusedError, match="not found"):
        cluster.request("GET", f"/api/v1/namespaces/{name}")
    assert cluster.request("GET", f"/apis/argoproj.io/v1alpha1/namespaces/{name}/appprojects")["items"] == []
