"""What a user of the hub's argocd-server can do with an agent's Applications, and that nobody fights afterwards.

The webhook enforces on both clusters; the controller works on the workload cluster alone, and there is no proxy.
"""

import base64
import http.client
import json
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from argocd.agents.vocabulary import Mode
from scripts.cluster.argocd.components import Component
from scripts.cluster.argocd.installation import NAMESPACE
from scripts.cluster.argocd.programs import Programs
from scripts.cluster.argocd.repository import Repository
from scripts.cluster.binaries import Binaries
from tests.cluster.argocd.agent_fleet import RESYNC_SECONDS, TARGET, Fleet, Object, started_fleet, writes
from tests.cluster.argocd.managed_actions import (
    DESTINATION,
    close_a_window,
    create,
    delete_and_create_again,
    edit,
    edit_its_project,
    given,
    work_with_a_token,
)
from tests.cluster.argocd.rest_api import Rest
from tests.cluster.argocd.steered import HERE, config_map
from tests.cluster.argocd.user_actions import (
    APPLICATION,
    DENIED,
    application,
    can_sync,
    is_refused_by_its_window,
    look_around,
    project,
    refresh,
    roll_back,
    status,
    sync,
    sync_in_all_ways,
    terminate,
    wait_deployed,
)
from tests.cluster.installation import AGENT
from tests.webhook.guarded_cluster import until

REST_SECONDS = 30
UNDER_WAY = 2  # statuses from before: one that is being written, and the newest that waits for it
PATIENCE_SECONDS = 120.0
MIRROR = f"{AGENT}-web"
REASON = f"this is the mirror of what the autonomous agent {AGENT} has"
ROLE = {"name": "dev", "policies": ["p, proj:web:dev, applications, sync, web/*, allow"]}

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def managed(argocd_programs: Programs, cluster_binaries: Binaries, tmp_path: Path) -> Iterator[Fleet]:
    with started_fleet(
        argocd_programs, cluster_binaries, mode=Mode.MANAGED, folder=tmp_path, guarded=True
    ) as fleet:
        yield fleet


@pytest.fixture
def autonomous(argocd_programs: Programs, cluster_binaries: Binaries, tmp_path: Path) -> Iterator[Fleet]:
    with started_fleet(
        argocd_programs, cluster_binaries, mode=Mode.AUTONOMOUS, folder=tmp_path, guarded=True
    ) as fleet:
        yield fleet


# -- a managed agent: the hub decides ------------------------------------------------------------------------


def deploys_on_one_end_alone(fleet: Fleet) -> None:
    """Neither end has the whole of Argo CD, and the one without argocd-server has the key that it would make."""
    assert Component.CONTROLLER not in fleet.hub.cluster.pids
    assert Component.SERVER not in fleet.workload.cluster.pids
    secret = f"/api/v1/namespaces/{NAMESPACE}/secrets/argocd-secret"
    key = fleet.workload.cluster.request("GET", secret)["data"]["server.secretkey"]
    assert len(base64.b64decode(key)) > 32


def test_a_managed_agents_application_is_worked_with_from_the_hub(managed: Fleet) -> None:
    hub, workload = managed.hub, managed.workload
    deploys_on_one_end_alone(managed)
    repository = hub.repository("shop")
    repository.commit(
        {"shop/prices.json": config_map("prices", tea="3"), "more/shelf.json": config_map("shelf")}
    )
    workload.cluster.create_namespace(TARGET)
    made = project(repository.url, sourceNamespaces=[AGENT], destinations=[DESTINATION])
    Rest(hub).told("POST", "/projects", {"project": made})
    until(lambda: given(managed, "appprojects"), what="the agent has the project")
    create(managed, repository)
    assert managed.deployed() == {"tea": "3"}

    for price, kind in (("4", "--refresh"), ("5", "--hard-refresh")):
        refresh(managed, repository.commit({"shop/prices.json": config_map("prices", tea=price)}), kind=kind)
        wait_deployed(managed, {"tea": price})
    edit(managed, repository)
    sync_in_all_ways(
        managed, repository, confirm=lambda: managed.hub.cli("app", "confirm-deletion", APPLICATION)
    )
    terminate(managed, repository)
    roll_back(managed)
    look_around(managed, project="web")
    edit_its_project(managed, repository)
    close_a_window(managed)
    work_with_a_token(managed)
    delete_and_create_again(managed, repository)

    at_rest(managed)


