"""`tiphys demo --cluster`: the same story on real API servers, with nothing left of them afterwards."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.commands.demo import command
from demo import local_clusters
from scripts.cluster.binaries import Binaries
from tests.cli.commands.test_demo import FAREWELL, FIRST, GOLDEN, MISTAKEN, ROOT, TIPHYS, settled
from tiphys.errors import CallError

CLUSTERS = ("control-plane", "control-plane-2", "prod", "edge")


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a short name: sockets are made in it."""
    return tmp_path_factory.mktemp("demo")


@contextmanager
def demonstration(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*TIPHYS, "demo", "--cluster", *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "TMPDIR": str(folder)},
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def told_until(process: subprocess.Popen[str], text: str) -> str:
    assert process.stdout
    assert process.stderr
    told = ""
    while text not in told:
        line = process.stdout.readline()
        assert line, f"it ended by itself after:\n{told}{process.stderr.read()}"
        told += line
    return told


def steps(told: str) -> list[str]:
    """The story alone: which clusters these are stands before it, how to reach them after it."""
    story = settled(told)
    return story[story.index(FIRST) :].partition("\nThe webhook's status page")[0].splitlines()


def interrupt(process: subprocess.Popen[str]) -> tuple[str, str]:
    """As a terminal does: to the whole foreground group."""
    os.killpg(process.pid, signal.SIGINT)
    return process.communicate(timeout=40)


def left_behind(folder: Path) -> list[str]:
    """Files, and processes that were started with this folder, or one inside, for temporary files."""
    mark = f"TMPDIR={folder}".encode()
    found = [str(path) for path in folder.iterdir()]
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in environment.read_bytes():
                found.append((environment.parent / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue  # it has ended, or is somebody else's
    return found


@pytest.mark.timeout(180)
def test_the_story_is_the_same_and_kubectl_can_look_at_it(cluster_binaries: Binaries, folder: Path) -> None:
    def kubectl(cluster: str, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [cluster_binaries.kubectl, f"--kubeconfig={kubeconfigs[cluster]}", *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={"HOME": "/nonexistent"},
        )

    with demonstration(folder) as process:
        told = told_until(process, "until Ctrl-C")
        assert steps(told) == steps(GOLDEN.read_text().removesuffix(FAREWELL))
        lines = [line.split() for line in told.splitlines()]
        kubeconfigs = {
            words[0]: words[1] for words in lines if words[-1:] and words[-1].endswith(".kubeconfig")
        }
        assert tuple(kubeconfigs) == CLUSTERS

        refused = kubectl("control-plane", "apply", "--namespace", "argocd", "-f", "-", stdin=MISTAKEN)
        assert "[project/source-repo-format]" in refused.stderr
        registered = kubectl("control-plane", "get", "validatingwebhookconfiguration", "tiphys", "-o", "json")
        assert json.loads(registered.stdout)["webhooks"]
        mirrored = kubectl("prod", "get", "appproject", "web", "--namespace", "argocd")
        assert mirrored.returncode == 0
        tried = subprocess.run(
            [*TIPHYS, "demo", "get", "appproject", "--cluster", "edge", "-o", "name"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "TMPDIR": str(folder)},
        )
        assert tried.stdout == "shop\n"

        rest, errors = interrupt(process)
    assert (rest, errors) == (FAREWELL, "")
    assert process.returncode == 0
    assert left_behind(folder) == []


@pytest.mark.timeout(180)
@pytest.mark.parametrize("moment", ["Four clusters", "2. ", "11. "])
def test_ctrl_c_leaves_nothing_behind(cluster_binaries: Binaries, folder: Path, moment: str) -> None:
    with demonstration(folder) as process:
        told_until(process, moment)
        rest, errors = interrupt(process)
    assert errors == ""
    assert rest.endswith(FAREWELL)
    assert process.returncode == 0
    assert left_behind(folder) == []


def test_without_the_workshop_it_says_what_is_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(local_clusters, "CLUSTER_SCRIPT", tmp_path / "none")
    with pytest.raises(CallError, match="from a source checkout"):
        CliRunner().invoke(command, ["--cluster"], catch_exceptions=False)
