"""Review servers as processes for the benchmark.

`python -m scripts.bench.reviewing ours|plain FOLDER PORT APPLICATIONS PROJECTS EVENTS_A_SECOND`
"""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import orjson

from argocd import names
from certs.key_pair import CertificateError, KeyPair
from kube.resources import APP_PROJECTS, APPLICATIONS, CONFIG_MAPS, SECRETS
from kube.store import ListPage, Object, Resource, WatchEvent, WatchEventKind
from scripts.bench.rules import project
from webhook.admission.access_reviews import AccessReviews
from webhook.admission.cluster_state import ClusterState, Scope
from webhook.admission.decisions import Decisions
from webhook.admission.review import Review, ReviewAnswer
from webhook.keeper.worker_reports import WorkerReporter
from webhook.server.arbiters import ReviewArbiter, ReviewPort
from webhook.server.asgi import Endpoint, ReviewApp
from webhook.server.metrics import WorkerMetrics

CLUSTERS = ("eu", "us")


def review(salt: int = 0) -> bytes:
    """Of 4 to 5 KiB, as the API server sends it for `kubectl create` of the project that the rules are measured by."""
    thing = project(salt=salt, description="Everything that the shop needs. " * 12)
    for role in thing["spec"]["roles"]:
        role["policies"].append(role["policies"][0].replace(" get,", " delete,"))
    fields: Object = {"f:spec": {".": {}, **{f"f:{key}": {} for key in thing["spec"]}}}
    thing["metadata"] |= {
        "uid": "0b1e6e7c-7a57-4e27-a8e6-5e3d9b1e2f41",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "generation": 1,
        "managedFields": [
            {
                "manager": "kubectl-create",
                "operation": "Update",
                "apiVersion": names.API_VERSION,
                "time": "2026-01-01T00:00:00Z",
                "fieldsType": "FieldsV1",
                "fieldsV1": fields,
            }
        ],
    }
    kind = {"group": names.GROUP, "version": "v1alpha1", "kind": "AppProject"}
    resource = {"group": names.GROUP, "version": "v1alpha1", "resource": "appprojects"}
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": "shop",
        "namespace": "argocd",
        "operation": "CREATE",
        "userInfo": {"username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"]},
        "object": thing,
        "oldObject": None,
        "dryRun": False,
        "options": {
            "kind": "CreateOptions",
            "apiVersion": "meta.k8s.io/v1",
            "fieldManager": "kubectl-create",
        },
    }
    return orjson.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request})


def application(number: int, version: int) -> bytes:
    """An Application of usual size: twenty resources, a history, conditions."""
    resources = [
        {
            "group": "apps",
            "version": "v1",
            "kind": "Deployment",
            "namespace": f"shop-{number}",
            "name": f"web-{part}",
            "status": "Synced",
            "health": {"status": "Healthy", "message": f"revision {version} is rolled out"},
        }
        for part in range(20)
    ]
    history = [
        {"id": entry, "revision": f"{entry:040x}", "deployedAt": "2026-01-01T00:00:00Z"}
        for entry in range(10)
    ]
    return orjson.dumps(
        {
            "apiVersion": names.API_VERSION,
            "kind": "Application",
            "metadata": {
                "name": f"shop-{number}",
                "namespace": "argocd",
                "uid": f"{number:032x}",
                "resourceVersion": str(version),
                "labels": {"team": f"team-{number % 50}"},
            },
            "spec": {
                "project": f"team-{number % 500}",
                "source": {
                    "repoURL": f"https://git.example.com/shop-{number}",
                    "path": "deploy",
                    "targetRevision": "v1",
                },
                "destination": {"server": "https://eu.example.com:6443", "namespace": f"shop-{number}"},
                "syncPolicy": {"automated": {"prune": True}, "syncOptions": ["CreateNamespace=true"]},
            },
            "status": {"resources": resources, "history": history, "sync": {"status": "Synced"}},
        }
    )