# -- an autonomous agent: its cluster decides ------------------------------------------------------------------


def close_a_window_at_its_source(fleet: Fleet) -> None:
    def write(windows: list[Object] | None) -> None:
        patch = json.dumps({"spec": {"syncWindows": windows}})
        fleet.workload.cluster.kubectl(
            "patch", "appproject", "web", "-n", NAMESPACE, "--type=merge", "-p", patch
        )

    write([{"kind": "deny", "schedule": "* * * * *", "duration": "1h", "applications": ["*"]}])
    is_refused_by_its_window(fleet)
    write(None)
    until(lambda: can_sync(fleet), what="the window is gone")


def confirm_at_its_source(fleet: Fleet) -> None:
    """What the hub's user confirms would be undone."""
    done = fleet.hub.cli("app", "confirm-deletion", APPLICATION, check=False)
    assert REASON in done.stderr
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    mark = f"argocd.argoproj.io/deletion-approved={now}"
    fleet.workload.cluster.kubectl("annotate", "application", "web", "-n", NAMESPACE, mark)


def stays_on_the_hub(fleet: Fleet, repository: Repository) -> None:
    """An Application that somebody makes there: the agent never hears of it."""
    hub, made = fleet.hub, f"{AGENT}/other"
    source = ("--repo", repository.url, "--path", "shop", "--revision", "main", "--project", MIRROR)
    where = ("--dest-name", AGENT, "--dest-namespace", TARGET, "--sync-policy", "automated")
    hub.cli("app", "create", made, *source, *where, "--validate=false")
    sync(fleet)  # told after it
    assert fleet.on_workload("applications", "other") is None
    there = fleet.on_hub("applications", "other") or {}
    assert "reconciledAt" not in there["status"]
    hub.cli("app", "delete", made, "--yes", "--cascade=false")
    until(lambda: fleet.on_hub("applications", "other") is None, what="it is gone")


def is_refused(fleet: Fleet) -> None:
    """Whatever would be undone: by the command line, and by what the UI sends."""
    hub, rest = fleet.hub, Rest(fleet.hub)
    told: dict[str, str] = {}
    for words in (
        ("app", "set", APPLICATION, "--revision", "other", "--validate=false"),
        ("app", "set", APPLICATION, "--directory-recurse", "--validate=false"),
        ("app", "delete", APPLICATION, "--yes", "--cascade=false"),
        ("app", "delete", APPLICATION, "--yes"),
        ("app", "delete", APPLICATION, "--yes", "--propagation-policy", "background"),
        ("proj", "set", MIRROR, "--description", "from the hub"),
        ("proj", "add-source", MIRROR, "https://example.test/other"),
        ("proj", "role", "create", MIRROR, "ops"),
        ("proj", "role", "add-group", MIRROR, "dev", "shopkeepers"),
        ("proj", "role", "create-token", MIRROR, "dev"),
        ("proj", "role", "delete", MIRROR, "dev"),
        ("proj", "windows", "add", MIRROR, *DENIED),
        ("proj", "delete", MIRROR),
    ):
        done = hub.cli(*words, check=False)
        assert done.returncode != 0, words
        told[" ".join(words)] = done.stderr + done.stdout
    for kind in ("labels", "annotations"):
        shown = rest.told("GET", "/applications/web", appNamespace=AGENT)
        shown["metadata"][kind] = {**shown["metadata"].get(kind, {}), "shop/note": "mine"}
        code, answer = rest.ask("PUT", "/applications/web", shown, validate="false")
        assert code != http.client.OK, kind
        told[kind] = answer["message"]
    spec = rest.told("GET", "/applications/web", appNamespace=AGENT)["spec"]
    spec["source"]["targetRevision"] = "other"
    shown = rest.told("GET", f"/projects/{MIRROR}")
    shown["spec"]["orphanedResources"] = {"warn": True}
    for path, body, query in (
        ("/applications/web/spec", spec, {"appNamespace": AGENT, "validate": "false"}),
        (f"/projects/{MIRROR}", {"project": shown}, {}),
    ):
        code, answer = rest.ask("PUT", path, body, **query)
        assert code != http.client.OK, path
        told[path] = answer["message"]
    assert {what: said for what, said in told.items() if REASON not in said} == {}


