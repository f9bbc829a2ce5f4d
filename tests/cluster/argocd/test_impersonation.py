"""As whom a real Argo CD syncs: the account that `explain` names, with nothing but what `tiphys rbac` printed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from argocd import names
from cli.commands import explain, rbac
from tests.cluster.argocd.argocd_settings import settings
from tests.cluster.argocd.every_kind import every_kind
from tests.cluster.argocd.steered import HERE, Object, Scene
from tests.webhook.guarded_cluster import until

FORMS: dict[str, list[dict[str, str]]] = {
    "exact": [{"server": HERE, "namespace": "{scene}", "defaultServiceAccount": "deployer"}],
    "patterns": [{"server": "https://*.svc", "namespace": "sc*", "defaultServiceAccount": "deployer"}],
    "another namespace's": [{"server": "*", "namespace": "*", "defaultServiceAccount": "{home}:deployer"}],
    "the first that matches": [
        {"server": "https://other.test", "namespace": "*", "defaultServiceAccount": "others"},
        {"server": HERE, "namespace": "nothing-*", "defaultServiceAccount": "others"},
        {"server": HERE, "namespace": "{scene}*", "defaultServiceAccount": "first"},
        {"server": "*", "namespace": "*", "defaultServiceAccount": "last"},
    ],
    "catch-all": [{"server": "*", "namespace": "*", "defaultServiceAccount": "everywhere"}],
    "alternatives": [{"server": "*", "namespace": "{{a,{scene}}}", "defaultServiceAccount": "deployer"}],
}

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def impersonating(scene: Scene) -> Iterator[Scene]:
    with settings(scene.steered, **{names.IMPERSONATION_ENABLED_KEY: "true"}):
        yield scene


def told(scene: Scene, command: Any, *words: str) -> Any:
    where = ("--kubeconfig", str(scene.steered.cluster.kubeconfig), "--format", "json")
    done = CliRunner().invoke(command, [*words, *where])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def project(scene: Scene, entries: list[dict[str, str]], **spec: Any) -> Object:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": scene.name},
        "spec": {
            "sourceRepos": ["*"],
            "destinations": [{"server": "*", "namespace": "*"}],
            "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
            "destinationServiceAccounts": entries,
            **spec,
        },
    }


def grant(scene: Scene, *words: str) -> None:
    """What `tiphys rbac` prints, and the account; nothing else."""
    roles = told(scene, rbac.command, scene.name, *words)
    for subject in [one for role in roles["items"] for one in role.get("subjects", ())]:
        namespace, name = subject["namespace"], subject["name"]
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        if scene.steered.found(f"{path}/{name}") is None:
            scene.steered.cluster.request("POST", path, {"metadata": {"name": name}})
    scene.steered.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(roles))


def writers(scene: Scene, *, since: int) -> set[str]:
    """Whom the API server saw write to the scene's namespace for the controller."""
    return {
        event["impersonatedUser"]["username"]
        for event in scene.steered.cluster.audited(since=since)
        if "impersonatedUser" in event
        and event["verb"] in {"create", "patch", "update", "delete"}
        and event.get("objectRef", {}).get("resource") == "configmaps"
        and event["objectRef"].get("namespace") == scene.name
    }


