"""AppProjects edited through argocd-server: it writes, the webhook judges, the user is told."""

import json
from pathlib import Path

import pytest

from tests.cluster.argocd.steered import HERE, Scene

pytestmark = pytest.mark.timeout(300)


def test_a_project_is_made_changed_and_deleted_by_the_command_line(scene: Scene) -> None:
    steered, name = scene.steered, scene.name
    steered.cli("proj", "create", name, "--src", scene.repository.url, "--dest", f"{HERE},{name}")
    steered.cli("proj", "set", name, "--description", "tea")
    steered.cli("proj", "add-destination", name, HERE, f"{name}-b")
    steered.cli("proj", "allow-cluster-resource", name, "", "Namespace")
    steered.cli("proj", "role", "create", name, "deploy")
    allowed = ("--action", "sync", "--permission", "allow", "--object", "*")
    steered.cli("proj", "role", "add-policy", name, "deploy", *allowed)
    steered.cli("proj", "role", "create-token", name, "deploy", "--expires-in", "1h")
    steered.cli(
        *("proj", "windows", "add", name, "--kind", "allow", "--schedule", "* * * * *"),
        *("--duration", "1h", "--applications", "*"),
    )

    stored = steered.get("appprojects", name)
    assert stored
    assert stored["spec"]["description"] == "tea"
    assert [each["namespace"] for each in stored["spec"]["destinations"]] == [name, f"{name}-b"]
    [role] = stored["spec"]["roles"]
    assert role["policies"] == [f"p, proj:{name}:deploy, applications, sync, {name}/*, allow"]
    assert len(stored["status"]["jwtTokensByRole"]["deploy"]["items"]) == 1

    steered.cli("proj", "delete", name)
    assert steered.get("appprojects", name) is None


def test_what_argocd_server_would_accept_and_the_webhook_refuses_is_told_to_the_user(
    scene: Scene, tmp_path: Path
) -> None:
    file = tmp_path / "project.json"
    project = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {
            "name": scene.name,
            "labels": {"argocd-agent.argoproj-labs.io/ignore-sync": "True"},
        },
        "spec": {
            "sourceRepos": [scene.repository.url],
            "destinations": [{"server": HERE, "namespace": scene.name}],
        },
    }
    file.write_text(json.dumps(project))

    refused = scene.steered.cli("proj", "create", "--file", str(file), check=False)

    assert refused.returncode != 0
    assert "Tiphys refuses this AppProject" in refused.stderr
    assert "ignore-sync/value" in refused.stderr
    assert scene.steered.get("appprojects", scene.name) is None


def test_a_project_that_an_application_uses_stays(scene: Scene) -> None:
    steered, name = scene.steered, scene.name
    steered.cli("proj", "create", name, "--src", scene.repository.url, "--dest", f"{HERE},{name}")
    steered.apply(scene.application(project=name))
    steered.cli("app", "sync", name, "--timeout", "50")
    scene.wait_data("prices", {"tea": "3"})

    by_server = steered.cli("proj", "delete", name, check=False)
    by_kubectl = steered.cluster.kubectl("delete", "appproject", name, "-n", "argocd", check=False)

    assert by_server.returncode != 0
    assert "Tiphys refuses" in by_kubectl.stderr
    assert steered.get("appprojects", name)