def test_an_autonomous_agents_application_is_synced_from_the_hub_and_changed_at_its_source(
    autonomous: Fleet,
) -> None:
    hub, workload = autonomous.hub, autonomous.workload
    repository = workload.repository("shop")
    repository.commit({"shop/prices.json": config_map("prices", tea="3")})
    workload.cluster.create_namespace(TARGET)
    made = project(repository.url, destinations=[{"server": HERE, "namespace": TARGET}], roles=[ROLE])
    said = workload.cluster.kubectl("apply", "-n", NAMESPACE, "-f", "-", stdin=json.dumps(made)).stderr
    assert "agent/local-project" not in said
    body = application(repository.url, destination={"server": HERE, "namespace": TARGET})
    workload.cluster.kubectl("apply", "-n", NAMESPACE, "-f", "-", stdin=json.dumps(body))
    until(lambda: autonomous.on_hub("applications", "web"), what="the hub has the mirror")
    until(lambda: autonomous.on_hub("appprojects", MIRROR), what="the hub has the project's")

    until(lambda: status(autonomous, "sync", "status") == "OutOfSync", what="the hub knows its status")
    hub.cli("app", "sync", APPLICATION, "--async")
    until(lambda: autonomous.deployed() == {"tea": "3"}, what="the operation is carried out")
    for price, kind in (("4", "--refresh"), ("5", "--hard-refresh")):
        refresh(
            autonomous, repository.commit({"shop/prices.json": config_map("prices", tea=price)}), kind=kind
        )
        sync(autonomous)
        assert autonomous.deployed() == {"tea": price}
    sync_in_all_ways(autonomous, repository, confirm=lambda: confirm_at_its_source(autonomous))
    terminate(autonomous, repository)
    roll_back(autonomous)
    look_around(autonomous, project=MIRROR)
    close_a_window_at_its_source(autonomous)
    stays_on_the_hub(autonomous, repository)
    before = mirrored(autonomous)
    is_refused(autonomous)
    # argocd-server puts a finalizer on what it is about to delete; the principal takes it away again.
    until(lambda: mirrored(autonomous) == before, what="the mirrors are as before")

    at_rest(autonomous)
    assert mirrored(autonomous) == before


def mirrored(fleet: Fleet) -> list[Any]:
    """What a user can write of both mirrors."""
    found = (fleet.on_hub("applications", "web"), fleet.on_hub("appprojects", MIRROR))
    return [
        [there["spec"], *(there["metadata"].get(key) for key in ("labels", "finalizers"))]
        for there in found
        if there
    ]


# -- afterwards ----------------------------------------------------------------------------------------------


def at_rest(fleet: Fleet) -> None:
    """Each comparison of the controller is one write of its own and at most one of the principal; nothing else."""
    begin = datetime.now(UTC)
    lines = {argo_cd: argo_cd.cluster.audit_count() for argo_cd in (fleet.hub, fleet.workload)}
    wait_compared(fleet, after=begin + timedelta(seconds=REST_SECONDS))
    on_workload = Counter(writes(fleet.workload.cluster, since=lines[fleet.workload]))
    on_hub = Counter(writes(fleet.hub.cluster, since=lines[fleet.hub]))
    rounds = (datetime.now(UTC) - begin).total_seconds() / RESYNC_SECONDS
    compared = on_workload.pop(("argocd-application-controller", "patch"), 0)
    assert on_workload == {}
    assert compared <= 2 * (rounds + 2)
    assert {writer for writer, _ in on_hub} <= {"tiphys-principal"}
    assert on_hub.total() <= compared + UNDER_WAY


def wait_compared(fleet: Fleet, *, after: datetime) -> None:
    deadline, told = time.monotonic() + PATIENCE_SECONDS, ""
    while time.monotonic() < deadline:
        told = status(fleet, "reconciledAt") or ""
        if told and datetime.fromisoformat(told) >= after:
            return
        time.sleep(0.5)
    raise AssertionError(f"the hub heard of a comparison at {told}, not after {after}")
