"""What a user of the hub's argocd-server does with an agent's Application `web`, and what must come of it at both ends.

All of it without a proxy: argocd-server is told not to validate, and a sync is not waited for by `argocd`.
"""

import http.client
import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from argocd import names
from scripts.cluster.argocd.repository import Repository
from tests.cluster.argocd.agent_fleet import TARGET, Fleet, Object, get
from tests.cluster.argocd.rest_api import Rest
from tests.cluster.argocd.steered import config_map
from tests.cluster.argocd.test_application_life import HOOK
from tests.cluster.installation import AGENT
from tests.webhook.guarded_cluster import until

APPLICATION = f"{AGENT}/web"
ENDED = frozenset({"Succeeded", "Failed", "Error"})
DENIED = ("--kind", "deny", "--schedule", "* * * * *", "--duration", "1h", "--applications", "*")
PRICES = {"kind": "ConfigMap", "name": "prices", "namespace": TARGET}


def project(repository: str, *, name: str = "web", **spec: Any) -> Object:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": name},
        "spec": {"sourceRepos": [repository], **spec},
    }


def application(repository: str, **spec: Any) -> Object:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "web"},
        "spec": {
            "project": "web",
            "source": {"repoURL": repository, "path": "shop", "targetRevision": "main"},
            **spec,
        },
    }


def status(fleet: Fleet, *path: str) -> Any:
    """Of the Application on the hub."""
    found: Any = (fleet.on_hub("applications", "web") or {}).get("status")
    for key in path:
        found = (found or {}).get(key)
    return found


def deployed(fleet: Fleet, name: str) -> Object | None:
    return get(fleet.workload.cluster, f"/api/v1/namespaces/{TARGET}/configmaps/{name}")


def wait_deployed(fleet: Fleet, data: dict[str, str]) -> None:
    until(lambda: fleet.deployed() == data, what=f"{data} is deployed")


def requests(fleet: Fleet) -> set[str]:
    found = (fleet.on_hub("applications", "web"), fleet.on_workload("applications", "web"))
    return {
        name
        for there in found
        for name in names.REQUESTS
        if there is None or name in there["metadata"].get("annotations", {})
    }


def refresh(fleet: Fleet, revision: str, *, kind: str = "--refresh") -> None:
    """As argocd-server asks for it: the answer removes both requests at both ends."""
    fleet.hub.cli("app", "get", APPLICATION, kind)
    until(lambda: status(fleet, "sync", "revision") == revision, what="the hub knows the commit")
    # A comparison of the controller's own may have found the commit before it came to the request.
    until(lambda: not requests(fleet), what="both requests are gone at both ends")


def sync(fleet: Fleet, *, by: Rest | None = None, **options: Any) -> Object:
    """As the UI asks for it; the end of this very operation, as the hub knows it."""
    mark = ask_for_sync(fleet, by=by, **options)
    state: Object = until(
        lambda: operation(fleet, mark, phases=ENDED), what="the hub knows of the operation's end"
    )
    assert state["phase"] == "Succeeded", state["message"]
    return state


def ask_for_sync(fleet: Fleet, *, by: Rest | None = None, **options: Any) -> str:
    """By what it returns `operation` finds this very one."""
    mark = uuid4().hex
    body = {"appNamespace": AGENT, "infos": [{"name": "asked", "value": mark}], **options}
    (by or Rest(fleet.hub)).told("POST", "/applications/web/sync", body)
    return mark


def operation(fleet: Fleet, mark: str, *, phases: frozenset[str]) -> Object | None:
    """Its state as the hub knows it, once it is in one of these phases."""
    state: Object = status(fleet, "operationState") or {}
    asked = [each["value"] for each in state.get("operation", {}).get("info") or ()]
    return state if mark in asked and state["phase"] in phases else None


def sync_in_all_ways(fleet: Fleet, repository: Repository, *, confirm: Callable[[], object]) -> None:
    """A dry run, one resource of two, all with an option, a former revision, what somebody has on his own disk, and with
    pruning, which `confirm` confirms.
    """
    hours = config_map("hours", open="9")
    first = status(fleet, "history")[0]["revision"]
    refresh(
        fleet,
        repository.commit({"shop/prices.json": config_map("prices", tea="7"), "shop/hours.json": hours}),
    )
    before = fleet.deployed()
    sync(fleet, dryRun=True)
    assert (fleet.deployed(), deployed(fleet, "hours")) == (before, None)

    state = sync(fleet, resources=[PRICES])
    assert [each["name"] for each in state["syncResult"]["resources"]] == ["prices"]
    assert (fleet.deployed(), deployed(fleet, "hours")) == ({"tea": "7"}, None)

    sync(fleet, syncOptions={"items": ["ServerSideApply=true"]})
    there = deployed(fleet, "hours")
    assert there
    assert "Apply" in {each["operation"] for each in there["metadata"]["managedFields"]}

    wanted = {
        "revision": first,
        "syncStrategy": {"apply": {"force": True}},
        "syncOptions": ["Replace=true"],
    }
    state = sync(
        fleet,
        revision=first,
        strategy=wanted["syncStrategy"],
        syncOptions={"items": wanted["syncOptions"]},
        retryStrategy={"limit": 2},
    )
    asked = state["operation"]
    assert {key: asked["sync"].get(key) for key in wanted} == wanted, asked
    assert asked["retry"]["limit"] == 2, asked
    assert fleet.deployed() == {"tea": "3"}

    sync(fleet, manifests=[config_map("prices", tea="mine")])
    assert fleet.deployed() == {"tea": "mine"}
    sync(fleet)  # until then Argo CD compares with what was synced last
    assert fleet.deployed() == {"tea": "7"}

    refresh(fleet, repository.commit({"shop/hours.json": None}))
    sync(fleet)
    assert deployed(fleet, "hours"), "nothing is pruned that nobody asked to prune"
    prune_with_confirmation(fleet, repository, confirm=confirm)


