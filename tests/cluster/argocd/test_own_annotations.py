"""The list of annotations that Argo CD writes for itself, beside what its components really wrote."""

import http.client
import http.server
import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from argocd import names
from argocd.judging.ratchet import PASSING_ANNOTATIONS
from scripts.cluster.api import MERGE_PATCH
from scripts.cluster.argocd.components import Component
from scripts.cluster.argocd.installation import NAMESPACE
from tests.cluster.argocd.steered import Object, Scene, Steered, config_map
from tests.webhook.guarded_cluster import until

FORGE = "https://forge.example.test/shop"
SUBSCRIPTION = "notifications.argoproj.io/subscribe.on-synced.listener"
"""A user's, which the webhook looks at."""

pytestmark = pytest.mark.timeout(300)


class Watch:
    """The annotations that objects of one kind had at any time."""

    def __init__(self, output: Path) -> None:
        self._output = output

    def keys(self, name: str) -> set[str]:
        return {
            key
            for thing in self._objects()
            if thing["metadata"]["name"] == name
            for key in thing["metadata"].get("annotations", {})
        }

    def _objects(self) -> Iterator[dict[str, dict[str, str]]]:
        text, decoder, place = self._output.read_text(), json.JSONDecoder(), 0
        while (place := text.find("{", place)) >= 0:
            try:
                thing, place = decoder.raw_decode(text, place)
            except json.JSONDecodeError:  # the last is half written
                return
            yield thing


@contextmanager
def watched(steered: Steered, plural: str, folder: Path) -> Iterator[Watch]:
    output = folder / plural
    words = ("get", f"{plural}.argoproj.io", "-n", NAMESPACE, "--watch", "-o", "json")
    with output.open("wb") as file:
        process = subprocess.Popen(steered.cluster.kubectl_command(*words), stdout=file)
        try:
            yield Watch(output)
        finally:
            process.kill()
            process.wait(timeout=10)


def push(steered: Steered) -> None:
    """What a forge tells the ApplicationSet controller."""
    pid = steered.cluster.pids[Component.APPLICATION_SETS]
    arguments = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    [address] = [word.partition("=")[2] for word in arguments if word.startswith("--webhook-addr=")]
    body = {
        "ref": "refs/heads/main",
        "before": "0" * 40,
        "after": "1" * 40,
        "repository": {"html_url": FORGE, "default_branch": "main", "id": 1},
        "commits": [],
    }
    connection = http.client.HTTPConnection(address, timeout=10)
    headers = {"X-GitHub-Event": "push", "Content-Type": "application/json"}
    connection.request("POST", "/api/webhook", json.dumps(body), headers)
    assert connection.getresponse().status == http.client.OK
    connection.close()


@pytest.fixture
def listener() -> Iterator[str]:
    """Where notifications are sent to."""

    class Taking(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(http.client.OK)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None: ...  # noqa: A002 - as it is called there

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Taking)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def subscribe(scene: Scene, listener: str) -> Object:
    """An Application whose syncs are told."""
    data = {
        "service.webhook.listener": f"url: {listener}\n",
        "template.synced": "webhook:\n  listener:\n    method: POST\n    body: synced\n",
        "trigger.on-synced": "- when: app.status.sync.status == 'Synced'\n  send: [synced]\n",
    }
    scene.steered.cluster.request(
        "PATCH",
        f"/api/v1/namespaces/{NAMESPACE}/configmaps/argocd-notifications-cm",
        {"data": data},
        content_type=MERGE_PATCH,
    )
    application = scene.application()
    application["metadata"]["annotations"] = {SUBSCRIPTION: ""}
    return application


def test_what_components_wrote_is_what_passes(scene: Scene, listener: str, tmp_path: Path) -> None:
    steered = scene.steered
    application_set = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "ApplicationSet",
        "metadata": {"name": scene.name},
        "spec": {
            "goTemplate": True,
            "generators": [{"git": {"repoURL": FORGE, "revision": "main", "directories": [{"path": "*"}]}}],
            "template": {
                "metadata": {"name": f"{scene.name}-{{{{.path.basename}}}}"},
                "spec": scene.specification(path="shop"),
            },
        },
    }
    applied = {names.LAST_APPLIED, SUBSCRIPTION}
    with (
        watched(steered, "applications", tmp_path) as applications,
        watched(steered, "applicationsets", tmp_path) as sets,
    ):
        steered.apply(subscribe(scene, listener), application_set)
        until(lambda: applications.keys(scene.name) and sets.keys(scene.name), what="both are seen")
        steered.cli("app", "sync", scene.name, "--timeout", "50")
        for kind in ("--refresh", "--hard-refresh"):
            scene.repository.commit({"shop/prices.json": config_map("prices", tea=kind)})
            steered.cli("app", "get", scene.name, kind)
        steered.cli("app", "sync", scene.name, "--timeout", "50")
        push(steered)
        until(lambda: sets.keys(scene.name) - applied, what="the set is asked")
        until(lambda: names.NOTIFIED in applications.keys(scene.name), what="a notification was sent")

        def written() -> set[str]:
            return (applications.keys(scene.name) | sets.keys(scene.name)) - applied

        # What a watch tells comes a moment after it was written.
        until(lambda: written() >= set(PASSING_ANNOTATIONS), what="all of the list are seen")
        assert written() == set(PASSING_ANNOTATIONS)
