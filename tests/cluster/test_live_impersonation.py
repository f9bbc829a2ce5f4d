"""`kubectl --as` through the resource proxy: the account of the project passes, every other is refused."""

import asyncio
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from kube.live import LiveStore
from kube.resources import APPLICATIONS, CONFIG_MAPS
from kube.store import Object
from scripts.cluster.api import RefusedError
from scripts.cluster.controlplane import Cluster
from scripts.cluster.testing import Clusters, Kubectl
from tests.cluster.live_scene import Live, live
from tests.cluster.sidecar_ends import PATIENCE, Ends
from tests.sidecars.pair_in_memory import application, project
from tests.webhook.conftest import ROOT

DEPLOYER = "system:serviceaccount:shop:deployer"


def kubeconfig(at: Live, folder: Path) -> Path:
    """For kubectl as Argo CD's own client: the certificate of the cluster Secret."""
    pair = at.ends.pki.pair(at.ends.agent, server=False)
    for name, content in (
        ("ca.crt", at.ends.pki.authority.pair.certificate),
        ("tls.crt", pair.certificate),
        ("tls.key", pair.key),
    ):
        (folder / name).write_bytes(content)
    file = folder / "kubeconfig"
    cluster = {"server": at.hub.url, "certificate-authority": str(folder / "ca.crt")}
    user = {"client-certificate": str(folder / "tls.crt"), "client-key": str(folder / "tls.key")}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "a", "cluster": cluster}],
        "users": [{"name": "a", "user": user}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a", "namespace": at.namespace}}],
        "current-context": "a",
    }
    file.write_text(json.dumps(config))
    return file


async def test_kubectl_acts_as_the_account_of_the_project_and_as_nobody_else(
    ends: Ends, clusters: Clusters, tmp_path: Path
) -> None:
    entry = {
        "server": "https://kubernetes.default.svc",
        "namespace": "shop",
        "defaultServiceAccount": "deployer",
    }
    ends.agent_store = await as_impersonator(ends, clusters.workload, entry, folder=tmp_path)
    async with live(ends, destinationServiceAccounts=[entry]) as at:
        await at.create(CONFIG_MAPS, at.tracked(CONFIG_MAPS, "mine", data={"a": "1"}))
        before = clusters.workload.audit_count()
        config = kubeconfig(at, tmp_path)

        async def kubectl(*words: str, account: str = DEPLOYER) -> Any:
            return await Kubectl(clusters.workload).awaited(
                *words, "--as", account, kubeconfig=config, check=False
            )

        refused = await kubectl("get", "configmap", "mine")
        assert refused.returncode != 0
        assert f'User "{DEPLOYER}" cannot get resource "configmaps"' in refused.stderr, (
            "the account has no rights"
        )
        rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "patch"]}]
        grant(clusters.workload, at.namespace, user=DEPLOYER, rules=rules)
        shown = await kubectl("get", "configmap", "mine", "-o", "jsonpath={.data.a}")
        assert (shown.returncode, shown.stdout) == (0, "1"), shown.stderr
        patched = await kubectl("patch", "configmap", "mine", "--type=merge", "-p", '{"data":{"a":"2"}}')
        assert patched.returncode == 0, patched.stderr
        listed = await kubectl("get", "configmaps", "-o", "name")
        assert listed.stdout.split() == ["configmap/mine"], listed.stderr

        await others(at)
        listed = await kubectl("get", "configmaps", "-o", "name", "--chunk-size=1")
        assert listed.stdout.split() == ["configmap/mine"], listed.stderr
        for pages in ("--chunk-size=1", "--chunk-size=500"):
            refused = await kubectl("get", "configmaps", "-l", "of=other", pages)
            assert "(Forbidden)" in refused.stderr, "by a Status, and before the first page"
            assert f"name other accounts than {DEPLOYER}" in refused.stderr
            assert (refused.returncode != 0, refused.stdout) == (True, "")

        for account in ("system:serviceaccount:kube-system:admin", "system:admin", "kubernetes-admin"):
            refused = await kubectl("get", "configmap", "mine", account=account)
            assert refused.returncode != 0
            assert "names another account" in refused.stderr
            listed = await kubectl("get", "configmaps", "-o", "name", account=account)
            assert (listed.returncode != 0, listed.stdout.split()) == (True, [])
            assert f"name other accounts than {account}" in listed.stderr
        grouped = await kubectl("get", "configmap", "mine", "--as-group", "system:masters")
        assert "by Impersonate-User alone" in grouped.stderr

        events = clusters.workload.audited(since=before)
        await ends.agent_store.close()
        acted = {event["impersonatedUser"]["username"] for event in events if "impersonatedUser" in event}
        assert acted == {DEPLOYER}
        verbs = {
            event["verb"]
            for event in events
            if event.get("impersonatedUser", {}).get("username") == DEPLOYER
            and event["annotations"]["authorization.k8s.io/decision"] == "allow"
        }
        assert verbs == {"get", "list", "patch"}


async def others(at: Live) -> None:
    """Objects of an Application whose destination has no account."""
    other = application("other")
    other["spec"]["destination"]["namespace"] = "elsewhere"
    await at.ends.create_on_hub(other, resource=APPLICATIONS)
    await at.ends.on_workload(lambda there: "other" in there, resource=APPLICATIONS)
    for number in range(3):
        made = at.tracked(CONFIG_MAPS, f"other-{number}", app="other")
        made["metadata"]["labels"] = {"of": "other"}
        await at.create(CONFIG_MAPS, made)


async def as_impersonator(ends: Ends, cluster: Cluster, entry: Object, *, folder: Path) -> LiveStore:
    """The agent under an account that may act as the project's and as no other: what `tiphys rbac` prints."""
    namespace = ends.agent_namespace
    cluster.request(
        "POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "agent"}}
    )
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    cluster.grant(rules=[everything], account=f"{namespace}/agent", namespace=namespace)
    with suppress(RefusedError):  # another test's
        cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": "shop"}})
    body = project(destinationServiceAccounts=[entry])
    body |= {"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject"}
    body["metadata"]["namespace"] = "argocd"
    file = folder / "project.json"
    file.write_text(json.dumps(body))
    user = f"system:serviceaccount:{namespace}:agent"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cli", "rbac", "web", "-f", str(file), "--user", user),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    async with asyncio.timeout(PATIENCE):
        printed, _ = await process.communicate()
    assert "deployer" in printed.decode()
    await Kubectl(cluster).awaited("apply", "-f", "-", stdin=printed.decode())
    return await LiveStore.connect(kubeconfig=cluster.kubeconfig_of_account("agent", namespace=namespace))


def grant(cluster: Cluster, namespace: str, *, user: str, rules: list[Object]) -> None:
    root = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    cluster.request("POST", f"{root}/roles", {"metadata": {"name": "deployer"}, "rules": rules})
    group = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": "deployer"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "deployer"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }
    cluster.request("POST", f"{root}/rolebindings", binding)
