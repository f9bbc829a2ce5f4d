"""The webhook killed in the middle of Argo CD's work: what runs goes on, only changes wait for it."""

import json
from collections.abc import Iterator

import pytest

from tests.cluster.argocd.steered import Scene, config_map
from tests.webhook.guarded_cluster import until

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def deployed(scene: Scene) -> Iterator[Scene]:
    """Synced once; whatever the test does to the webhook, it is back afterwards."""
    steered = scene.steered
    healed = {"automated": {"selfHeal": True}}
    steered.apply(scene.application(syncPolicy=healed))
    steered.wait_synced(scene.name)
    yield scene
    if steered.guard.process is None or steered.guard.process.poll() is not None:
        steered.guard.start()


def test_refresh_sync_status_and_operation_go_on_without_the_webhook(deployed: Scene) -> None:
    scene, steered = deployed, deployed.steered
    steered.guard.kill()
    revision = scene.repository.commit({"shop/prices.json": config_map("prices", tea="4")})

    steered.cli("app", "get", scene.name, "--refresh")
    steered.wait_synced(scene.name, revision=revision)
    scene.wait_data("prices", {"tea": "4"})

    change = json.dumps({"data": {"tea": "9"}})
    steered.cluster.kubectl("patch", "configmap", "prices", "-n", scene.name, "--type=merge", "-p", change)
    scene.wait_data("prices", {"tea": "4"})

    steered.cli("app", "sync", scene.name, "--timeout", "50")
    until(
        lambda: (
            steered.status(scene.name, "operationState", "operation", "initiatedBy", "username") == "admin"
        ),
        what="the sync from the command line is the last one",
    )
    steered.wait_synced(scene.name, revision=revision)

    other = steered.apply(scene.application(f"{scene.name}-b"), check=False)
    assert "argocd.validate.tiphys.dev" in other.stderr, "a new one waits for the webhook"

    steered.guard.start()
    until(
        lambda: steered.apply(scene.application(f"{scene.name}-b"), check=False).returncode == 0,
        what="the webhook is asked again",
    )
