"""ApplicationSets and applications of applications: what controllers write in others' names."""

import json
from datetime import datetime
from typing import Any

import pytest

from scripts.cluster.argocd.installation import NAMESPACE
from tests.cluster.argocd.steered import HERE, Object, Scene, config_map
from tests.webhook.guarded_cluster import until

AUTOMATED = {"automated": {"prune": True, "selfHeal": True}}
FINALIZER = "resources-finalizer.argocd.argoproj.io"
REFRESH = "argocd.argoproj.io/application-set-refresh"

pytestmark = pytest.mark.timeout(300)


def application_set(scene: Scene, *, generator: Object, name: str, path: str, **spec: Any) -> Object:
    """`name` and `path` are templates; all names begin with the scene's."""
    template = {
        "metadata": {"name": f"{scene.name}-{name}", "labels": {"stage": name}},
        "spec": scene.specification(path=path, syncPolicy=AUTOMATED),
    }
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "ApplicationSet",
        "metadata": {"name": scene.name},
        "spec": {
            "goTemplate": True,
            "goTemplateOptions": ["missingkey=error"],
            "generators": [generator],
            "template": template,
            **spec,
        },
    }


def stages(scene: Scene, **files: str) -> None:
    """A folder for each, with one ConfigMap of its name."""
    scene.repository.commit(
        {f"stages/{name}/map.json": config_map(name, value=value) for name, value in files.items()}
    )


def test_a_list_makes_applications_that_sync(scene: Scene) -> None:
    stages(scene, one="1", two="2")
    listed = {"list": {"elements": [{"stage": "one"}, {"stage": "two"}]}}
    scene.steered.apply(application_set(scene, generator=listed, name="{{.stage}}", path="stages/{{.stage}}"))

    scene.wait_data("one", {"value": "1"})
    scene.wait_data("two", {"value": "2"})

    shorter = {"list": {"elements": [{"stage": "one"}]}}
    scene.steered.apply(
        application_set(scene, generator=shorter, name="{{.stage}}", path="stages/{{.stage}}")
    )
    until(
        lambda: scene.steered.get("applications", f"{scene.name}-two") is None,
        what="the application that left the list is gone",
    )


def test_each_cluster_gets_an_application(scene: Scene) -> None:
    scene.steered.apply(
        application_set(scene, generator={"clusters": {}}, name="{{.nameNormalized}}", path="shop")
    )

    scene.wait_data("prices", {"tea": "3"})
    scene.steered.wait_synced(f"{scene.name}-in-cluster")


def test_each_folder_of_git_gets_an_application_and_a_request_refreshes_it(scene: Scene) -> None:
    steered = scene.steered
    stages(scene, one="1")
    folders = {
        "git": {
            "repoURL": scene.repository.url,
            "revision": "main",
            "directories": [{"path": "stages/*"}],
            "requeueAfterSeconds": 3600,
        }
    }
    steered.apply(application_set(scene, generator=folders, name="{{.path.basename}}", path="{{.path.path}}"))
    scene.wait_data("one", {"value": "1"})
    steered.wait_synced(f"{scene.name}-one")
    stages(scene, two="2")

    request_refresh(scene)
    scene.wait_data("two", {"value": "2"})
    steered.wait_synced(f"{scene.name}-two")

    # The first one is a change: with it the controller writes an empty template into the generator.
    with steered.unasked():
        request_refresh(scene)


def request_refresh(scene: Scene) -> None:
    """Returns when the controller has taken the request away."""
    kubectl, steered = scene.steered.cluster.kubectl, scene.steered
    kubectl("annotate", "applicationset", scene.name, "-n", NAMESPACE, f"{REFRESH}=true")

    def annotations() -> dict[str, str]:
        found: Object = steered.get("applicationsets", scene.name) or {}
        return found["metadata"].get("annotations") or {}

    until(lambda: REFRESH not in annotations(), what="the request is taken away")


def test_a_rolling_sync_goes_step_by_step(scene: Scene) -> None:
    stages(scene, one="1", two="2")
    listed = {"list": {"elements": [{"stage": "one"}, {"stage": "two"}]}}
    steps = [
        {"matchExpressions": [{"key": "stage", "operator": "In", "values": [name]}]}
        for name in ("one", "two")
    ]
    scene.steered.apply(
        application_set(
            scene,
            generator=listed,
            name="{{.stage}}",
            path="stages/{{.stage}}",
            strategy={"type": "RollingSync", "rollingSync": {"steps": steps}},
        )
    )

    scene.wait_data("one", {"value": "1"})
    scene.wait_data("two", {"value": "2"})

    def told() -> set[tuple[str, str, str]]:
        status = (scene.steered.get("applicationsets", scene.name) or {}).get("status", {})
        return {
            (each["application"], each["step"], each["status"])
            for each in status.get("applicationStatus", [])
        }

    until(
        lambda: told() == {(f"{scene.name}-one", "1", "Healthy"), (f"{scene.name}-two", "2", "Healthy")},
        what="both steps are healthy",
    )
    finished = scene.steered.status(f"{scene.name}-one", "operationState", "finishedAt")
    started = scene.steered.status(f"{scene.name}-two", "operationState", "startedAt")
    assert datetime.fromisoformat(finished) <= datetime.fromisoformat(started)


def test_an_application_of_applications_syncs_its_children(scene: Scene) -> None:
    steered, child = scene.steered, f"{scene.name}-child"
    scene.repository.commit({"children/child.json": json.dumps(child_of(scene, child))})
    steered.apply(parent_of(scene))

    scene.wait_data("prices", {"tea": "3"})
    steered.wait_synced(child)
    steered.wait_synced(scene.name)

    steered.cli("app", "delete", scene.name, "--yes")
    until(lambda: steered.get("applications", child) is None, what="the child is gone with its parent")


def test_a_child_that_breaks_a_rule_is_refused_and_its_parent_says_why(scene: Scene) -> None:
    steered, child = scene.steered, f"{scene.name}-child"
    bad = child_of(scene, child)
    bad["spec"]["destination"] = {"server": HERE, "name": "in-cluster", "namespace": scene.name}
    scene.repository.commit({"children/child.json": json.dumps(bad)})
    steered.apply(parent_of(scene))

    until(
        lambda: steered.status(scene.name, "operationState", "syncResult", "resources"),
        what="the parent has tried",
    )
    [tried] = steered.status(scene.name, "operationState", "syncResult", "resources")
    assert tried["status"] == "SyncFailed"
    assert "Tiphys refuses this Application" in tried["message"]
    assert "can't have both name and server" in tried["message"]
    assert steered.get("applications", child) is None


def child_of(scene: Scene, name: str) -> Object:
    child = scene.application(name, syncPolicy=AUTOMATED)
    child["metadata"]["finalizers"] = [FINALIZER]
    return child


def parent_of(scene: Scene) -> Object:
    return scene.application(
        path="children", syncPolicy=AUTOMATED, destination={"server": HERE, "namespace": NAMESPACE}
    )
