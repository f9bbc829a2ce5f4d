"""Components of the manifests that need kinds of others: rendered, and the pod tried on a real API server."""

import os
from pathlib import Path
from typing import Any

import yaml

from cli.commands.webhook import command as webhook
from scripts.cluster.controlplane import Cluster

MANIFESTS = Path(__file__).parents[2] / "manifests"


def rendered(cluster: Cluster, folder: Path, component: str) -> dict[tuple[str, str], dict[str, Any]]:
    base, added = (
        os.path.relpath(MANIFESTS / path, folder.resolve())
        for path in ("base/webhook", f"components/{component}")
    )
    (folder / "kustomization.yaml").write_text(yaml.safe_dump({"resources": [base], "components": [added]}))
    documents = yaml.safe_load_all(cluster.kubectl("kustomize", str(folder)).stdout)
    return {(document["kind"], document["metadata"]["name"]): document for document in documents}


def test_with_cert_manager_the_webhook_serves_the_files_that_it_writes(
    cluster: Cluster, tmp_path: Path
) -> None:
    objects = rendered(cluster, tmp_path, "cert-manager")
    certificate = objects["Certificate", "tiphys-webhook"]["spec"]
    service = objects["Service", "tiphys-webhook"]["metadata"]
    assert f"{service['name']}.{service['namespace']}.svc" in certificate["dnsNames"]
    spec = objects["Deployment", "tiphys-webhook"]["spec"]["template"]["spec"]
    [container] = spec["containers"]
    given = webhook.make_context("webhook", container["args"][1:]).params
    assert given["certificates"] == "files"
    [mount] = [
        mount for mount in container["volumeMounts"] if mount["mountPath"] == str(given["certificate_folder"])
    ]
    [volume] = [volume for volume in spec["volumes"] if volume["name"] == mount["name"]]
    assert volume["secret"]["secretName"] == certificate["secretName"]
    assert spec["enableServiceLinks"] is False
    namespace = cluster.create_namespace(labels={"pod-security.kubernetes.io/enforce": "restricted"})
    accepted = {**spec, "serviceAccountName": "default", "priorityClassName": ""}
    pod = {"metadata": {"name": "webhook"}, "spec": accepted}
    cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)
    cluster.drop_namespace(namespace)