def prune_with_confirmation(fleet: Fleet, repository: Repository, *, confirm: Callable[[], object]) -> None:
    hours = json.loads(config_map("hours", open="9"))
    hours["metadata"]["annotations"] = {names.SYNC_OPTIONS: "Prune=confirm"}
    refresh(fleet, repository.commit({"shop/hours.json": json.dumps(hours)}))
    sync(fleet)
    refresh(fleet, repository.commit({"shop/hours.json": None}))
    mark = ask_for_sync(fleet, prune=True)
    running = frozenset({"Running"})
    until(
        lambda: "confirmation" in (operation(fleet, mark, phases=running) or {}).get("message", ""),
        what="the hub knows that a confirmation is waited for",
    )
    assert deployed(fleet, "hours")
    confirm()
    until(lambda: deployed(fleet, "hours") is None, what="it is pruned")
    until(lambda: operation(fleet, mark, phases=ENDED), what="the hub knows of the operation's end")


def terminate(fleet: Fleet, repository: Repository) -> None:
    """An operation that does not end."""
    refresh(fleet, repository.commit({"shop/hook.json": json.dumps(HOOK)}))
    fleet.hub.cli("app", "sync", APPLICATION, "--async")
    job = f"/apis/batch/v1/namespaces/{TARGET}/jobs/never-ends"
    until(lambda: get(fleet.workload.cluster, job), what="the hook is there")
    until(lambda: status(fleet, "operationState", "phase") == "Running", what="the hub knows of it")
    fleet.hub.cli("app", "terminate-op", APPLICATION)
    until(lambda: status(fleet, "operationState", "phase") == "Failed", what="the hub knows of its end")
    assert "terminated" in status(fleet, "operationState", "message")
    # Argo CD leaves a hook that its cache has not seen yet, with its finalizer: a deletion would wait for it for ever.
    kubectl, bare = fleet.workload.cluster.kubectl, json.dumps({"metadata": {"finalizers": None}})
    kubectl("patch", "job", "never-ends", "-n", TARGET, "--type=merge", "-p", bare, check=False)
    kubectl("delete", "job", "never-ends", "-n", TARGET, "--ignore-not-found")
    refresh(fleet, repository.commit({"shop/hook.json": None}))


def roll_back(fleet: Fleet) -> None:
    """To the first revision that was deployed."""
    first = status(fleet, "history")[0]["id"]
    fleet.hub.cli("app", "rollback", APPLICATION, str(first), "--timeout", "50")
    wait_deployed(fleet, {"tea": "3"})
    until(
        lambda: (
            (status(fleet, "history") or [{}])[-1].get("id", 0) > first
            and status(fleet, "operationState", "phase") == "Succeeded"
        ),
        what="the hub knows of the rollback's end",
    )


def look_around(fleet: Fleet, *, project: str) -> None:
    """What the UI shows of an Application and its project without a question to the workload cluster."""
    rest = Rest(fleet.hub)
    shown = rest.told("GET", "/applications/web", appNamespace=AGENT)
    assert shown["status"]["sync"]["revision"] == status(fleet, "sync", "revision")
    listed = rest.told("GET", "/applications", projects=project)["items"]
    assert [each["metadata"]["name"] for each in listed] == ["web"]
    # What somebody had on his own disk is of no revision.
    for revision in {each.get("revision") for each in shown["status"]["history"]} - {None}:
        about = f"/applications/web/revisions/{revision}/metadata"
        assert rest.told("GET", about, appNamespace=AGENT)["author"].startswith("tests")
    events = rest.told("GET", "/applications/web/events", appNamespace=AGENT)["items"]
    assert any("initiated sync" in each["message"] for each in events)
    assert "/applications/web" in fleet.hub.cli("app", "get", APPLICATION).stdout
    detailed = rest.told("GET", f"/projects/{project}/detailed")["project"]
    assert detailed["metadata"]["name"] == project
    for more in ("events", "syncwindows", "globalprojects", "links"):
        rest.told("GET", f"/projects/{project}/{more}")


def can_sync(fleet: Fleet) -> bool:
    """By the windows of its project, as the UI shows it."""
    told = Rest(fleet.hub).told("GET", "/applications/web/syncwindows", appNamespace=AGENT)
    return bool(told.get("canSync"))


def is_refused_by_its_window(fleet: Fleet) -> None:
    until(lambda: not can_sync(fleet), what="argocd-server knows the window")
    code, answer = Rest(fleet.hub).ask("POST", "/applications/web/sync", {"appNamespace": AGENT})
    assert (code, answer["message"]) == (http.client.FORBIDDEN, "cannot sync: blocked by sync window")