@pytest.mark.parametrize("form", FORMS)
def test_the_account_in_the_audit_log_is_the_one_that_explain_names(
    impersonating: Scene, form: str, tmp_path: Path
) -> None:
    scene, steered = impersonating, impersonating.steered
    home = f"{scene.name}-home"
    steered.cluster.create_namespace(home)
    entries = [
        {key: text.format(scene=scene.name, home=home) for key, text in entry.items()}
        for entry in FORMS[form]
    ]
    steered.apply(project(scene, entries))
    manifest = tmp_path / "prices.json"
    manifest.write_text(json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prices"}}))
    grant(scene, "--manifests", str(manifest), "--namespace", scene.name)
    steered.apply(scene.application(project=scene.name))
    expected = told(scene, explain.command, "service-account", scene.name)["user"]
    line = steered.cluster.audit_count()

    steered.cli("app", "sync", scene.name, "--timeout", "50")

    scene.wait_data("prices", {"tea": "3"})
    until(lambda: writers(scene, since=line), what="the audit log has it")
    assert writers(scene, since=line) == {expected}
    steered.cluster.kubectl("delete", "namespace", home, "--wait=false")


def test_without_an_entry_that_matches_argo_cd_says_what_explain_says(impersonating: Scene) -> None:
    scene, steered = impersonating, impersonating.steered
    steered.apply(
        project(scene, [{"server": HERE, "namespace": "nothing-*", "defaultServiceAccount": "others"}])
    )
    steered.apply(scene.application(project=scene.name))
    expected = told(scene, explain.command, "service-account", scene.name)
    line = steered.cluster.audit_count()

    steered.cli("app", "sync", scene.name, "--timeout", "50", check=False)

    until(
        lambda: steered.status(scene.name, "operationState", "phase") in {"Error", "Failed"},
        what="the sync has failed",
    )
    assert expected["error"] in steered.status(scene.name, "operationState", "message")
    assert (scene.data("prices"), writers(scene, since=line)) == (None, set())


def sync(scene: Scene, *options: str) -> list[Object]:
    """What was synced; all of it went well."""
    scene.steered.cli("app", "sync", scene.name, "--timeout", "50", *options, check=False)
    until(
        lambda: scene.steered.status(scene.name, "operationState", "phase") in {"Succeeded", "Failed"},
        what="the end of the operation",
    )
    state = scene.steered.status(scene.name, "operationState")
    resources: list[Object] = state.get("syncResult", {}).get("resources", [])
    failed = [each["message"] for each in resources if each.get("status") not in {"Synced", "Pruned"}]
    assert (failed, state["phase"]) == ([], "Succeeded"), state["message"]
    return resources


@pytest.mark.parametrize("exact", [(), ("--by-name",)], ids=["by kind", "by name"])
def test_every_kind_is_synced_and_pruned_with_what_was_printed(
    impersonating: Scene, exact: tuple[str, ...], tmp_path: Path
) -> None:
    scene, steered = impersonating, impersonating.steered
    entry = {"server": HERE, "namespace": scene.name, "defaultServiceAccount": "deployer"}
    things = every_kind(scene)
    manifests = tmp_path / "rendered.json"
    manifests.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": things}))
    steered.apply(project(scene, [entry]))
    grant(scene, "--manifests", str(manifests), "--namespace", scene.name, *exact)
    scene.repository.commit(
        {
            "shop/prices.json": None,
            **{f"shop/{index}.json": json.dumps(each) for index, each in enumerate(things)},
        }
    )
    steered.apply(scene.application(project=scene.name))

    assert len(sync(scene)) == len(things)

    # Other versions of all, then none: patching and pruning are asked for too.
    for thing in things:
        thing["metadata"]["labels"] = {"version": "2"}
    scene.repository.commit({f"shop/{index}.json": json.dumps(each) for index, each in enumerate(things)})
    steered.cli("app", "get", scene.name, "--refresh")
    sync(scene)
    scene.repository.commit(
        {
            "shop/left.json": json.dumps(things[0]),
            **{f"shop/{index}.json": None for index in range(len(things))},
        }
    )
    steered.cli("app", "get", scene.name, "--refresh")
    sync(scene, "--prune")
    # No controller here lets claims and volumes go that are deleted.
    left = {"ConfigMap", "PersistentVolumeClaim", "PersistentVolume"}
    until(
        lambda: {each["kind"] for each in steered.status(scene.name, "resources")} <= left,
        what="the rest is pruned",
    )


def test_a_destination_without_a_namespace_is_synced_with_what_was_printed(
    impersonating: Scene, tmp_path: Path
) -> None:
    scene, steered = impersonating, impersonating.steered
    things: list[Object] = [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": scene.name},
            "value": 1,
        },
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prices", "namespace": scene.name}},
    ]
    manifests = tmp_path / "rendered.json"
    manifests.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": things}))
    account = f"{scene.name}-deployer"
    steered.apply(project(scene, [{"server": HERE, "namespace": "", "defaultServiceAccount": account}]))
    grant(scene, "--manifests", str(manifests), "--namespace", "")
    scene.repository.commit(
        {f"shop/{index}.json": json.dumps(each) for index, each in enumerate(things)}
        | {"shop/prices.json": None}
    )
    steered.apply(scene.application(project=scene.name, destination={"server": HERE}))
    expected = told(scene, explain.command, "service-account", scene.name)["user"]
    line = steered.cluster.audit_count()

    steered.cli("app", "sync", scene.name, "--timeout", "50")

    until(lambda: writers(scene, since=line), what="the audit log has it")
    assert writers(scene, since=line) == {expected} == {f"{names.SERVICE_ACCOUNT_PREFIX}argocd:{account}"}
