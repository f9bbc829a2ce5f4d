"""Beside other webhooks and other field managers: a second pass changes nothing, and nobody fights."""

import base64
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from argocd import names
from certs.tls import server_context
from tests.webhook.conftest import publish_leaf
from tests.webhook.guarded_cluster import Guarded, until

OTHER = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
ANNOTATION = "example.test/seen"


@dataclass
class Meddler:
    """A second mutating webhook, which writes all labels, annotations and containers anew in another order."""

    port: int = 0
    calls: list[str] = field(default_factory=list)

    def answer(self, review: dict[str, Any]) -> dict[str, Any]:
        request = review["request"]
        self.calls.append(request["name"])
        metadata = request["object"]["metadata"]
        annotations = {ANNOTATION: "yes", **dict(reversed((metadata.get("annotations") or {}).items()))}
        patch = [
            {"op": "add", "path": "/metadata/annotations", "value": annotations},
            {
                "op": "add",
                "path": "/metadata/labels",
                "value": dict(reversed((metadata.get("labels") or {}).items())),
            },
        ]
        if request["object"].get("spec", {}).get("destinations"):
            reordered = [dict(reversed(one.items())) for one in request["object"]["spec"]["destinations"]]
            patch.append({"op": "replace", "path": "/spec/destinations", "value": reordered})
        encoded = base64.b64encode(json.dumps(patch).encode()).decode()
        response = {"uid": request["uid"], "allowed": True, "patchType": "JSONPatch", "patch": encoded}
        return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}


@pytest.fixture(scope="module")
def meddler(guarded: Guarded, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Meddler]:
    folder = tmp_path_factory.mktemp("meddler")
    authority = publish_leaf(folder)
    meddler = Meddler()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answer = json.dumps(meddler.answer(json.loads(body))).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *arguments: Any) -> None: ...  # noqa: A002 - the base class's name

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = server_context(folder).wrap_socket(server.socket, server_side=True)
    meddler.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    bundle = base64.b64encode(authority.pair.certificate).decode()
    guarded.cluster.request("POST", OTHER, _registration(meddler.port, bundle))
    yield meddler
    guarded.cluster.request("DELETE", f"{OTHER}/zz-meddler")
    server.shutdown()
    server.server_close()


def _registration(port: int, bundle: str) -> dict[str, Any]:
    """Its name sorts after ours, so that it comes later and makes the API server ask us again."""
    rules = [
        {
            "apiGroups": [group],
            "apiVersions": ["*"],
            "operations": ["CREATE", "UPDATE"],
            "resources": [resource],
        }
        for group, resource in (("", "secrets"), ("argoproj.io", "appprojects"))
    ]
    entry = {
        "name": "meddler.example.test",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": f"https://localhost:{port}/", "caBundle": bundle},
        "objectSelector": {"matchLabels": {"meddled": "yes"}},
        "rules": rules,
        "reinvocationPolicy": "IfNeeded",
    }
    return {"metadata": {"name": "zz-meddler"}, "webhooks": [entry]}


@pytest.fixture
def tracked(guarded: Guarded) -> Iterator[str]:
    namespace = guarded.cluster.create_namespace(labels={names.TIPHYS_TRACKING: names.ENABLED})
    guarded.kubectl("annotate", "namespace", namespace, f"{names.TIPHYS_TRACKING_APPLICATION}=shop")
    probe = _secret("probe")
    until(
        lambda: (
            names.TRACKING_ID
            in guarded.write(probe, "--dry-run=server", "-o", "json", namespace=namespace).stdout
        ),
        what="the namespace is known",
    )
    yield namespace
    guarded.cluster.drop_namespace(namespace)


def _secret(name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, **metadata}}


def test_a_second_webhook_that_reorders_everything_changes_nothing_of_ours(
    guarded: Guarded, meddler: Meddler, tracked: str
) -> None:
    secret = _secret("twice", labels={"meddled": "yes", "a": "b"}, annotations={"z": "1", "a": "2"})
    until(
        lambda: (
            ANNOTATION in guarded.write(secret, "--dry-run=server", "-o", "json", namespace=tracked).stdout
        ),
        what="the other webhook is asked",
    )
    guarded.write(secret, namespace=tracked)
    annotations = guarded.get("secret", "twice", tracked)["metadata"]["annotations"]
    del annotations["kubectl.kubernetes.io/last-applied-configuration"]
    assert annotations == {
        "z": "1",
        "a": "2",
        ANNOTATION: "yes",
        names.TRACKING_ID: f"shop:/Secret:{tracked}/twice",
        names.SYNC_OPTIONS: "Prune=false",
        names.COMPARE_OPTIONS: "IgnoreExtraneous",
    }
    version = guarded.get("secret", "twice", tracked)["metadata"]["resourceVersion"]
    guarded.write(secret, namespace=tracked)
    assert guarded.get("secret", "twice", tracked)["metadata"]["resourceVersion"] == version
    assert guarded.write(secret, "diff", namespace=tracked, check=False).returncode == 0


def test_an_agents_project_is_settled_beside_it_too(guarded: Guarded, meddler: Meddler) -> None:
    project = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {
            "name": "edge-9-ops",
            "labels": {"meddled": "yes"},
            "annotations": {"tiphys.dev/agent": "edge-9"},
        },
        "spec": {
            "sourceRepos": ["https://example.test"],
            "destinations": [{"server": "https://kubernetes.default.svc", "namespace": "ops"}],
        },
    }
    guarded.write(project, writer=guarded.principal)
    stored = guarded.get("appproject", "edge-9-ops")
    assert stored["spec"]["destinations"] == [{"name": "edge-9", "server": "*", "namespace": "ops"}]
    assert stored["spec"]["sourceNamespaces"] == ["edge-9"]
    guarded.write({**project, "spec": stored["spec"]}, writer=guarded.principal)
    assert guarded.get("appproject", "edge-9-ops")["spec"] == stored["spec"]
    guarded.kubectl("delete", "appproject", "edge-9-ops", "-n", guarded.argocd, writer=guarded.principal)


def test_two_field_managers_apply_their_parts_without_a_conflict_that_we_caused(
    guarded: Guarded, tracked: str
) -> None:
    first = _secret("shared", annotations={"team": "a"})
    second = _secret("shared", annotations={"owner": "b"}, labels={"tier": "web"})
    for _ in range(2):
        for manager, part in (("first", first), ("second", second)):
            guarded.write(part, "--server-side", "--field-manager", manager, namespace=tracked)
    metadata = guarded.get("secret", "shared", tracked)["metadata"]
    assert metadata["annotations"] == {
        "team": "a",
        "owner": "b",
        names.TRACKING_ID: f"shop:/Secret:{tracked}/shared",
        names.SYNC_OPTIONS: "Prune=false",
        names.COMPARE_OPTIONS: "IgnoreExtraneous",
    }
    by_argocd = _secret("shared", annotations={names.TRACKING_ID: f"shop:/Secret:{tracked}/shared"})
    done = guarded.write(
        by_argocd,
        "--server-side",
        "--field-manager",
        "argocd-controller",
        namespace=tracked,
        writer=guarded.controller,
    )
    assert "conflict" not in done.stderr
