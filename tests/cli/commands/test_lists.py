"""Every list in every form: for people, for programs, for `xargs`; and one that goes on."""

import json
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime
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
from tests.cli.every_command import commands
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


ANSWERS = {
    "agents block": "what was done",
    "agents create": "what was done",
    "agents forget-epoch": "what was done",
    "agents inspect": "one agent",
    "agents remove": "what was done",
    "agents set-mode": "what was done",
    "agents unblock": "what was done",
    "explain rule": "one rule",
    "ha accept-deletions": "what was done",
    "ha demote": "what was done",
    "ha promote": "what was done",
    "ha release": "what was done",
    "ha resume": "what was done",
    "ha switchover": "what was done",
    "installation-id ensure": "what was done",
    "installation-id show": "one id",
    "match": "about the words that were given",
    "pki init": "what was done",
    "pki issue agent": "what was done",
    "pki issue principal": "what was done",
    "pki issue redis-client": "what was done",
    "pki issue redis-proxy": "what was done",
    "pki issue resource-proxy": "what was done",
    "rbac": "manifests to apply",
    "tracking migrate": "what was done",
}
"""Commands with a format that list nothing, and what they tell instead."""

WITHOUT_FORMATS = {
    "agent": "runs until it is told to end",
    "completion": "a script",
    "demo apply": "a line for each object that was written",
    "inject": "the manifests that were given",
    "principal": "runs until it is told to end",
    "review": "AdmissionReviews, one for each that was given",
    "rewrite": "the manifest of a project",
    "webhook register": "a line for each configuration that was written",
    "webhook unregister": "a line for each configuration that is gone",
}
"""Commands that print one thing in one form, and what it is. A command that lists something belongs nowhere here."""


def test_every_list_has_the_forms_that_kubectl_has() -> None:
    offered = {
        words: {
            form
            for option in command.params
            if "-o" in option.opts and isinstance(option.type, click.Choice)
            for form in option.type.choices
        }
        for words, command in commands()
    }
    lists = {words: forms for words, forms in offered.items() if forms and words not in ANSWERS}
    assert {"agents list", "check", "doctor", "pki inspect", "scan", "webhook status"} <= set(lists)
    assert [words for words, forms in lists.items() if not forms.issuperset(FORMS)] == []
    assert set(ANSWERS) <= {words for words, forms in offered.items() if {"text", "json", "yaml"} == forms}
    assert set(WITHOUT_FORMATS) == {words for words, forms in offered.items() if not forms}


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


def test_replicas_of_the_webhook_are_listed_in_every_form(cluster: Cluster, namespace: str) -> None:
    now = datetime.now(UTC).isoformat()
    for name, holder in (("", "one"), ("-replica-one", "one 1.2.3"), ("-replica-two", "two 1.2.4")):
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 3600, "renewTime": now}
        lease = {"metadata": {"name": f"tiphys-webhook{name}"}, "spec": spec}
        cluster.request("POST", f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases", lease)

    def listed(form: str) -> Result:
        place = ("--kubeconfig", str(cluster.kubeconfig), "--namespace", namespace)
        done = run("webhook", *place, "status", "-o", form, command=tiphys)
        assert done.exit_code == 1, done.output  # nobody guards this cluster
        return done

    assert listed("name").stdout == "one\ntwo\n"
    assert "NOT guarded" in listed("name").stderr
    told = json.loads(listed("json").stdout)
    assert yaml.safe_load(listed("yaml").stdout) == told
    assert [each["name"] for each in told["replicas"]] == ["one", "two"]
    head, one, two, guarded, *_ = listed("wide").stdout.splitlines()
    assert head.split() == ["REPLICA", "VERSION", "ALIVE", "LEADER"]
    assert [one.split(), two.split()] == [["one", "1.2.3", "yes", "yes"], ["two", "1.2.4", "yes", "no"]]
    assert guarded.startswith("NOT guarded")
    assert "replica: two 1.2.4" in listed("text").stdout


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
