"""What to look at when a project does not appear: each question of a troubleshooting list, and who answers it."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from argocd import names
from argocd.agents.copies import AGENT_ERROR
from checks.reports import WIDTH
from cli.commands import explain, match
from scripts.cluster.controlplane import Cluster
from scripts.cluster.testing import Kubectl
from tests.cli.golden_files import compare
from tests.cli.principal_page import a_principals_page
from tiphys.errors import CallError

FINGERPRINT = "AB" * 32
UP_TO_DATE = {"mode": "managed", "connected": True, "queue": 0, "queue_bytes": 0, "lag_seconds": 0.0}
EVERYWHERE = {"destinations": [{"name": "*", "namespace": "*"}], "sourceNamespaces": ["*"]}


def project(name: str = "web", *, label: str = "", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": name, "labels": {names.IGNORE_SYNC: label} if label else {}},
        "spec": spec or EVERYWHERE,
    }


def secret_of(agent: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": f"cluster-{agent}",
            "labels": {names.SECRET_TYPE: names.SECRET_TYPE_CLUSTER, names.AGENT_NAME: agent},
            "annotations": {names.TIPHYS_CERTIFICATES: FINGERPRINT},
        },
        "stringData": {"name": agent, "server": f"https://proxy:9090?agentName={agent}"},
    }


BLOCKLIST = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": names.TLS_BLOCKLIST},
    "data": {FINGERPRINT: ""},
}


@dataclass(frozen=True)
class Trouble:
    """One question of the list, a world where it is the cause, and the line that says so."""

    question: str
    line: str
    objects: list[dict[str, Any]]
    agent: str = "prod-1"
    options: tuple[str, ...] = ()
    told: dict[str, Any] | None = field(default_factory=lambda: UP_TO_DATE)
    """What the principal's page says of the agent; None: it has not seen it."""


def known(*objects: dict[str, Any]) -> list[dict[str, Any]]:
    return [secret_of("prod-1"), *objects]


ON_AGENT = [
    Trouble(
        "is the agent managed?",
        "The project web does not go to agent prod-1: the agent is autonomous.",
        known(project()),
        options=("--to", "agent"),
        told={**UP_TO_DATE, "mode": "autonomous"},
    ),
    Trouble(
        "does its name match spec.destinations?",
        "The project web does not go to agent prod-1: no entry of spec.destinations matches it.",
        known(project(destinations=[{"name": "test-*", "namespace": "*"}], sourceNamespaces=["*"])),
    ),
    Trouble(
        "does it match spec.sourceNamespaces, where agents are mapped by namespace?",
        "agents mapped by namespace: it does not go, no entry of spec.sourceNamespaces matches it",
        known(project(destinations=[{"name": "*", "namespace": "*"}], sourceNamespaces=["test-*"])),
    ),
    Trouble(
        "does the label keep it back?",
        f"The project web does not go to agent prod-1: it has the label {names.IGNORE_SYNC}.",
        known(project(label="true")),
    ),
    Trouble(
        "is the agent registered with this principal?",
        "The project web goes to agent prod-1, but the agent prod-1 is not registered here.",
        [project()],
    ),
    Trouble(
        "is the agent let in?",
        "The project web goes to agent prod-1, but its certificate is blocked.",
        known(project(), BLOCKLIST),
    ),
    Trouble(
        "is the agent connected to the principal?",
        "The project web goes to agent prod-1, but it is not connected.",
        known(project()),
        told={**UP_TO_DATE, "connected": False},
    ),
    Trouble(
        "has it ever been connected?",
        "the principal has not seen it since it started: the agent's log tells why it does not get there",
        known(project()),
        told=None,
    ),
    Trouble(
        "does the agent take in what it is sent, or are there errors in its log?",
        "The project web goes to agent prod-1, but 3 events wait for it, the oldest for 600 s.",
        known(project()),
        told={**UP_TO_DATE, "queue": 3, "lag_seconds": 600.0},
    ),
    Trouble(
        "is everything as it should be?",
        "The project web goes to agent prod-1.",
        known(project()),
    ),
]

ON_PRINCIPAL = [
    Trouble(
        "is the agent autonomous?",
        "The project web of agent prod-1 is not on the principal as prod-1-web: the agent is managed, and only an "
        "autonomous agent tells the principal of its projects.",
        known(project()),
        options=("--to", "principal"),
    ),
    Trouble(
        "was it created on the agent's cluster?",
        "The project web of agent prod-1 is not on the principal as prod-1-web: the agent has not told of it.",
        known(),
        told={**UP_TO_DATE, "mode": "autonomous"},
    ),
    Trouble(
        "how is the agent's cluster asked about it?",
        "tiphys explain project web --agent prod-1 --mode autonomous --context CONTEXT",
        known(),
        told={**UP_TO_DATE, "mode": "autonomous"},
    ),
    Trouble(
        "does it have the agent's name before its own there?",
        "The project web of agent prod-1 is on the principal: there it is called prod-1-web.",
        known(project("prod-1-web")),
        told={**UP_TO_DATE, "mode": "autonomous"},
    ),
    Trouble(
        "can the agent reach the principal?",
        "The project web of agent prod-1 is not on the principal as prod-1-web: it is not connected.",
        known(project()),  # a project of the principal's own is not the agent's
        options=("--mode", "autonomous"),
        told={**UP_TO_DATE, "mode": "autonomous", "connected": False},
    ),
    Trouble(
        "does the label keep it on the agent's cluster?",
        f"The project web of agent prod-1 does not go to the principal: it has the label {names.IGNORE_SYNC}.",
        [project(label="true")],
        options=("--mode", "autonomous"),
    ),
]