class Feed:
    """A store that hands out objects as an API server would, decoded one by one, and keeps none itself."""

    def __init__(self, *, applications: int, projects: int, events_a_second: float) -> None:
        self._applications = applications
        self._projects = projects
        self._pause = 1 / events_a_second if events_a_second else 0.0

    async def list(
        self, resource: Resource, *, limit: int | None = None, continue_token: str = "", **_: Any
    ) -> ListPage:
        start, size = int(continue_token or 0), limit or 500
        items = [item for number in range(start, start + size) if (item := self._item(resource, number))]
        token = str(start + size) if len(items) == size else ""
        return ListPage(items, resource_version="1000000", continue_token=token)

    def _item(self, resource: Resource, number: int) -> Object | None:
        if resource == APPLICATIONS and number < self._applications:
            return _loaded(application(number, number + 1))
        if resource == APP_PROJECTS and number < self._projects:
            body = project(salt=number % 20)
            return {**body, "metadata": {"name": f"team-{number}", "namespace": "argocd", **_stamped(number)}}
        if resource == SECRETS and number < len(CLUSTERS):
            data = {"server": f"https://{CLUSTERS[number]}.example.com:6443", "name": CLUSTERS[number]}
            labels = {names.SECRET_TYPE: names.SECRET_TYPE_CLUSTER}
            metadata = {"name": CLUSTERS[number], "namespace": "argocd", "labels": labels, **_stamped(number)}
            return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}
        return None

    async def watch(
        self, resource: Resource, *, field_selector: str = "", **_: Any
    ) -> AsyncGenerator[WatchEvent, None]:
        if resource == CONFIG_MAPS and field_selector.endswith(f"={names.ARGOCD_CM}"):
            metadata = {"name": names.ARGOCD_CM, "namespace": "argocd", **_stamped(1_000_001)}
            data = {names.IMPERSONATION_ENABLED_KEY: "true"}
            yield WatchEvent(
                WatchEventKind.ADDED,
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data},
            )
        if resource == APPLICATIONS and self._pause:
            for number in range(10**9):
                await asyncio.sleep(self._pause)
                body = application(number % self._applications, 1_000_001 + number)
                yield WatchEvent(WatchEventKind.MODIFIED, _loaded(body))
        await asyncio.Event().wait()

    async def close(self) -> None: ...


def _loaded(body: bytes) -> Object:
    loaded: Object = orjson.loads(body)
    return loaded


def _stamped(number: int) -> dict[str, str]:
    return {"uid": f"{number:032x}", "resourceVersion": str(number + 1)}


class Caches:
    def __init__(self, feed: Feed) -> None:
        self.cluster_state = ClusterState(feed, Scope(), told=lambda _what, _trouble: None)  # type: ignore[arg-type]  # reads only
        self.start = self.cluster_state.start
        self.failed = self.cluster_state.failed
        self.stop = self.cluster_state.stop


class Plain:
    """The same server, where the endpoint only decodes and encodes."""

    drain_seconds = 0.0

    def __init__(self, application: ReviewApp) -> None:
        self._application = application
        self.context = application.context
        self.drain = application.drain
        self.refuse = application.refuse

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def failed(self) -> None:
        await asyncio.Event().wait()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        sent = message["body"]
        while message["more_body"]:
            message = await receive()
            sent += message["body"]
        request = orjson.loads(sent)["request"]
        response = {"uid": request["uid"], "allowed": True}
        body = orjson.dumps(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        )
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class Silent:
    def answered(self, path: str, review: Review, answer: ReviewAnswer, seconds: float) -> None: ...
    def refused(self, path: str, status: int, reason: str) -> None: ...
    def certificate_loaded(self, pair: KeyPair) -> None: ...
    def certificate_refused(self, error: CertificateError) -> None: ...
    def crashed(self, path: str, error: Exception) -> None: ...


async def build(mode: str, folder: Path, feed: Feed) -> Any:
    caches = Caches(feed)
    metrics = WorkerMetrics(WorkerReporter(folder))
    decisions = Decisions(caches.cluster_state, access_reviews=AccessReviews(feed))  # type: ignore[arg-type]  # the same
    served = ReviewApp(
        endpoints={"/validate": Endpoint(decisions.validate, patches=False)},
        folder=folder,
        background=caches,
        observer=metrics if mode == "ours" else Silent(),
        drain_seconds=0.0,
    )
    return served if mode == "ours" else Plain(served)


def main(mode: str, folder: str, port: str, *objects: str) -> None:
    applications, projects, events = objects
    feed = Feed(applications=int(applications), projects=int(projects), events_a_second=float(events))
    review_port = ReviewPort(host="127.0.0.1", port=int(port), workers=1, drain_seconds=0.0)
    ReviewArbiter(lambda: build(mode, Path(folder), feed), review_port).run()


if __name__ == "__main__":
    assert "PROMETHEUS_MULTIPROC_DIR" in os.environ, "metrics are on, as in the real process"
    main(*sys.argv[1:])
