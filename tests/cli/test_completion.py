"""What a shell offers after Tab."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner

from argocd import names
from argocd.rules.catalogue import CATALOGUE
from cli.main import SUBCOMMANDS, tiphys
from scripts.cluster.controlplane import Cluster

ROOT = Path(__file__).parents[2]


def offered(*words: str) -> list[str]:
    """After these words; the last is what is being typed."""
    *before, incomplete = words
    shell = BashComplete(tiphys, {}, "tiphys", "_TIPHYS_COMPLETE")
    return [item.value for item in shell.get_completions(before, incomplete)]


def test_commands_and_flags_are_offered() -> None:
    assert offered("") == sorted(SUBCOMMANDS)
    assert offered("doc") == ["doctor"]
    assert "--pre" in offered("doctor", "--")
    assert set(offered("agents", "list", "-o", "")) == {"text", "wide", "json", "yaml", "name"}


def test_rules_are_offered() -> None:
    assert offered("explain", "rule", "") == sorted(rule.id for rule in CATALOGUE)[:200]
    assert "settings/tracking-method" in offered("explain", "rule", "settings/")
    assert "settings/tracking-method" in offered("check", "--only", "settings/tr")


def test_contexts_are_offered_from_all_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("hub", "spoke"):
        (tmp_path / name).write_text(f"contexts: [{{name: {name}-admin, context: {{}}}}]")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'hub'}:{tmp_path / 'spoke'}:{tmp_path / 'none'}")
    assert offered("scan", "--context", "") == ["hub-admin", "spoke-admin"]
    assert offered("agents", "list", "--principal-context", "s") == ["spoke-admin"]
    assert offered("scan", "--kubeconfig", str(tmp_path / "hub"), "--context", "") == ["hub-admin"]


def test_a_kubeconfig_that_is_none_offers_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bad").write_text("contexts: [")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "bad"))
    assert offered("scan", "--context", "") == []
    assert offered("agents", "inspect", "") == []


def test_agents_projects_and_applications_are_the_clusters(cluster: Cluster, namespace: str) -> None:
    labels = {names.SECRET_TYPE: names.SECRET_TYPE_CLUSTER, names.AGENT_NAME: "prod-eu"}
    secret = {"metadata": {"name": "cluster-prod-eu", "labels": labels}}
    cluster.request("POST", f"/api/v1/namespaces/{namespace}/secrets", secret)
    kinds = f"/apis/argoproj.io/v1alpha1/namespaces/{namespace}"
    typed = {"apiVersion": names.API_VERSION, "metadata": {"name": "web"}}
    cluster.request("POST", f"{kinds}/appprojects", {**typed, "kind": "AppProject", "spec": {}})
    spec = {"project": "web", "destination": {}}
    cluster.request("POST", f"{kinds}/applications", {**typed, "kind": "Application", "spec": spec})
    place = ("--kubeconfig", str(cluster.kubeconfig))
    hub = (*place, "--principal-namespace", namespace)
    argocd = (*place, "--argocd-namespace", namespace)
    assert offered("agents", "inspect", *hub, "prod") == ["prod-eu"]
    assert offered("agents", "remove", *hub, "other") == []
    assert offered("explain", "project", *argocd, "") == ["web"]
    assert offered("explain", "project", *argocd, "web", "--agent", "") == ["prod-eu"]
    assert f"{namespace}/web" in offered("explain", "service-account", *place, "")


@pytest.fixture
def silent_server() -> Iterator[int]:
    """It takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_cluster_that_does_not_answer_offers_nothing_soon_and_in_silence(
    silent_server: int, tmp_path: Path
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        f"""
current-context: silent
contexts: [{{name: silent, context: {{cluster: silent, user: silent}}}}]
clusters: [{{name: silent, cluster: {{server: "http://127.0.0.1:{silent_server}"}}}}]
users: [{{name: silent, user: {{}}}}]
"""
    )
    done = subprocess.run(
        [sys.executable, "-m", "cli"],
        env={
            "PYTHONPATH": str(ROOT),
            "PATH": "/usr/bin:/bin",
            "KUBECONFIG": str(kubeconfig),
            "_TIPHYS_COMPLETE": "bash_complete",
            "COMP_WORDS": "tiphys agents inspect ",
            "COMP_CWORD": "3",
        },
        capture_output=True,
        text=True,
        timeout=60,  # two seconds, and what a busy machine takes to start a program
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == ("", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_each_shell(shell: str) -> None:
    done = CliRunner().invoke(tiphys, ["completion", shell])
    assert done.exit_code == 0
    assert f"_TIPHYS_COMPLETE={shell}_complete" in done.output


def test_bash_takes_the_script_and_completes(tmp_path: Path) -> None:
    program = tmp_path / "tiphys"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m cli "$@"\n')
    program.chmod(0o755)
    script = (
        "source <(tiphys completion bash); COMP_WORDS=(tiphys doc); COMP_CWORD=1; _tiphys_completion tiphys; "
        'echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-euc", script],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == ("doctor", "")