ON_PATTERNS = [
    Trouble(
        "is it the case of a pattern?",
        "differs from prod-1 in upper and lower case alone, and that counts",
        known(project(destinations=[{"name": "Prod-*", "namespace": "*"}])),
    ),
    Trouble(
        "is it the case of the agent's name?",
        "but the agent prod-1 is registered, and upper and lower case count",
        known(project()),
        agent="Prod-1",
    ),
    Trouble(
        "is the wildcard written as it must be?",
        "unexpected end of input",
        known(project(destinations=[{"name": "prod-[1", "namespace": "*"}])),
    ),
]


@pytest.fixture
def asked(cluster: Cluster, kubectl: Kubectl, namespace: str) -> Iterator[Any]:
    with ExitStack() as stack:

        def ask(trouble: Trouble, *more: str, kubeconfig: Path = cluster.kubeconfig) -> Result:
            listed = {"apiVersion": "v1", "kind": "List", "items": trouble.objects}
            if trouble.objects:
                kubectl("apply", "--server-side", "-n", namespace, "-f", "-", stdin=json.dumps(listed))
            agents = [{"name": trouble.agent, **trouble.told}] if trouble.told else []
            url = stack.enter_context(a_principals_page({"version": 1, "agents": agents}))
            command = explain.command.commands["project"]
            where = ("--kubeconfig", str(kubeconfig), "--argocd-namespace", namespace)
            options = (*trouble.options, *where, "--principal-url", url, *more)
            done = CliRunner().invoke(command, ["web", "--agent", trouble.agent, *options])
            if done.exception and not isinstance(done.exception, SystemExit):
                raise done.exception
            return done

        yield ask


@pytest.mark.parametrize(
    "trouble", [*ON_AGENT, *ON_PRINCIPAL, *ON_PATTERNS], ids=lambda trouble: trouble.question
)
def test_a_cluster_tells_the_cause(trouble: Trouble, asked: Any) -> None:
    text = asked(trouble).stdout
    assert trouble.line in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= WIDTH


def test_what_is_known_of_an_agent_reads_well(asked: Any, namespace: str) -> None:
    trouble = Trouble(
        "", "", known(project(), BLOCKLIST), told={**UP_TO_DATE, "queue": 1, "lag_seconds": 2.0}
    )
    compare("explain/project-live.txt", asked(trouble).stdout.replace(namespace, "argocd"))


def test_a_program_reads_the_same(asked: Any) -> None:
    trouble = Trouble("", "", known(project()), told={**UP_TO_DATE, "queue": 1, "lag_seconds": 2.0})
    assert json.loads(asked(trouble, "--format", "json").stdout)["connection"] == {
        "registered": True,
        "secret": "cluster-prod-1",
        "blocked": False,
        "mode": "managed",
        "connected": True,
        "queue": 1,
        "lagSeconds": 2.0,
        "lastError": None,
        "problem": "",
    }


def test_the_last_error_of_an_agents_applications_is_told(
    asked: Any, cluster: Cluster, kubectl: Kubectl
) -> None:
    agent = cluster.create_namespace()
    try:
        application = {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Application",
            "metadata": {"name": "shop", "namespace": agent},
            "spec": {"project": "web", "destination": {"name": agent}},
            "status": {"conditions": [{"type": AGENT_ERROR, "message": "the disk is full"}]},
        }
        kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(application))
        text = asked(Trouble("", "", [secret_of(agent), project()], agent=agent)).stdout
        assert f"its last error is that of Application {agent}/shop the disk is full" in " ".join(
            text.split()
        )
    finally:
        cluster.drop_namespace(agent)


def test_a_principal_that_does_not_answer_is_no_cause_but_told(asked: Any) -> None:
    trouble = Trouble("", "", known(project()))
    found = json.loads(asked(trouble, "--principal-url", "http://127.0.0.1:9", "--format", "json").stdout)
    assert (found["good"], found["connection"]["connected"]) == (True, None)
    text = asked(trouble, "--principal-url", "http://127.0.0.1:9").stdout
    assert "whether it is connected is not known: the principal did not answer" in text


def test_who_may_not_see_secrets_is_told_of_the_route_all_the_same(
    asked: Any, cluster: Cluster, kubectl: Kubectl, namespace: str
) -> None:
    named = ("-n", namespace, "projects")
    kubectl("create", "role", *named, "--verb=get,list", "--resource=appprojects.argoproj.io,configmaps")
    kubectl("create", "rolebinding", *named, "--role=projects", "--user=reader")
    done = asked(Trouble("", "", known(project())), kubeconfig=cluster.kubeconfig_of("reader"))
    assert done.stdout.startswith("The project web goes to agent prod-1.\n")
    assert "whether it is registered cannot be seen" in done.stdout
    assert "secrets" in done.stderr


def test_a_project_that_is_on_neither_side_is_one_line(asked: Any) -> None:
    with pytest.raises(
        CallError, match="there is no project web in the cluster; the principal calls an agent"
    ):
        asked(Trouble("", "", [], options=("--mode", "autonomous")))


@pytest.mark.parametrize(
    ("pattern", "text", "line"),
    [
        ("Prod-*", "prod-1", "differs in upper and lower case alone, and that counts"),
        ("prod-[1", "prod-1", "does not compile: unexpected end of input"),
        ("prod-?", "prod-10", "prod-?: does not match"),
        ("prod-*", "prod-1", "prod-1: permitted"),
    ],
)
def test_a_pattern_can_be_tried_by_itself(pattern: str, text: str, line: str) -> None:
    assert line in CliRunner().invoke(match.command, [pattern, "--text", text]).stdout
