"""Every list in every form: for people, for programs, for `xargs`; and one that goes on."""

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from queue import Empty, Queue

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from argocd import names
from cli.commands import agents, explain, pki
from cli.main import tiphys
from scripts.cluster.controlplane import Cluster
from tests.cli.golden_files import GOLDEN, compare

ROOT = Path(__file__).parents[3]
SECONDS = 60.0
FORMS = ("text", "wide", "json", "yaml", "name")
SECRETS = """\
apiVersion: v1
kind: Secret
metadata:
  name: cluster-{agent}
  namespace: argocd
  labels: {{argocd.argoproj.io/secret-type: cluster, argocd-agent.argoproj-labs.io/agent-name: {agent}}}
---
"""


def run(*words: str, command: click.Command = explain.command) -> Result:
    return CliRunner().invoke(command, words)


@pytest.fixture
def file(tmp_path: Path) -> str:
    objects = (GOLDEN / "explained.yaml").read_text().removeprefix("---\n")
    path = tmp_path / "all.yaml"
    path.write_text("".join(SECRETS.format(agent=agent) for agent in ("prod-1", "prod-91", "edge")) + objects)
    return str(path)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("project", ("project", "web")),
        ("service-account", ("service-account",)),
        ("tracking", ("tracking", "ConfigMap")),
    ],
)
def test_all_of_them_are_explained_at_once(file: str, name: str, words: tuple[str, ...], form: str) -> None:
    done = run(*words, "-A", "-f", file, "-o", form)
    assert done.exit_code == 0, done.output
    compare(f"explain/all-{name}.{form}.txt", done.output)


def test_what_cannot_be_explained_of_one_keeps_nothing_from_the_others(tmp_path: Path) -> None:
    (tmp_path / "applications.yaml").write_text(
        "".join(
            f"---\n{{apiVersion: argoproj.io/v1alpha1, kind: Application, metadata: {{name: {name}, namespace: argocd}},"
            f" spec: {{project: {project}, destination: {{name: in-cluster, namespace: web}}}}}}\n"
            for name, project in (("lost", "gone"), ("shop", "web"))
        )
        + "---\n{apiVersion: argoproj.io/v1alpha1, kind: AppProject, metadata: {name: web, namespace: argocd}, spec: {}}\n"
    )
    done = run("service-account", "-A", "-f", str(tmp_path), "-o", "json")
    lost, shop = json.loads(done.output)["items"]
    assert "there is no project gone" in lost["answer"]
    assert shop["name"] == "argocd/shop"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("project", "web"), "give --agent, or -A for all"),
        (("project", "web", "--agent", "prod", "-A"), "and not both"),
        (("service-account",), "give an Application, or -A for all"),
        (("service-account", "shop", "-o", "name"), "-o name goes with -A"),
        (("tracking", "ConfigMap/settings", "-A", "-n", "shop"), "either --namespace or -A"),
        (("tracking", "ConfigMap/settings", "-o", "wide"), "-o wide goes with -A"),
    ],
)
def test_one_or_all_and_not_both(file: str, words: tuple[str, ...], complaint: str) -> None:
    done = run(*words, "-f", file)
    assert done.exit_code == 2
    assert complaint in done.output


def test_files_without_an_agent_are_told(tmp_path: Path) -> None:
    done = run("project", "web", "-A", "-f", str(GOLDEN / "explained.yaml"))
    assert "no agent is in the files" in str(done.exception)


# On a cluster.


@pytest.fixture
def fleet(cluster: Cluster, namespace: str) -> list[str]:
    """Two agents, and the words that lead to them."""
    place = ["--kubeconfig", str(cluster.kubeconfig), "--principal-namespace", namespace]
    for words in (["pki", "init"], ["agents", "create", "prod"], ["agents", "create", "test"]):
        done = run(*words, *place, command=tiphys)
        assert done.exit_code == 0, done.output
    return place


def test_agents_are_listed_in_every_form(fleet: list[str]) -> None:
    def listed(form: str) -> str:
        return run(
            "list", *fleet, "--principal-service", "nobody:1", "-o", form, command=agents.command
        ).stdout

    assert listed("name") == "prod\ntest\n"
    told = json.loads(listed("json"))
    assert yaml.safe_load(listed("yaml")) == told
    assert [each["name"] for each in told["agents"]] == ["prod", "test"]
    head, first, *_ = listed("wide").splitlines()
    assert head.split()[-5:] == ["ERROR", "SECRET", "SERVER", "CERTIFICATE", "ENDS"]
    assert "cluster-prod" in first
    assert "agentName=prod" in first
    assert "SECRET" not in listed("text")


def test_certificates_are_listed_in_every_form(fleet: list[str], namespace: str) -> None:
    def listed(form: str) -> str:
        return run("inspect", *fleet, "-o", form, command=pki.command).stdout

    assert listed("name") == f"{namespace}/argocd-agent-ca\n"
    assert yaml.safe_load(listed("yaml"))["certificates"][0]["commonNames"] == ["argocd-agent-ca"]
    assert listed("wide").split()[:5] == ["SECRET", "COMMON", "NAME", "STATE", "ENDS"]


def test_a_list_that_goes_on_shows_what_changes(cluster: Cluster, namespace: str, fleet: list[str]) -> None:
    lines: Queue[str] = Queue()
    with subprocess.Popen(
        [sys.executable, "-m", "cli", "agents", "list", "--watch", *fleet, "--principal-service", "nobody:1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    ) as process:
        out = process.stdout
        assert out

        def read() -> None:
            for line in out:
                lines.put(line)

        reader = threading.Thread(target=read)
        reader.start()
        try:
            assert lines.get(timeout=SECONDS).split()[:2] == ["NAME", "MODE"]
            assert [lines.get(timeout=SECONDS).split()[0] for _ in range(2)] == ["prod", "test"]
            made = run("agents", "set-mode", "test", "managed", *fleet, command=tiphys)
            assert made.exit_code == 0, made.output
            assert lines.get(timeout=SECONDS).split()[:2] == ["test", "managed"]
            cluster.request("DELETE", f"/api/v1/namespaces/{namespace}/secrets/cluster-prod")
            path = f"/api/v1/namespaces/{namespace}/secrets/cluster-test"
            held = cluster.request("GET", path)
            held["metadata"]["labels"][names.TIPHYS_MODE] = "autonomous"
            cluster.request("PUT", path, held)
            assert lines.get(timeout=SECONDS).split()[:2] == ["test", "autonomous"]
        finally:
            process.send_signal(signal.SIGINT)
            code = process.wait(SECONDS)
            reader.join(SECONDS)
        assert process.stderr
        errors = process.stderr.read()
    assert code == 130
    assert "prod is no agent any more" in errors
    assert "Traceback" not in errors
    with pytest.raises(Empty):
        lines.get_nowait()
