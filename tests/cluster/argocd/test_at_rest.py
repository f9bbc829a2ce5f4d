"""Where nobody changes anything, Argo CD looks again and again: Tiphys neither writes nor is asked."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from scripts.cluster.argocd.installation import NAMESPACE
from tests.cluster.argocd.steered import Scene, config_map

REST_SECONDS = 45  # four times the interval at which Argo CD compares again
PATIENCE_SECONDS = 120.0
ARGO_CD = f"system:serviceaccount:{NAMESPACE}:argocd-"
AUTOMATED = {"automated": {"prune": True, "selfHeal": True}}

pytestmark = pytest.mark.timeout(300)


def test_at_rest_only_argo_cd_writes_and_the_webhook_is_not_asked(scene: Scene) -> None:
    steered = scene.steered
    names = [scene.name, f"{scene.name}-b"]
    scene.repository.commit({"b/hours.json": config_map("hours", open="9")})
    steered.apply(
        scene.application(syncPolicy=AUTOMATED), scene.application(names[1], path="b", syncPolicy=AUTOMATED)
    )
    for name in names:
        steered.wait_synced(name)
    deployed = [steered.config_map(scene.name, name) for name in ("prices", "hours")]
    begin, line = datetime.now(UTC), steered.cluster.audit_count()

    with steered.unasked():
        for name in names:
            wait_compared(scene, name, after=begin + timedelta(seconds=REST_SECONDS))

    writes = steered.writes(since=line)
    assert {(f"{ARGO_CD}application-controller", "patch", name) for name in names} <= set(writes)
    assert [write for write in writes if not write[0].startswith(ARGO_CD)] == []
    assert [steered.config_map(scene.name, name) for name in ("prices", "hours")] == deployed
    for name in names:
        assert steered.status(name, "sync", "status") == "Synced"
        assert len(steered.status(name, "history")) == 1


def wait_compared(scene: Scene, application: str, *, after: datetime) -> None:
    """Until Argo CD has compared it at that time or later."""
    deadline, told = time.monotonic() + PATIENCE_SECONDS, ""
    while time.monotonic() < deadline:
        told = scene.steered.status(application, "reconciledAt") or ""
        if told and datetime.fromisoformat(told) >= after:
            return
        time.sleep(0.5)
    raise AssertionError(f"{application} was last compared at {told}, not after {after}")
