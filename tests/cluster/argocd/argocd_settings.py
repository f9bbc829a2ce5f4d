"""Argo CD's settings and Tiphys's configuration, changed for a while; other tests share both."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from argocd import names
from scripts.cluster.api import MERGE_PATCH
from scripts.cluster.argocd.installation import NAMESPACE
from tests.cluster.argocd.steered import Steered
from tests.webhook.guarded_cluster import until

SETTINGS = f"/api/v1/namespaces/{NAMESPACE}/configmaps/argocd-cm"


def setting(steered: Steered, key: str) -> str | None:
    found: str | None = (steered.cluster.request("GET", SETTINGS).get("data") or {}).get(key)
    return found


def write_settings(steered: Steered, *, former_ids: str | None = "", **data: str | None) -> None:
    """None removes; `former_ids` is left as it is where it is empty."""
    body: dict[str, object] = {"data": data}
    if former_ids != "":
        body["metadata"] = {"annotations": {names.TIPHYS_FORMER_INSTALLATION_IDS: former_ids}}
    steered.cluster.request("PATCH", SETTINGS, body, content_type=MERGE_PATCH)


@contextmanager
def settings(steered: Steered, **data: str | None) -> Iterator[None]:
    """argocd-cm with these values, and afterwards what it had under their names."""
    before = {key: setting(steered, key) for key in data}
    write_settings(steered, **data)
    try:
        yield
    finally:
        write_settings(steered, former_ids=None, **before)


@contextmanager
def tracking_format(steered: Steered, written: str, *, probe: str) -> Iterator[None]:
    """The webhook completes marks in this format; `probe` is a namespace that nobody else writes to."""
    path = f"/api/v1/namespaces/{steered.guard.home}/configmaps/{names.TIPHYS_CONFIG_MAP}"
    before = steered.cluster.request("GET", path)["data"][names.TIPHYS_CONFIG_KEY]

    def write(text: str, marks: set[str]) -> None:
        data = {"data": {names.TIPHYS_CONFIG_KEY: text}}
        steered.cluster.request("PATCH", path, data, content_type=MERGE_PATCH)
        until(lambda: probed(steered, probe) == marks, what=f"{marks} are written")

    released, proposed = {names.TRACKING_ID}, {names.PROPOSED_TRACKING_ID}
    marks = {"released": released, "proposed": proposed, "both": released | proposed}[written]
    write(f"{before}\ntracking: {{format: {written}}}\n", marks)
    try:
        yield
    finally:
        write(before, released)


def probed(steered: Steered, namespace: str) -> set[str]:
    """The sorts of tracking ids that an object of this namespace would get."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe"}}
    done = steered.cluster.kubectl(
        *("create", "-n", namespace, "--dry-run=server", "-o", "json", "-f", "-"), stdin=json.dumps(body)
    )
    annotations = json.loads(done.stdout)["metadata"].get("annotations", {})
    return {names.TRACKING_ID, names.PROPOSED_TRACKING_ID} & set(annotations)


def track(steered: Steered, namespace: str, *, application: str = "") -> None:
    """Marks in it are completed; `application` is the administrator's word whose its objects are."""
    steered.cluster.kubectl("label", "namespace", namespace, f"{names.TIPHYS_TRACKING}={names.ENABLED}")
    if application:
        mark = f"{names.TIPHYS_TRACKING_APPLICATION}={application}"
        steered.cluster.kubectl("annotate", "namespace", namespace, mark)
