"""What a user of the hub does with a managed agent's Application `web` and its project, which the hub decides about."""

import http.client
import json
from typing import Any

from argocd import names
from scripts.cluster.argocd.repository import Repository
from tests.cluster.argocd.agent_fleet import TARGET, Fleet, Object
from tests.cluster.argocd.rest_api import Rest
from tests.cluster.argocd.steered import HERE, config_map
from tests.cluster.argocd.user_actions import (
    APPLICATION,
    DENIED,
    application,
    can_sync,
    is_refused_by_its_window,
    project,
    status,
    sync,
)
from tests.cluster.installation import AGENT
from tests.webhook.guarded_cluster import until

PRUNING = {"automated": {"prune": True, "selfHeal": True}}
ELSEWHERE = "https://example.test/shop"
CONFIG_MAPS = {"group": "", "kind": "ConfigMap"}
DESTINATION = {"name": AGENT, "server": "*", "namespace": TARGET}


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
    wait_created(fleet)


def create_by_command_line(fleet: Fleet, repository: Repository) -> None:
    """Without a finalizer."""
    fleet.hub.cli(
        *("app", "create", APPLICATION, "--project", "web", "--validate=false"),
        *("--repo", repository.url, "--path", "shop", "--revision", "main"),
        *("--dest-name", AGENT, "--dest-namespace", TARGET),
        *("--sync-policy", "automated", "--auto-prune", "--self-heal"),
    )
    wait_created(fleet)


def wait_created(fleet: Fleet) -> None:
    until(lambda: given(fleet, "applications"), what="the agent has the Application")
    until(lambda: status(fleet, "sync", "status") == "Synced", what="the hub knows that it is deployed")


def edit(fleet: Fleet, repository: Repository) -> None:
    """Its spec by the command line; its sources as a whole, as `argocd app edit` sends it; labels and annotations in the
    UI's summary, which sends the whole object.
    """
    hub, rest = fleet.hub, Rest(fleet.hub)
    hub.cli("app", "set", APPLICATION, "--sync-policy", "none", "--directory-recurse", "--validate=false")
    until(
        lambda: (
            "automated" not in (given(fleet, "applications", "spec", "syncPolicy") or {})
            and given(fleet, "applications", "spec", "source", "directory", "recurse")
        ),
        what="the agent has the change",
    )
    edit_its_sources(fleet, repository)
    for word in ("first", "second", None):
        shown = rest.told("GET", "/applications/web", appNamespace=AGENT)
        for kind in ("labels", "annotations"):
            kept = {key: text for key, text in shown["metadata"].get(kind, {}).items() if key != "shop/note"}
            shown["metadata"][kind] = {**kept, **({"shop/note": word} if word else {})}
        rest.told("PUT", "/applications/web", shown, validate="false")
        wait_noted(fleet, word)


def edit_its_sources(fleet: Fleet, repository: Repository) -> None:
    """Of one it becomes two, and one again."""
    rest = Rest(fleet.hub)
    spec = rest.told("GET", "/applications/web", appNamespace=AGENT)["spec"]
    several = {key: part for key, part in spec.items() if key != "source"} | {"sources": [spec["source"]]}
    told = {"appNamespace": AGENT, "validate": "false"}
    rest.told("PUT", "/applications/web/spec", several, **told)
    second = ("--repo", repository.url, "--path", "more", "--revision", "main")
    fleet.hub.cli("app", "add-source", APPLICATION, *second, "--validate=false")
    until(
        lambda: (
            [each["path"] for each in given(fleet, "applications", "spec", "sources") or ()]
            == ["shop", "more"]
        ),
        what="the agent has both sources",
    )
    rest.told("PUT", "/applications/web/spec", spec, **told)
    until(
        lambda: (
            given(fleet, "applications", "spec", "source") == spec["source"]
            and not given(fleet, "applications", "spec", "sources")
        ),
        what="the agent has one again",
    )


def wait_noted(fleet: Fleet, word: str | None) -> None:
    def notes() -> set[str | None]:
        kinds = ("labels", "annotations")
        return {(given(fleet, "applications", "metadata", kind) or {}).get("shop/note") for kind in kinds}

    until(lambda: notes() == {word}, what=f"the agent has the note {word}")


