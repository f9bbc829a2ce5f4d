"""`tiphys pki` and `tiphys agents` on a real API server, from nothing to a removed agent."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cli.commands import agents, pki
from scripts.cluster.controlplane import Cluster
from scripts.cluster.testing import Kubectl
from tests.cli.principal_page import a_principals_page
from tiphys.errors import CallError


class Operator:
    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._place = ["--kubeconfig", str(cluster.kubeconfig), "--principal-namespace", namespace]
        self.screen = ""
        """All that was ever shown."""

    def __call__(self, command: Any, *arguments: str) -> str:
        split = next((at for at, each in enumerate(arguments) if each.startswith("--")), len(arguments))
        whole = [*arguments[:split], *self._place, *arguments[split:]]
        done = CliRunner().invoke(command, whole, catch_exceptions=False, standalone_mode=False)
        self.screen += done.output
        return done.output

    def told(self, command: Any, *arguments: str) -> Any:
        return json.loads(self(command, *arguments, "--format", "json"))


@pytest.fixture
def operator(cluster: Cluster, namespace: str) -> Operator:
    return Operator(cluster, namespace)


def test_an_operator_makes_lists_blocks_and_removes_an_agent(
    operator: Operator, namespace: str, kubectl: Kubectl, tmp_path: Path
) -> None:
    assert "begin with `tiphys pki init`" in operator(pki.command, "inspect")
    authority = operator.told(pki.command, "init")
    assert authority["tokenKeyMade"]
    with pytest.raises(CallError, match="exists already"):
        operator(pki.command, "init")
    served = operator.told(
        pki.command, "issue", "principal", "--dns", "agents.example.org", "--ip", "192.0.2.7"
    )
    assert served["certificate"]["names"][-2:] == ["agents.example.org", "192.0.2.7"]
    made = operator(agents.command, "create", "agent-a", "--label", "env=prod")
    assert made.startswith(f"made agent agent-a: Secret {namespace}/cluster-agent-a, https://")
    issued = operator.told(pki.command, "issue", "agent", "agent-a", "--output", str(tmp_path))
    assert issued["agentKnown"]
    assert (tmp_path / "tls.key").stat().st_mode & 0o777 == 0o600

    page = {
        "version": 1,
        "agents": [
            {
                "name": "agent-a",
                "mode": "managed",
                "connected": True,
                "queue": 3,
                "queue_bytes": 700,
                "lag_seconds": 1.5,
            }
        ],
    }
    with a_principals_page(page) as url:
        assert operator(agents.command, "list", "--principal-url", url) == (
            "NAME     MODE     CONNECTED  LAG    QUEUE  BLOCKED  LAST ERROR\n"
            "agent-a  managed  yes        1.5 s  3      no       none\n"
        )
        (listed,) = operator.told(agents.command, "list", "--principal-url", url)["agents"]
        assert (listed["mode"], listed["queue"], listed["blocked"]) == ("managed", 3, False)
    silent = operator.told(agents.command, "list", "--principal-service", "nobody:8000")
    assert silent["agents"][0]["connected"] is None
    assert "nobody" in silent["principal"]["problem"]

    blocked = operator.told(agents.command, "block", "agent-a")["blocked"]
    assert issued["certificate"]["fingerprint"] in blocked
    there = json.loads(
        kubectl("get", "configmap", "argocd-agent-tls-blocklist", "-n", namespace, "-o", "json").stdout
    )
    assert set(there["data"]) == set(blocked)
    assert "blocked: yes" in operator(
        agents.command, "inspect", "agent-a", "--principal-service", "nobody:8000"
    )
    operator(agents.command, "unblock", "agent-a")
    assert "--yes does it" in operator(agents.command, "remove", "agent-a")
    assert operator.told(agents.command, "remove", "agent-a", "--yes")["removed"]
    assert operator(agents.command, "list") == (
        f"no agents in {namespace}: `tiphys agents create AGENT` makes one\n"
    )

    assert "PRIVATE" not in operator.screen
    for secret in json.loads(kubectl("get", "secrets", "-n", namespace, "-o", "json").stdout)["items"]:
        for key in ("tls.key", "jwt.key"):
            assert secret.get("data", {}).get(key, "nothing") not in operator.screen


def test_a_certificate_goes_where_it_is_told_or_nowhere(operator: Operator) -> None:
    operator(pki.command, "init")
    with pytest.raises(CallError, match="--agent-context CONTEXT or --output FOLDER"):
        operator(pki.command, "issue", "agent", "agent-a")


def test_an_agent_gets_its_certificate_in_its_own_cluster(
    operator: Operator, namespace: str, kubectl: Kubectl, cluster: Cluster
) -> None:
    context = kubectl("config", "current-context").stdout.strip()
    home = cluster.create_namespace()
    operator(pki.command, "init")
    told = operator(
        pki.command, "issue", "agent", "agent-a", "--agent-context", context, "--agent-namespace", home
    )
    assert f"Secret {home}/argocd-agent-client-tls: agent-a\n  valid" in told
    assert "make it with `tiphys agents create agent-a`" in told
    there = json.loads(kubectl("get", "secret", "argocd-agent-ca", "-n", home, "-o", "json").stdout)
    assert set(there["data"]) == {"ca.crt"}
    cluster.drop_namespace(home)


def test_what_cannot_be_a_fingerprint_blocks_nobody(operator: Operator) -> None:
    with pytest.raises(CallError, match="is no SHA-256"):
        operator(agents.command, "block", "agent-a", "--fingerprint", "12:34")
