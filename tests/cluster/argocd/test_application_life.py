"""The life of an Application under the enforcing webhook: only its birth and its changes are asked about."""

import json

import pytest

from argocd import names
from scripts.cluster.argocd.installation import NAMESPACE
from tests.cluster.argocd.steered import Scene, config_map
from tests.webhook.guarded_cluster import until

FINALIZER = "resources-finalizer.argocd.argoproj.io"
HOOK = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "never-ends", "annotations": {"argocd.argoproj.io/hook": "PreSync"}},
    "spec": {
        "template": {
            "spec": {"restartPolicy": "Never", "containers": [{"name": "wait", "image": "example.test/wait"}]}
        }
    },
}
"""Nothing runs pods here, so it stays as it is."""

pytestmark = pytest.mark.timeout(300)


def test_it_is_created_and_synced_and_only_its_creation_is_judged(scene: Scene) -> None:
    steered = scene.steered
    before = steered.reviews()
    steered.apply(scene.application())
    asked = {key for key, count in steered.reviews().items() if count != before.get(key)}
    assert {key.split()[1] for key in asked} == {"Application"}, asked

    with steered.unasked():
        steered.cli("app", "sync", scene.name, "--timeout", "50")
        steered.wait_synced(scene.name)

    assert scene.data("prices") == {"tea": "3"}


def test_what_somebody_changes_is_healed(scene: Scene) -> None:
    scene.steered.apply(scene.application(syncPolicy={"automated": {"selfHeal": True}}))
    scene.wait_data("prices", {"tea": "3"})

    with scene.steered.unasked():
        change = json.dumps({"data": {"tea": "9"}})
        scene.steered.cluster.kubectl(
            "patch", "configmap", "prices", "-n", scene.name, "--type=merge", "-p", change
        )
        scene.wait_data("prices", {"tea": "3"})


@pytest.mark.parametrize("kind", ["--refresh", "--hard-refresh"])
def test_a_refresh_from_the_command_line_finds_the_new_commit(scene: Scene, kind: str) -> None:
    steered = scene.steered
    steered.apply(scene.application())
    steered.cli("app", "sync", scene.name, "--timeout", "50")
    steered.wait_synced(scene.name)
    revision = scene.repository.commit({"shop/prices.json": config_map("prices", tea="4")})

    with steered.unasked():
        steered.cli("app", "get", scene.name, kind)
        until(
            lambda: steered.status(scene.name, "sync", "revision") == revision,
            what="the new commit is seen",
        )
        # A comparison of the controller's own may have found it before the controller came to the request.
        until(lambda: not requests(scene), what="both requests are gone")

    assert steered.status(scene.name, "sync", "status") == "OutOfSync"


def requests(scene: Scene) -> set[str]:
    found = scene.steered.get("applications", scene.name) or {}
    return set(names.REQUESTS) & set(found["metadata"].get("annotations", {}))


def test_what_leaves_git_is_pruned(scene: Scene) -> None:
    steered = scene.steered
    scene.repository.commit({"shop/hours.json": config_map("hours", open="9")})
    steered.apply(scene.application())
    steered.cli("app", "sync", scene.name, "--timeout", "50")
    scene.wait_data("hours", {"open": "9"})
    scene.repository.commit({"shop/hours.json": None})

    with steered.unasked():
        steered.cli("app", "get", scene.name, "--refresh")
        steered.cli("app", "sync", scene.name, "--prune", "--timeout", "50")
        scene.wait_data("hours", None)

    assert scene.data("prices") == {"tea": "3"}


def test_it_is_rolled_back(scene: Scene) -> None:
    steered = scene.steered
    steered.apply(scene.application())
    steered.cli("app", "sync", scene.name, "--timeout", "50")
    steered.wait_synced(scene.name)
    revision = scene.repository.commit({"shop/prices.json": config_map("prices", tea="4")})
    steered.cli("app", "get", scene.name, "--refresh")
    steered.cli("app", "sync", scene.name, "--timeout", "50")
    steered.wait_synced(scene.name, revision=revision)
    scene.wait_data("prices", {"tea": "4"})

    with steered.unasked():
        first = steered.status(scene.name, "history")[0]["id"]
        steered.cli("app", "rollback", scene.name, str(first), "--timeout", "50")
        scene.wait_data("prices", {"tea": "3"})


def test_an_operation_that_does_not_end_is_terminated(scene: Scene) -> None:
    steered = scene.steered
    scene.repository.commit({"shop/hook.json": json.dumps(HOOK)})
    steered.apply(scene.application())
    with steered.unasked():
        steered.cli("app", "sync", scene.name, "--async")
        until(
            lambda: steered.found(f"/apis/batch/v1/namespaces/{scene.name}/jobs/never-ends"),
            what="the hook is there",
        )
        assert steered.status(scene.name, "operationState", "phase") == "Running"

        steered.cli("app", "terminate-op", scene.name)
        until(
            lambda: steered.status(scene.name, "operationState", "phase") == "Failed",
            what="the operation has ended",
        )

    assert "terminated" in steered.status(scene.name, "operationState", "message")
    assert scene.data("prices") is None


def test_it_is_deleted_with_all_that_it_deployed(scene: Scene) -> None:
    steered = scene.steered
    steered.apply(scene.application())
    steered.cli("app", "sync", scene.name, "--timeout", "50")
    scene.wait_data("prices", {"tea": "3"})

    steered.cli("app", "delete", scene.name, "--yes")

    until(lambda: steered.get("applications", scene.name) is None, what="the application is gone")
    assert scene.data("prices") is None


def test_it_is_deleted_alone_and_what_it_deployed_stays(scene: Scene) -> None:
    steered = scene.steered
    steered.apply(scene.application())
    steered.cli("app", "sync", scene.name, "--timeout", "50")
    scene.wait_data("prices", {"tea": "3"})

    steered.cli("app", "delete", scene.name, "--cascade=false", "--yes")

    until(lambda: steered.get("applications", scene.name) is None, what="the application is gone")
    assert scene.data("prices") == {"tea": "3"}


def test_by_kubectl_it_is_deleted_with_all_that_it_deployed(scene: Scene) -> None:
    steered = scene.steered
    application = scene.application(syncPolicy={"automated": {}})
    application["metadata"]["finalizers"] = [FINALIZER]
    steered.apply(application)
    scene.wait_data("prices", {"tea": "3"})

    steered.cluster.kubectl("delete", "application", scene.name, "-n", NAMESPACE, "--timeout=60s")

    assert steered.get("applications", scene.name) is None
    assert scene.data("prices") is None