def edit_its_project(fleet: Fleet, repository: Repository) -> None:
    """A word by the command line; what the UI's page of a project has else, which sends the whole object."""
    hub, rest = fleet.hub, Rest(fleet.hub)
    hub.cli("proj", "set", "web", "--description", "from the hub")
    until(
        lambda: given(fleet, "appprojects", "spec", "description") == "from the hub",
        what="the agent has the project's change",
    )
    before = given(fleet, "appprojects", "spec")
    more: Object = {
        "sourceRepos": [repository.url, ELSEWHERE],
        "clusterResourceWhitelist": [{"group": "", "kind": "Namespace"}],
        "clusterResourceBlacklist": [{"group": "", "kind": "Node"}],
        "namespaceResourceWhitelist": [CONFIG_MAPS],
        "namespaceResourceBlacklist": [{"group": "", "kind": "Secret"}],
        "orphanedResources": {"warn": False, "ignore": [{"kind": "ConfigMap", "name": "guest"}]},
        "destinationServiceAccounts": [
            {"server": HERE, "namespace": TARGET, "defaultServiceAccount": "deployer"}
        ],
    }
    write_project(fleet, {**more, "destinations": [DESTINATION, {**DESTINATION, "namespace": "more"}]})
    until(
        lambda: {key: given(fleet, "appprojects", "spec", key) for key in more} == more,
        what="the agent has all of it",
    )
    places = [each["namespace"] for each in given(fleet, "appprojects", "spec", "destinations")]
    assert places == [TARGET, "more"]
    former = dict.fromkeys(more) | {"sourceRepos": [repository.url], "destinations": [DESTINATION]}
    write_project(fleet, former)
    until(lambda: given(fleet, "appprojects", "spec") == before, what="the agent has it as before")
    code, answer = rest.ask("DELETE", "/projects/web")
    assert code != http.client.OK
    assert "Tiphys refuses" in answer["message"], "an Application uses it"
    spare = project(repository.url, name="spare", sourceNamespaces=[AGENT], destinations=[DESTINATION])
    rest.told("POST", "/projects", {"project": spare})
    until(lambda: fleet.on_workload("appprojects", "spare"), what="the agent has the new project")
    for name in ("spare", "web"):
        move(fleet, name)
    rest.told("DELETE", "/projects/spare")
    until(lambda: fleet.on_workload("appprojects", "spare") is None, what="it is gone there too")


def move(fleet: Fleet, name: str) -> None:
    fleet.hub.cli("app", "set", APPLICATION, "--project", name, "--validate=false")
    until(lambda: given(fleet, "applications", "spec", "project") == name, what=f"it is in {name} there")


def write_project(fleet: Fleet, spec: Object) -> None:
    """As the UI does; None takes a field away."""
    rest = Rest(fleet.hub)
    shown = rest.told("GET", "/projects/web")
    wanted = {key: part for key, part in {**shown["spec"], **spec}.items() if part is not None}
    rest.told("PUT", "/projects/web", {"project": {**shown, "spec": wanted}})


def close_a_window(fleet: Fleet) -> None:
    hub = fleet.hub
    hub.cli("proj", "windows", "add", "web", *DENIED)
    until(lambda: given(fleet, "appprojects", "spec", "syncWindows"), what="the agent has the window")
    is_refused_by_its_window(fleet)
    hub.cli("proj", "windows", "enable-manual-sync", "web", "0")
    until(lambda: can_sync(fleet), what="argocd-server lets people sync in it")
    [window] = given(fleet, "appprojects", "spec", "syncWindows")
    assert (window["kind"], window["duration"]) == ("deny", "1h")
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
    hub.cli("proj", "role", "add-group", "web", "dev", "shopkeepers")
    token = rest.told("POST", "/projects/web/roles/dev/token", {"expiresIn": 3600})["token"]
    robot = Rest(hub, token=token)
    until(lambda: robot("GET", "")[0] == http.client.OK, what="argocd-server knows the role")
    state = sync(fleet, by=robot)
    assert state["operation"]["initiatedBy"]["username"] == "proj:web:dev"
    assert robot("DELETE", "")[0] == http.client.FORBIDDEN
    stored = fleet.on_hub("appprojects", "web") or {}
    assert [each["groups"] for each in stored["spec"]["roles"]] == [["shopkeepers"]]
    [issued] = stored["status"]["jwtTokensByRole"]["dev"]["items"]
    rest.told("DELETE", f"/projects/web/roles/dev/token/{issued['iat']}", id=issued["id"])
    until(lambda: robot("GET", "")[0] == http.client.UNAUTHORIZED, what="the token is revoked")
    hub.cli("proj", "role", "delete", "web", "dev")
    assert given(fleet, "appprojects") == copy


def delete_and_create_again(fleet: Fleet, repository: Repository) -> None:
    """Alone, with all that it deployed, and with what somebody has to confirm."""
    before = fleet.deployed()
    delete(fleet, cascade="false")
    wait_gone(fleet)
    assert fleet.deployed() == before
    create_by_command_line(fleet, repository)
    assert fleet.deployed() == before

    delete(fleet, cascade="true", propagationPolicy="background")
    wait_gone(fleet)
    assert fleet.deployed() is None
    asking = json.loads(config_map("prices", tea="3"))
    asking["metadata"]["annotations"] = {names.SYNC_OPTIONS: "Delete=confirm"}
    repository.commit({"shop/prices.json": json.dumps(asking)})
    create(fleet, repository)

    delete(fleet, cascade="true", propagationPolicy="foreground")
    until(lambda: given(fleet, "applications", "metadata", "deletionTimestamp"), what="it is to go there")
    assert fleet.deployed() == {"tea": "3"}
    fleet.hub.cli("app", "confirm-deletion", APPLICATION)
    wait_gone(fleet)
    assert fleet.deployed() is None
    create(fleet, repository)


def delete(fleet: Fleet, **query: str) -> None:
    Rest(fleet.hub).told("DELETE", "/applications/web", appNamespace=AGENT, **query)


def wait_gone(fleet: Fleet) -> None:
    until(lambda: given(fleet, "applications") is None, what="it is gone there")
    until(lambda: fleet.on_hub("applications", "web") is None, what="it is gone here")
