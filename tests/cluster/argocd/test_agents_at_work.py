"""What a user of the hub's argocd-server can do with an agent's Applications, and that nobody fights afterwards.

The webhook enforces on both clusters; the controller works on the workload cluster alone.
"""

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
from scripts.cluster.binaries import Binaries
from tests.cluster.argocd.agent_fleet import RESYNC_SECONDS, TARGET, Fleet, Object, started_fleet, writes
from tests.cluster.argocd.steered import HERE, config_map
from tests.cluster.installation import AGENT
from tests.webhook.guarded_cluster import until

REST_SECONDS = 30
PATIENCE_SECONDS = 120.0
APPLICATION = f"{AGENT}/web"
PRUNING = {"automated": {"prune": True, "selfHeal": True}}

pytestmark = pytest.mark.timeout(420)


def project(repository: str, **spec: Any) -> Object:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": "web"},
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
            "syncPolicy": PRUNING,
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


def status(fleet: Fleet, *path: str) -> Any:
    """Of the Application on the hub."""
    found: Any = (fleet.on_hub("applications", "web") or {}).get("status")
    for key in path:
        found = (found or {}).get(key)
    return found


def refreshed(fleet: Fleet, revision: str, *, kind: str = "--refresh") -> None:
    """From the hub, as argocd-server asks for it: the answer removes both requests at both ends."""
    fleet.hub.cli("app", "get", APPLICATION, kind)
    until(lambda: status(fleet, "sync", "revision") == revision, what="the hub knows the commit")
    for there in (fleet.on_hub("applications", "web"), fleet.on_workload("applications", "web")):
        assert there
        assert not set(names.REQUESTS) & set(there["metadata"].get("annotations", {}))


def at_rest(fleet: Fleet) -> None:
    """Each comparison of the controller is one write of its own and at most one of the principal; nothing else."""
    begin = datetime.now(UTC)
    lines = {argo_cd: len(argo_cd.cluster.audited()) for argo_cd in (fleet.hub, fleet.workload)}
    wait_compared(fleet, after=begin + timedelta(seconds=REST_SECONDS))
    on_workload = Counter(writes(fleet.workload.cluster, since=lines[fleet.workload]))
    on_hub = Counter(writes(fleet.hub.cluster, since=lines[fleet.hub]))
    compared = on_workload.pop(("argocd-application-controller", "patch"), 0)
    assert on_workload == {}
    assert compared <= 2 * (REST_SECONDS / RESYNC_SECONDS + 2)
    assert {writer for writer, _ in on_hub} <= {"tiphys-principal"}
    assert on_hub.total() <= compared + 1


def wait_compared(fleet: Fleet, *, after: datetime) -> None:
    deadline, told = time.monotonic() + PATIENCE_SECONDS, ""
    while time.monotonic() < deadline:
        told = status(fleet, "reconciledAt") or ""
        if told and datetime.fromisoformat(told) >= after:
            return
        time.sleep(0.5)
    raise AssertionError(f"the hub heard of a comparison at {told}, not after {after}")


