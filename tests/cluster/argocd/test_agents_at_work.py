"""What a user of the hub's argocd-server can do with an agent's Applications, and that nobody fights afterwards.

The webhook enforces on both clusters; the controller works on the workload cluster alone, and there is no proxy.
"""

import http.client
import json
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from argocd import names
from argocd.agents.vocabulary import Mode
from scripts.cluster.argocd.installation import NAMESPACE
from scripts.cluster.argocd.programs import Programs
from scripts.cluster.argocd.repository import Repository
from scripts.cluster.binaries import Binaries
from tests.cluster.argocd.agent_fleet import RESYNC_SECONDS, TARGET, Fleet, Object, started_fleet, writes
from tests.cluster.argocd.rest_api import Rest
from tests.cluster.argocd.steered import HERE, config_map
from tests.cluster.argocd.user_actions import (
    APPLICATION,
    can_sync,
    is_refused_by_its_window,
    look_around,
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
DENIED = ("--kind", "deny", "--schedule", "* * * * *", "--duration", "1h", "--applications", "*")
PRUNING = {"automated": {"prune": True, "selfHeal": True}}
MIRROR = f"{AGENT}-web"
ROLE = {"name": "dev", "policies": ["p, proj:web:dev, applications, sync, web/*, allow"]}

pytestmark = pytest.mark.timeout(600)


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


def given(fleet: Fleet, plural: str, *path: str) -> Any:
    """What the agent's copy of `web` has there."""
    found: Any = fleet.on_workload(plural, "web")
    for key in path:
        found = (found or {}).get(key)
    return found


def create(fleet: Fleet, repository: Repository) -> None:
    """With the finalizer for which the UI's form has a box."""
    body = application(repository.url, destination={"name": AGENT, "namespace": TARGET}, syncPolicy=PRUNING)
    body["metadata"] |= {"namespace": AGENT, "finalizers": [names.RESOURCES_FINALIZER]}
    Rest(fleet.hub).told("POST", "/applications", body, validate="false")
    until(lambda: given(fleet, "applications"), what="the agent has the Application")
    until(lambda: status(fleet, "sync", "status") == "Synced", what="the hub knows that it is deployed")


def edit(fleet: Fleet) -> None:
    """Its spec by the command line; labels and annotations in the UI's summary, which sends the whole object."""
    hub, rest = fleet.hub, Rest(fleet.hub)
    hub.cli("app", "set", APPLICATION, "--sync-policy", "none", "--directory-recurse", "--validate=false")
    until(
        lambda: (
            "automated" not in (given(fleet, "applications", "spec", "syncPolicy") or {})
            and given(fleet, "applications", "spec", "source", "directory", "recurse")
        ),
        what="the agent has the change",
    )
    for word in ("first", "second", None):
        shown = rest.told("GET", "/applications/web", appNamespace=AGENT)
        for kind in ("labels", "annotations"):
            kept = {key: text for key, text in shown["metadata"].get(kind, {}).items() if key != "shop/note"}
            shown["metadata"][kind] = {**kept, **({"shop/note": word} if word else {})}
        rest.told("PUT", "/applications/web", shown, validate="false")
        wait_noted(fleet, word)


def wait_noted(fleet: Fleet, word: str | None) -> None:
    def notes() -> set[str | None]:
        kinds = ("labels", "annotations")
        return {(given(fleet, "applications", "metadata", kind) or {}).get("shop/note") for kind in kinds}

    until(lambda: notes() == {word}, what=f"the agent has the note {word}")


def edit_its_project(fleet: Fleet, repository: Repository) -> None:
    hub, rest = fleet.hub, Rest(fleet.hub)
    hub.cli("proj", "set", "web", "--description", "from the hub")
    until(
        lambda: given(fleet, "appprojects", "spec", "description") == "from the hub",
        what="the agent has the project's change",
    )
    code, answer = rest.ask("DELETE", "/projects/web")
    assert code != http.client.OK
    assert "Tiphys refuses" in answer["message"], "an Application uses it"
    destination = {"name": AGENT, "server": "*", "namespace": TARGET}
    rest.told(
        "POST",
        "/projects",
        {
            "project": project(
                repository.url, name="spare", sourceNamespaces=[AGENT], destinations=[destination]
            )
        },
    )
    until(lambda: fleet.on_workload("appprojects", "spare"), what="the agent has the new project")
    rest.told("DELETE", "/projects/spare")
    until(lambda: fleet.on_workload("appprojects", "spare") is None, what="it is gone there too")


def close_a_window(fleet: Fleet) -> None:
    hub = fleet.hub
    hub.cli("proj", "windows", "add", "web", *DENIED)
    until(lambda: given(fleet, "appprojects", "spec", "syncWindows"), what="the agent has the window")
    is_refused_by_its_window(fleet)
    hub.cli("proj", "windows", "delete", "web", "0")
    until(lambda: not given(fleet, "appprojects", "spec", "syncWindows"), what="the agent has none")
    until(lambda: can_sync(fleet), what="argocd-server has none")


def work_with_a_token(fleet: Fleet) -> None:
    """Of a role that may look and sync; who may do what on the hub is nothing that agents are told."""
    hub, rest = fleet.hub, Rest(fleet.hub)
    copy = given(fleet, "appprojects")
    hub.cli("proj", "role", "create", "web", "dev")
    for action in ("get", "sync"):
        allowed = ("--action", action, "--permission", "allow", "--object", "*")
        hub.cli("proj", "role", "add-policy", "web", "dev", *allowed)
    token = rest.told("POST", "/projects/web/roles/dev/token", {"expiresIn": 3600})["token"]
    robot = Rest(hub, token=token)
    until(lambda: robot("GET", "")[0] == http.client.OK, what="argocd-server knows the role")
    state = sync(fleet, by=robot)
    assert state["operation"]["initiatedBy"]["username"] == "proj:web:dev"
    assert robot("DELETE", "")[0] == http.client.FORBIDDEN
    stored = fleet.on_hub("appprojects", "web") or {}
    [issued] = stored["status"]["jwtTokensByRole"]["dev"]["items"]
    rest.told("DELETE", f"/projects/web/roles/dev/token/{issued['iat']}", id=issued["id"])
    until(lambda: robot("GET", "")[0] == http.client.UNAUTHORIZED, what="the token is revoked")
    hub.cli("proj", "role", "delete", "web", "dev")
    assert given(fleet, "appprojects") == copy


def delete_and_create_again(fleet: Fleet, repository: Repository) -> None:
    """Alone, then with all that it deployed."""
    rest, before = Rest(fleet.hub), fleet.deployed()
    for query in ({"cascade": "false"}, {"cascade": "true", "propagationPolicy": "background"}):
        rest.told("DELETE", "/applications/web", appNamespace=AGENT, **query)
        until(lambda: given(fleet, "applications") is None, what="it is gone there")
        until(lambda: fleet.on_hub("applications", "web") is None, what="it is gone here")
        assert fleet.deployed() == (before if query["cascade"] == "false" else None)
        create(fleet, repository)


def test_a_managed_agents_application_is_worked_with_from_the_hub(managed: Fleet) -> None:
    hub, workload = managed.hub, managed.workload
    repository = hub.repository("shop")
    repository.commit({"shop/prices.json": config_map("prices", tea="3")})
    workload.cluster.create_namespace(TARGET)
    destination = {"name": AGENT, "server": "*", "namespace": TARGET}
    made = project(repository.url, sourceNamespaces=[AGENT], destinations=[destination])
    Rest(hub).told("POST", "/projects", {"project": made})
    until(lambda: given(managed, "appprojects"), what="the agent has the project")
    create(managed, repository)
    assert managed.deployed() == {"tea": "3"}

    for price, kind in (("4", "--refresh"), ("5", "--hard-refresh")):
        refresh(managed, repository.commit({"shop/prices.json": config_map("prices", tea=price)}), kind=kind)
        wait_deployed(managed, {"tea": price})
    edit(managed)
    sync_in_all_ways(managed, repository)
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
        ("proj", "role", "create-token", MIRROR, "dev"),
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
    reason = f"this is the mirror of what the autonomous agent {AGENT} has"
    assert {what: said for what, said in told.items() if reason not in said} == {}


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
    sync_in_all_ways(autonomous, repository)
    terminate(autonomous, repository)
    roll_back(autonomous)
    look_around(autonomous, project=MIRROR)
    close_a_window_at_its_source(autonomous)
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
    lines = {argo_cd: len(argo_cd.cluster.audited()) for argo_cd in (fleet.hub, fleet.workload)}
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
