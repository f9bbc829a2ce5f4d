"""The manifests on a real API server, and the webhook with the identity and rights that they give it."""

import base64
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from certs.authority import Authority
from scripts.cluster.controlplane import Cluster
from scripts.cluster.testing import Kubectl
from tests.webhook.guarded_cluster import until
from tests.webhook.webhook_process import Guard

MANIFESTS = Path(__file__).parents[2] / "manifests"
OVERLAYS = sorted(path.name for path in (MANIFESTS / "overlays").iterdir())
ACCOUNT = "system:serviceaccount:tiphys-system:tiphys-webhook"


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Iterator[Cluster]:
    cluster.create_namespace("argocd")
    cluster.kubectl("apply", "--server-side", "-k", str(MANIFESTS / "overlays" / "webhook-only"))
    yield cluster
    cluster.kubectl("delete", "--wait=false", "-k", str(MANIFESTS / "overlays" / "webhook-only"))
    for namespace in ("tiphys-system", "argocd"):
        cluster.drop_namespace(namespace)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_rendering_twice_is_byte_identical_and_holds_no_certificate(cluster: Cluster, overlay: str) -> None:
    once, twice = (
        cluster.kubectl("kustomize", str(MANIFESTS / "overlays" / overlay)).stdout for _ in range(2)
    )
    assert once == twice
    assert "caBundle" not in once
    assert "BEGIN CERTIFICATE" not in once


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_no_role_says_more_than_it_means(cluster: Cluster, overlay: str) -> None:
    rendered = cluster.kubectl("kustomize", str(MANIFESTS / "overlays" / overlay)).stdout
    for document in yaml.safe_load_all(rendered):
        for rule in document.get("rules") or ():
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
            assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"])
            if document["kind"] == "ClusterRole":
                assert "secrets" not in rule["resources"]


def test_everything_is_accepted_and_pods_pass_pod_security_restricted(installed: Cluster) -> None:
    deployment = installed.request("GET", "/apis/apps/v1/namespaces/tiphys-system/deployments/tiphys-webhook")
    pod = {
        "metadata": {"name": "as-the-deployment-makes-it"},
        "spec": deployment["spec"]["template"]["spec"],
    }
    stored = installed.request("POST", "/api/v1/namespaces/tiphys-system/pods?dryRun=All", pod)
    assert stored["spec"]["serviceAccountName"] == "tiphys-webhook"


def test_the_registration_is_accepted_without_a_ca_bundle(installed: Cluster, kubectl: Kubectl) -> None:
    kubectl(
        "apply",
        "--server-side",
        "--dry-run=server",
        "-f",
        str(MANIFESTS / "components/registration/webhooks.yaml"),
    )


def test_with_its_own_rights_the_webhook_becomes_ready_leads_and_guards(
    installed: Cluster, tmp_path: Path
) -> None:
    installed.request("POST", "/api/v1/namespaces/argocd/configmaps", {"metadata": {"name": "argocd-cm"}})
    guard = Guard(
        cluster=installed,
        folder=tmp_path,
        home="tiphys-system",
        argocd="argocd",
        kubeconfig=installed.kubeconfig_of_account("tiphys-webhook", namespace="tiphys-system"),
    ).start()
    try:
        guard.kubeconfig = None  # an admin registers
        guard.register()
        assert guard.status()["problems"] == []
        page = json.loads(guard.page("/status.json")[1])
        assert page["troubles"] == {}
        assert {cache["error"] for cache in page["caches"]} == {""}
        assert "forbidden" not in guard.log
    finally:
        guard.unregister()
        guard.stop()


def test_with_its_own_rights_the_webhook_tells_which_names_of_generators_are_missing(
    installed: Cluster, tmp_path: Path
) -> None:
    installed.request("POST", f"{CORE}/secrets", {"metadata": {"name": "forge-token"}})
    installed.request("POST", f"{CORE}/configmaps", {"metadata": {"name": "shop-plugin"}})
    guard = Guard(
        cluster=installed,
        folder=tmp_path,
        home="tiphys-system",
        argocd="argocd",
        kubeconfig=installed.kubeconfig_of_account("tiphys-webhook", namespace="tiphys-system"),
    ).start()
    try:
        guard.kubeconfig = None  # an admin registers
        guard.register()
        assert _warned(installed, plugin="shop-plugin", token="forge-token") == set()
        assert _warned(installed, plugin="shop-plug", token="forge-tokens") == {
            "applicationset/config-map-unknown",
            "applicationset/secret-unknown",
        }
        for kind, name in (("configmaps", "shop-plug"), ("secrets", "forge-tokens")):
            installed.request("POST", f"{CORE}/{kind}", {"metadata": {"name": name}})
        until(lambda: not _warned(installed, plugin="shop-plug", token="forge-tokens"), what="both were seen")
    finally:
        guard.unregister()
        guard.stop()