def test_a_managed_agents_application_is_worked_with_from_the_hub(managed: Fleet) -> None:
    hub, workload = managed.hub, managed.workload
    repository = hub.repository("shop")
    repository.commit({"shop/prices.json": config_map("prices", tea="3")})
    workload.cluster.create_namespace(TARGET)
    destination = {"name": AGENT, "server": "*", "namespace": TARGET}
    made = project(repository.url, sourceNamespaces=[AGENT], destinations=[destination])
    hub.cluster.kubectl("apply", "-n", NAMESPACE, "-f", "-", stdin=json.dumps(made))
    until(lambda: managed.on_workload("appprojects", "web"), what="the agent has the project")
    body = application(repository.url, destination={"name": AGENT, "namespace": TARGET})
    hub.cluster.kubectl("apply", "-n", AGENT, "-f", "-", stdin=json.dumps(body))
    until(lambda: managed.deployed() == {"tea": "3"}, what="it is deployed")

    refreshed(managed, repository.commit({"shop/prices.json": config_map("prices", tea="4")}))
    until(lambda: managed.deployed() == {"tea": "4"}, what="the commit is deployed")
    refreshed(
        managed,
        repository.commit({"shop/prices.json": config_map("prices", tea="5")}),
        kind="--hard-refresh",
    )
    until(lambda: managed.deployed() == {"tea": "5"}, what="the next commit is deployed")
    hub.cli("app", "set", APPLICATION, "--sync-policy", "none")
    until(
        lambda: (
            "automated"
            not in ((managed.on_workload("applications", "web") or {})["spec"].get("syncPolicy") or {})
        ),
        what="the agent has the change",
    )
    revision = repository.commit({"shop/prices.json": config_map("prices", tea="6")})
    refreshed(managed, revision)
    hub.cli("app", "sync", APPLICATION, "--async")
    until(lambda: managed.deployed() == {"tea": "6"}, what="the operation is carried out")
    until(lambda: status(managed, "operationState", "phase") == "Succeeded", what="the hub knows its end")
    hub.cli("proj", "set", "web", "--description", "from the hub")
    until(
        lambda: (
            (managed.on_workload("appprojects", "web") or {})["spec"].get("description") == "from the hub"
        ),
        what="the agent has the project's change",
    )

    at_rest(managed)

    hub.cli("app", "delete", APPLICATION, "--yes", "--wait=false")
    until(lambda: managed.on_workload("applications", "web") is None, what="it is gone there")
    until(lambda: managed.on_hub("applications", "web") is None, what="it is gone here")
    until(lambda: managed.deployed() is None, what="what it deployed is gone")


def test_an_autonomous_agents_application_is_synced_from_the_hub_and_changed_at_its_source(
    autonomous: Fleet,
) -> None:
    hub, workload = autonomous.hub, autonomous.workload
    repository = workload.repository("shop")
    repository.commit({"shop/prices.json": config_map("prices", tea="3")})
    workload.cluster.create_namespace(TARGET)
    made = project(repository.url, destinations=[{"server": HERE, "namespace": TARGET}])
    said = workload.cluster.kubectl("apply", "-n", NAMESPACE, "-f", "-", stdin=json.dumps(made)).stderr
    assert "agent/local-project" not in said
    body = application(repository.url, destination={"server": HERE, "namespace": TARGET}, syncPolicy={})
    workload.cluster.kubectl("apply", "-n", NAMESPACE, "-f", "-", stdin=json.dumps(body))
    until(lambda: autonomous.on_hub("applications", "web"), what="the hub has the mirror")
    until(lambda: autonomous.on_hub("appprojects", f"{AGENT}-web"), what="the hub has the project's")

    until(lambda: status(autonomous, "sync", "status") == "OutOfSync", what="the hub knows its status")
    hub.cli("app", "sync", APPLICATION, "--async")
    until(lambda: autonomous.deployed() == {"tea": "3"}, what="the operation is carried out")
    refreshed(autonomous, repository.commit({"shop/prices.json": config_map("prices", tea="4")}))
    before = [autonomous.on_hub("applications", "web"), autonomous.on_hub("appprojects", f"{AGENT}-web")]

    for words in (
        ("app", "set", APPLICATION, "--revision", "other"),
        ("app", "delete", APPLICATION, "--yes", "--cascade=false"),
        ("proj", "set", f"{AGENT}-web", "--description", "from the hub"),
        ("proj", "delete", f"{AGENT}-web"),
    ):
        done = hub.cli(*words, check=False)
        assert done.returncode != 0, words
        assert f"this is the mirror of what the autonomous agent {AGENT} has" in done.stderr + done.stdout, (
            words
        )

    at_rest(autonomous)
    after = [autonomous.on_hub("applications", "web"), autonomous.on_hub("appprojects", f"{AGENT}-web")]
    assert [each and each["spec"] for each in after] == [each and each["spec"] for each in before]
