"""Everything live from the hub's own argocd-server, with a real argocd-agent on one end: objects, trees, logs, a terminal."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from argocd.agents.vocabulary import Mode
from scripts.argocd_agent import BINARY
from scripts.cluster.argocd.installation import NAMESPACE, ArgoCd
from scripts.cluster.argocd.programs import Programs
from scripts.cluster.binaries import Binaries
from tests.cluster.argocd.agent_fleet import Fleet
from tests.cluster.argocd.go_ends import GO_PORTS, GoEnd
from tests.cluster.argocd.logs_and_terminal import COMPONENTS, POD, logs_and_a_terminal
from tests.cluster.argocd.pods_in_front import PodsInFront, pods_in_front
from tests.cluster.argocd.test_live_objects import (
    create_autonomous,
    create_managed,
    live_fleet,
    seen_from_the_hub,
)

pytestmark = [
    pytest.mark.skipif(not BINARY, reason="ARGOCD_AGENT_BIN names no argocd-agent"),
    pytest.mark.timeout(420),
]


@contextmanager
def fleet_with(
    go: GoEnd, programs: Programs, binaries: Binaries, *, mode: Mode, folder: Path
) -> Iterator[tuple[Fleet, PodsInFront]]:
    """Pods are played in front of the workload cluster's API server."""
    if go is GoEnd.PRINCIPAL:
        for port in GO_PORTS:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    pytest.skip(f"somebody has port {port}, which argocd-agent's principal needs")
    fronts: list[PodsInFront] = []

    def words(workload: ArgoCd, stack: ExitStack) -> tuple[str, ...]:
        account = "default" if go is GoEnd.AGENT else "tiphys-agent"
        if go is GoEnd.AGENT:
            rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
            workload.cluster.grant(rules=rules, account=f"{NAMESPACE}/{account}")
        else:
            for component in ("agent-logs", "agent-terminals"):
                role = COMPONENTS / component / "role.yaml"
                workload.cluster.kubectl("apply", "--server-side", "-f", str(role))
        front, kubeconfig = stack.enter_context(
            pods_in_front(workload.cluster, account=account, namespace=NAMESPACE)
        )
        fronts.append(front)
        switch = () if go is GoEnd.AGENT else ("--enable-exec",)
        return *switch, f"--kubeconfig={kubeconfig}"

    with live_fleet(programs, binaries, mode=mode, folder=folder, agent_words=words, go=go) as fleet:
        yield fleet, fronts[0]


@pytest.mark.parametrize("go", list(GoEnd))
def test_a_managed_application_is_worked_with_live_its_logs_and_terminal_too(
    go: GoEnd, argocd_programs: Programs, cluster_binaries: Binaries, tmp_path: Path
) -> None:
    with fleet_with(go, argocd_programs, cluster_binaries, mode=Mode.MANAGED, folder=tmp_path) as (
        fleet,
        front,
    ):
        create_managed(fleet, pod=json.dumps(POD))
        seen_from_the_hub(fleet, go=go)
        logs_and_a_terminal(fleet, front, folder=tmp_path, project="web")


@pytest.mark.parametrize("go", list(GoEnd))
def test_an_autonomous_application_is_worked_with_live(
    go: GoEnd, argocd_programs: Programs, cluster_binaries: Binaries, tmp_path: Path
) -> None:
    with fleet_with(go, argocd_programs, cluster_binaries, mode=Mode.AUTONOMOUS, folder=tmp_path) as (
        fleet,
        _front,
    ):
        create_autonomous(fleet)
        seen_from_the_hub(fleet, go=go)
