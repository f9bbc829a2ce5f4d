"""A real Argo CD whose objects `tiphys webhook` guards, and what tests ask of both."""

import json
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from scripts.cluster.api import RefusedError
from scripts.cluster.argocd.installation import NAMESPACE, ArgoCd
from scripts.cluster.argocd.repository import BRANCH, Repository
from scripts.cluster.controlplane import Cluster
from tests.webhook.guarded_cluster import until
from tests.webhook.webhook_process import Guard

HERE = "https://kubernetes.default.svc"
GROUP = f"/apis/argoproj.io/v1alpha1/namespaces/{NAMESPACE}"
REVIEWS = "tiphys_webhook_reviews"

Object = dict[str, Any]
Done = subprocess.CompletedProcess[str]


@dataclass(frozen=True, slots=True)
class Steered:
    argo_cd: ArgoCd
    guard: Guard

    @property
    def cluster(self) -> Cluster:
        return self.argo_cd.cluster

    def cli(self, *words: str, check: bool = True) -> Done:
        return self.argo_cd.cli(*words, check=check)

    def apply(self, *things: Object, check: bool = True) -> Done:
        text = yaml.safe_dump_all(things)
        return self.cluster.kubectl("apply", "-n", NAMESPACE, "-f", "-", stdin=text, check=check)

    def get(self, plural: str, name: str) -> Object | None:
        """One of Argo CD's own objects."""
        return self.found(f"{GROUP}/{plural}/{name}")

    def config_map(self, namespace: str, name: str) -> Object | None:
        return self.found(f"/api/v1/namespaces/{namespace}/configmaps/{name}")

    def found(self, path: str) -> Object | None:
        try:
            stored: Object = self.cluster.request("GET", path)
        except RefusedError as error:
            if error.code != 404:
                raise
            return None
        return stored

    def status(self, application: str, *path: str) -> Any:
        """None where it is not there yet."""
        found: Any = (self.get("applications", application) or {}).get("status")
        for key in path:
            found = (found or {}).get(key)
        return found

    def wait_synced(self, application: str, *, revision: str = "") -> None:
        def synced() -> bool:
            sync = self.status(application, "sync") or {}
            done = self.status(application, "operationState", "phase") == "Succeeded"
            return done and sync.get("status") == "Synced" and revision in sync.get("revision", "")

        until(synced, what=f"{application} is synced")

    def reviews(self) -> dict[str, float]:
        """How often the API server has asked, by endpoint, kind, operation and result."""
        families = text_string_to_metric_families(self.guard.page("/metrics")[1])
        return {
            " ".join(sample.labels.values()): sample.value
            for family in families
            if family.name == REVIEWS
            for sample in family.samples
            if sample.name.endswith("_total")
        }

    @contextmanager
    def unasked(self) -> Iterator[None]:
        """Nothing in it makes the API server ask the webhook."""
        before = self.reviews()
        yield
        after = self.reviews()
        asked = {key: count - before.get(key, 0) for key, count in after.items() if count != before.get(key)}
        assert asked == {}

    def writes(self, *, since: int = 0) -> list[tuple[str, str, str]]:
        """Who wrote which of Argo CD's objects how, from the audit log's line `since` on."""
        return [
            (event["user"]["username"], event["verb"], event["objectRef"].get("name", ""))
            for event in self.cluster.audited(since=since)
            if event["verb"] in {"create", "update", "patch", "delete", "deletecollection"}
            and event.get("objectRef", {}).get("apiGroup") == "argoproj.io"
            and event["objectRef"].get("namespace") == NAMESPACE
        ]


@dataclass(frozen=True, slots=True)
class Scene:
    """A repository, a namespace to deploy to and names that no other test has."""

    steered: Steered
    name: str
    repository: Repository

    @classmethod
    def create(cls, steered: Steered) -> "Scene":
        name = f"scene-{uuid.uuid4().hex[:8]}"
        steered.cluster.create_namespace(name)
        return cls(steered, name, steered.argo_cd.repository(name))

    def application(self, name: str = "", *, path: str = "shop", **spec: Any) -> Object:
        return {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Application",
            "metadata": {"name": name or self.name},
            "spec": self.specification(path=path, **spec),
        }

    def specification(self, *, path: str, **spec: Any) -> Object:
        return {
            "project": "default",
            "source": {"repoURL": self.repository.url, "path": path, "targetRevision": BRANCH},
            "destination": {"server": HERE, "namespace": self.name},
            **spec,
        }

    def data(self, name: str) -> dict[str, str] | None:
        """Of a ConfigMap that was deployed."""
        found = self.steered.config_map(self.name, name)
        return found.get("data") if found else None

    def wait_data(self, name: str, data: dict[str, str] | None) -> None:
        until(lambda: self.data(name) == data, what=f"{name} has {data}")

    def clear(self) -> None:
        """Also where a test failed halfway: what it deployed may stay, Argo CD must not work on it any more."""
        for plural in ("applicationsets", "applications", "appprojects"):
            for each in self.steered.cluster.request("GET", f"{GROUP}/{plural}")["items"]:
                name = each["metadata"]["name"]
                if name.startswith(self.name):
                    self.steered.cluster.kubectl(
                        *("delete", f"{plural}.argoproj.io", name, "-n", NAMESPACE),
                        *("--ignore-not-found", "--timeout=60s"),
                    )
        self.steered.cluster.kubectl("delete", "namespace", self.name, "--wait=false")


def config_map(name: str, **data: str) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