CORE = "/api/v1/namespaces/argocd"
FORGES = """
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {{name: forges, namespace: argocd}}
spec:
  goTemplate: true
  generators:
    - plugin: {{configMapRef: {{name: {plugin}}}}}
    - scmProvider: {{gitlab: {{group: shop, tokenRef: {{secretName: {token}, key: token}}}}}}
  template:
    metadata: {{name: "shop-{{{{.repository}}}}"}}
    spec:
      project: default
      destination: {{server: "https://kubernetes.default.svc", namespace: shop}}
      source: {{repoURL: "https://git.example.com/shop.git", path: .}}
"""


def _warned(cluster: Cluster, *, plugin: str, token: str) -> set[str]:
    """Rules on what is missing, of a dry run."""
    applied = cluster.kubectl(
        *("create", "--dry-run=server", "-f", "-"), stdin=FORGES.format(plugin=plugin, token=token)
    )
    return set(re.findall(r"applicationset/(?:config-map|secret)-unknown", applied.stderr))


@pytest.mark.parametrize(
    ("verb", "resource", "namespace"),
    [
        ("list", "secrets", "kube-system"),
        ("get", "secrets/forge-token", "argocd"),
        ("get", "configmaps/shop-plugin", "argocd"),
        ("get", "secrets/other", "tiphys-system"),
        ("update", "secrets", "argocd"),
        ("update", "appprojects.argoproj.io", "argocd"),
        ("delete", "validatingwebhookconfigurations/tiphys", ""),
        ("create", "validatingwebhookconfigurations", ""),
        ("patch", "mutatingwebhookconfigurations/other", ""),
        ("impersonate", "serviceaccounts", "argocd"),
        ("create", "pods", "tiphys-system"),
    ],
)
def test_the_webhook_may_do_no_more(installed: Cluster, verb: str, resource: str, namespace: str) -> None:
    where = ["-n", namespace] if namespace else []
    asked = installed.kubectl("auth", "can-i", verb, resource, *where, "--as", ACCOUNT, check=False)
    assert asked.stdout.strip() == "no"


REFUSED = "may change the authorities of its registration and nothing else"


def test_the_api_server_holds_the_webhook_to_the_authorities_of_its_registration(
    installed: Cluster, kubectl: Kubectl
) -> None:
    """Somebody who took the webhook over could otherwise have himself asked about everything."""
    account = installed.kubeconfig_of_account("tiphys-webhook", namespace="tiphys-system")

    def patched(path: str, value: object) -> str:
        change = json.dumps([{"op": "add", "path": f"/webhooks/0/{path}", "value": value}])
        return kubectl(
            *("patch", "validatingwebhookconfiguration", "tiphys", "--type=json", "-p", change),
            kubeconfig=account,
            check=False,
        ).stderr

    kubectl("apply", "--server-side", "-f", str(MANIFESTS / "components/registration/webhooks.yaml"))
    try:
        until(lambda: REFUSED in patched("timeoutSeconds", 7), what="the policy counts")
        everything = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
        for path, value in {
            "rules/-": everything,
            "rules": [everything],
            "namespaceSelector": {},
            "matchConditions": [],
            "failurePolicy": "Ignore",
            "clientConfig/service/namespace": "elsewhere",
            "clientConfig/service/path": "/elsewhere",
        }.items():
            assert REFUSED in patched(path, value), path
        authority = base64.b64encode(Authority.create("new", now=datetime.now(UTC)).pair.certificate).decode()
        assert patched("clientConfig/caBundle", authority) == ""
        assert (
            kubectl(
                "patch",
                "validatingwebhookconfiguration",
                "tiphys",
                "--type=json",
                "-p",
                json.dumps([{"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 9}]),
            ).returncode
            == 0
        )
    finally:
        kubectl("delete", "-f", str(MANIFESTS / "components/registration/webhooks.yaml"))
