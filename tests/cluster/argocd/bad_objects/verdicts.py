"""What a real Argo CD says of objects that are there: in conditions, in failed syncs, and at argocd-server."""

import http.client
import json
import re
import time
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import yaml

from scripts.cluster.api import RefusedError
from scripts.cluster.argocd.installation import NAMESPACE, ArgoCd
from tests.cluster.argocd.bad_objects.table import REPOSITORY, BadObject, Object

GROUP = f"/apis/argoproj.io/v1alpha1/namespaces/{NAMESPACE}"
PLURALS = {"AppProject": "appprojects", "Application": "applications", "ApplicationSet": "applicationsets"}
TARGET = "bad-objects"
FILES = {
    "shop/prices.json": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prices"}},
    # Never applied, so that its sync is tried again.
    "refused/nowhere.json": {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "prices", "namespace": "nowhere"},
    },
}
PATIENCE_SECONDS = 240.0  # for all of them; a repository that does not answer takes most of a minute
QUIET_SECONDS = 20.0  # in which nothing more was said: longer than a resync
LOOK_SECONDS = 1.0
LONGEST = 400  # characters of a message: Argo CD repeats a repository's whole answer

UNANSWERED = "no condition at all: the controller never came to an end with it"
"""As after a panic, which it survives and repeats."""

Verdicts: TypeAlias = dict[str, dict[str, list[str]]]
"""By case; `schema` is the API server's word, `controllers` and `server` are Argo CD's. An empty one is content."""


def ask_argo_cd(argo_cd: ArgoCd, cases: Iterable[BadObject]) -> Verdicts:
    """All at once; objects of which nothing is said for a while have passed."""
    return _Questions(argo_cd).verdicts(list(cases))


class _Questions:
    def __init__(self, argo_cd: ArgoCd) -> None:
        self._argo_cd = argo_cd
        self._cluster = argo_cd.cluster
        self._repository = argo_cd.repository("table")
        login = yaml.safe_load(argo_cd.client_config.read_text())
        self._token: str = login["users"][0]["auth-token"]

    def verdicts(self, cases: list[BadObject]) -> Verdicts:
        self._cluster.create_namespace(TARGET)
        self._repository.commit({name: json.dumps(body) for name, body in FILES.items()})
        verdicts: Verdicts = {case.name: {} for case in cases}
        stored = [case for case in cases if self._stores(case, verdicts)]
        self._wait_until_quiet(stored)
        for name, said in self._said(stored).items():
            if said:
                verdicts[name]["controllers"] = said
        for case in stored:
            if refused := self._server_refuses(case):
                verdicts[case.name]["server"] = [refused]
        return verdicts

    def _stores(self, case: BadObject, verdicts: Verdicts) -> bool:
        body = self._here(case.object)
        try:
            self._cluster.request("POST", f"{GROUP}/{PLURALS[body['kind']]}", body)
            if body["kind"] == "AppProject":
                self._cluster.request("POST", f"{GROUP}/applications", self._user_of(case.name))
        except RefusedError as error:
            verdicts[case.name]["schema"] = [self._settled(str(error))]
            return False
        return True

    def _user_of(self, project: str) -> Object:
        """An Application by which the controller comes to look at a project."""
        return {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Application",
            "metadata": {"name": project},
            "spec": {
                "project": project,
                "source": {"repoURL": self._repository.url, "path": "shop", "targetRevision": "main"},
                "destination": {"server": "https://kubernetes.default.svc", "namespace": TARGET},
                "syncPolicy": {"automated": {}},
            },
        }

    def _here(self, thing: Object) -> Object:
        body: Object = json.loads(json.dumps(thing).replace(REPOSITORY, self._repository.url))
        return body

    # What the controllers say.

    def _wait_until_quiet(self, cases: list[BadObject]) -> None:
        deadline, said, since = time.monotonic() + PATIENCE_SECONDS, None, time.monotonic()
        while time.monotonic() < deadline:
            now = self._said(cases), self._unseen()
            if now != said:
                said, since = now, time.monotonic()
            elif time.monotonic() - since > QUIET_SECONDS and not now[1]:
                return
            time.sleep(LOOK_SECONDS)

    def _unseen(self) -> list[str]:
        """Applications that the controller has not come to yet."""
        return [
            each["metadata"]["name"]
            for each in self._list("applications")
            if not each.get("status", {}).get("reconciledAt") and not each.get("status", {}).get("conditions")
        ]

    def _said(self, cases: list[BadObject]) -> dict[str, list[str]]:
        said: dict[str, list[str]] = {case.name: [] for case in cases}
        for application in self._list("applications"):
            owners = application["metadata"].get("ownerReferences") or [application["metadata"]]
            for text in _complaints(application.get("status") or {}):
                said.setdefault(owners[0]["name"], []).append(text)
        for each in self._list("applicationsets"):
            conditions = (each.get("status") or {}).get("conditions") or []
            said[each["metadata"]["name"]] += [
                f"{condition['reason']}: {condition['message']}"
                for condition in conditions
                if condition["type"] == "ErrorOccurred" and condition["status"] == "True"
            ] or ([] if conditions else [UNANSWERED])
        return {name: sorted({self._settled(text) for text in texts}) for name, texts in said.items()}

    def _list(self, plural: str) -> list[Object]:
        items: list[Object] = self._cluster.request("GET", f"{GROUP}/{plural}")["items"]
        return items

    # What argocd-server says to whoever creates it there.

    def _server_refuses(self, case: BadObject) -> str:
        body = self._here(case.object)
        path, sent = {
            "AppProject": ("/api/v1/projects", {"project": body, "upsert": True}),
            "Application": ("/api/v1/applications?validate=true&upsert=true", body),
            "ApplicationSet": ("/api/v1/applicationsets?upsert=true", body),
        }[body["kind"]]
        host, _, port = self._argo_cd.server.partition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE_SECONDS)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        connection.request("POST", path, body=json.dumps(sent), headers=headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if answer.status < http.client.BAD_REQUEST:
            return ""
        decoded: Any = json.loads(text)
        return self._settled(str(decoded.get("message") or decoded))

    def _settled(self, text: str) -> str:
        """Without what is another thing next time."""
        text = text.replace(self._repository.url, REPOSITORY)
        for pattern, instead in CHANGING:
            text = re.sub(pattern, instead, text)
        text = " ".join(text.split())
        return f"{text[:LONGEST]}…" if len(text) > LONGEST else text


CHANGING = (
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID"),
    (r"\b[0-9a-f]{40}\b", "REVISION"),
    (r"/[\w./-]*tiphys-cluster-[\w./-]*", "FOLDER"),
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r" on [\d.]+:53: ", ": "),
    (r"[( ]retried \d+ times\)?|\. Retrying attempt.*", ""),
    (r"hash=\d+", "hash=NUMBER"),
)


def _complaints(status: Object) -> Iterator[str]:
    for condition in status.get("conditions") or []:
        if not condition["type"].endswith("Warning"):  # several of these share one repository
            yield f"{condition['type']}: {condition['message']}"
    operation = status.get("operationState") or {}
    # One that succeeded may have been retried before: all are synced at once, and some get in each other's way.
    being_retried = operation.get("phase") == "Running" and operation.get("retryCount")
    if operation.get("phase") in {"Failed", "Error"} or being_retried:
        yield f"sync: {operation.get('message', '')}"
