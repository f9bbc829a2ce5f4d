import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from cli.commands.demo import command
from tests.command_here import Done, tiphys_here
from tiphys.errors import CallError

ROOT = Path(__file__).parents[3]
GOLDEN = Path(__file__).parents[1] / "demo.txt"
TIPHYS = [sys.executable, "-m", "cli"]
FIRST = "\n1. "
"""What comes before it differs: which clusters these are."""
FAREWELL = "The demonstration has ended; it leaves nothing behind.\n"
MISTAKEN = """\
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: mine}
spec: {sourceRepos: ["!*"]}
"""


@contextmanager
def demonstration(folder: Path, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """With a folder of its own for what it must not leave behind."""
    process = subprocess.Popen(
        [*TIPHYS, "demo", *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "TMPDIR": str(folder)},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def settled(story: str) -> str:
    """How much was written differs from one demonstration to the next."""
    return re.sub(r"(?<=sequence )\d+", "N", story)


def until(process: "subprocess.Popen[str]", text: str) -> str:
    assert process.stdout
    while text not in (line := process.stdout.readline()):
        assert line, f"it ended by itself: {process.stderr and process.stderr.read()}"
    return line


def test_the_demonstration_tells_its_story_within_a_minute() -> None:
    done = subprocess.run(
        [*TIPHYS, "demo", "--once"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )

    assert done.stderr == ""
    if os.environ.get("TIPHYS_GOLDEN") == "write":
        GOLDEN.write_text(settled(done.stdout))
    assert settled(done.stdout) == GOLDEN.read_text()
    assert done.returncode == 0


def test_the_page_that_walks_through_the_failover_shows_what_is_told() -> None:
    page = settled((ROOT / "docs" / "failover-demonstration.md").read_text())
    shown = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    story = GOLDEN.read_text()
    assert [part for part in shown if part not in story] == []
    assert len(shown) == 4


@pytest.mark.parametrize("moment", ["Four clusters", "1. ", "5. ", "11. ", "until Ctrl-C"])
def test_ctrl_c_ends_it_cleanly_at_any_point(tmp_path: Path, moment: str) -> None:
    with demonstration(tmp_path) as process:
        until(process, moment)
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    assert rest.endswith(FAREWELL)
    assert errors == ""
    assert list(tmp_path.iterdir()) == []


LOADED = """\
import importlib, os, signal, sys
loading = importlib.import_module
def interrupted(name, package=None):
    if name == "cli.commands.demo":
        os.kill(os.getpid(), signal.SIGINT)
    return loading(name, package)
importlib.import_module = interrupted
sys.argv = ["tiphys", "demo"]
import cli.main
cli.main.main()
"""


def test_ctrl_c_while_it_is_being_loaded_ends_it_without_a_word() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_ctrl_c_just_before_the_first_line_ends_it_as_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tiphys.logs.configure", interrupted)
    done = CliRunner().invoke(command, [])
    assert (done.exit_code, done.output) == (0, FAREWELL)


def test_make_run_is_the_same(tmp_path: Path) -> None:
    """As a terminal does it: Ctrl-C goes to make and to all that it started."""
    process = subprocess.Popen(
        ["make", "--no-print-directory", "run", "ARGS="],  # `make test ARGS=…` would hand its own on
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "TMPDIR": str(tmp_path)},
        start_new_session=True,
    )
    try:
        until(process, "1. ")
        os.killpg(process.pid, signal.SIGINT)
        rest, errors = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert rest.endswith(FAREWELL)
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


def test_while_it_is_up_others_can_try_things_and_look_at_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def tiphys(*words: str, stdin: str = "") -> Done:
        return tiphys_here("demo", *words, stdin=stdin)

    def shell(line: str) -> subprocess.CompletedProcess[str]:
        """Just as it is printed."""
        return subprocess.run(
            ["bash", "-c", line],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )

    nobody = tiphys("get", "appproject")
    assert nobody.returncode == 2
    assert "no demonstration answers" in nobody.stderr
    with demonstration(tmp_path) as process:
        page = until(process, "status page").split()[-1]
        until(process, "In another terminal")
        assert process.stdout
        tried = [shell(process.stdout.readline()) for _ in range(4)]
        assert [done.returncode for done in tried] == [0, 1, 0, 0]
        assert "in-cluster" in tried[0].stdout
        assert "[project/source-repo-format]" in tried[1].stdout
        assert "active" in tried[2].stdout.splitlines()[0]
        assert "replicating" in tried[3].stdout.splitlines()[0]
        until(process, "until Ctrl-C")
        refused = tiphys("apply", "-f", "-", stdin=MISTAKEN)
        assert refused.returncode == 1
        assert "[project/source-repo-format]" in refused.stdout
        assert tiphys("apply", "-f", "-", stdin=MISTAKEN.replace("!*", "*")).returncode == 0
        assert tiphys("get", "appproject", "-o", "name").stdout == "edge-shop\nmine\nweb\n"
        head, *rows = tiphys("get", "appproject").stdout.splitlines()
        assert head.split() == ["NAME", "CREATED"]
        assert [row.split()[0] for row in rows] == ["edge-shop", "mine", "web"]
        wide = tiphys("get", "appproject", "-o", "wide").stdout.splitlines()
        assert wide[0].split() == ["NAME", "CREATED", "NAMESPACE", "UID"]
        assert wide[1].split()[2] == "argocd"
        listed = json.loads(tiphys("get", "appproject", "-o", "json").stdout)
        assert [each["metadata"]["name"] for each in listed] == ["edge-shop", "mine", "web"]
        assert yaml.safe_load(tiphys("get", "appproject", "-o", "yaml").stdout) == listed
        assert json.loads(tiphys("get", "appproject", "mine", "-o", "json").stdout) == listed[1]
        assert tiphys("get", "pod", "--cluster", "edge").stdout == "no pod on edge\n"
        assert "in-cluster" in tiphys("get", "appproject", "web", "--cluster", "prod").stdout
        with urllib.request.urlopen(page, timeout=10) as answer:
            shown = answer.read().decode()
        assert "project/source-repo-format" in shown
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0


def test_argo_cd_needs_real_clusters() -> None:
    with pytest.raises(CallError, match="say --cluster too"):
        CliRunner().invoke(command, ["--argocd"], catch_exceptions=False)
