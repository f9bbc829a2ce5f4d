"""The hook, the pipelines' files and the page about them say what the commands do, and do it."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.commands.check import command as check
from cli.commands.rbac import command as rbac
from cli.commands.scan import command as scan
from cli.main import SUBCOMMANDS
from tests.cli import schemas

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "pipelines.md").read_text()
PROJECT = (
    "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: web, namespace: argocd}\nspec: {}\n"
)
BAD = PROJECT.replace("{}", "{sourceNamespaces: [a, a]}")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """With all that a commit brings which is nothing of Argo CD's."""
    files = {
        "values.yaml": "a: 1\n",
        "patch.json": '[{"op": "remove", "path": "/a"}]\n',
        "mkdocs.yml": "x: !!python/name:a.b\n",
        "chart.yaml": "{{- if .Values.a }}\na: [\n{{- end }}\n",
        "overlay/kustomization.yaml": "patches: [{path: patch.yaml}]\n",
        "overlay/patch.yaml": BAD,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / ".git").mkdir()
    return tmp_path


def shell(script: str, folder: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    """As a runner would, with this tiphys first on the path and a pip that has nothing to do."""
    programs = folder.with_name(f"{folder.name}-bin")
    programs.mkdir(exist_ok=True)
    for name, line in (("tiphys", f'exec {shlex.quote(sys.executable)} -m cli "$@"'), ("pip", "exit 0")):
        (programs / name).write_text(f"#!/bin/sh\n{line}\n")
        (programs / name).chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def hook() -> dict[str, Any]:
    [only] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    found: dict[str, Any] = only
    return found


def test_the_hook_starts_a_command_that_exists() -> None:
    program, name, *_ = hook()["entry"].split()
    assert (program, name in SUBCOMMANDS, hook()["id"]) == ("tiphys", True, "tiphys-check")


def test_the_hook_passes_on_a_commit_without_an_object_of_argo_cd(repository: Path) -> None:
    commit = sorted(str(file.relative_to(repository)) for file in repository.rglob("*.*ml"))
    done = shell(f"{hook()['entry']} {shlex.join([*commit, 'patch.json'])}", repository)
    assert (done.returncode, done.stderr) == (0, "")
    assert "judged of Argo CD: nothing" in done.stdout
    (repository / "bad.yaml").write_text(BAD)
    assert shell(f"{hook()['entry']} values.yaml bad.yaml", repository).returncode == 1
    (repository / "bad.yaml").write_text(f"{PROJECT}---\na: [")
    assert shell(f"{hook()['entry']} values.yaml bad.yaml", repository).returncode == 2


@pytest.mark.parametrize(("text", "ends_with"), [(PROJECT, 0), (BAD, 1), (f"{PROJECT}---\na: [", 2)])
def test_the_steps_for_github_do_what_they_say(text: str, ends_with: int, repository: Path) -> None:
    [job] = yaml.safe_load((ROOT / "docs/pipelines/github.yaml").read_text())["jobs"].values()
    (repository / "a.yaml").write_text(text)
    summary = repository / "summary.md"
    codes = [
        shell(step["run"], repository, GITHUB_STEP_SUMMARY=str(summary), TIPHYS="x").returncode
        for step in job["steps"]
        if "run" in step
    ]
    assert codes == [0, ends_with, ends_with, ends_with]
    [upload] = [step["with"]["sarif_file"] for step in job["steps"] if "sarif" in step.get("uses", "")]
    schemas.sarif().validate(json.loads((repository / upload).read_text()))
    assert "1 AppProject" in summary.read_text()


@pytest.mark.parametrize(("text", "ends_with"), [(PROJECT, 0), (BAD, 1), (f"{PROJECT}---\na: [", 2)])
def test_the_job_for_gitlab_does_what_it_says(text: str, ends_with: int, repository: Path) -> None:
    [job] = yaml.safe_load((ROOT / "docs/pipelines/gitlab.yaml").read_text()).values()
    (repository / "a.yaml").write_text(text)
    done = shell("\n".join(job["script"]), repository, **job["variables"])
    assert done.returncode == ends_with
    issues = json.loads((repository / job["artifacts"]["reports"]["codequality"]).read_text())
    assert len(issues) == (ends_with > 0)
    after = shell("\n".join(job["after_script"]), repository, **job["variables"])
    assert after.returncode == ends_with
    assert bool(after.stdout) == (ends_with > 0)


def test_every_option_on_the_page_exists() -> None:
    known = {"--fix", "--help"}
    for command in (check, scan, rbac):
        known |= {name for option in command.params for name in option.opts}
    assert set(re.findall(r"--[a-z]+(?:-[a-z]+)*", PAGE)) <= known


def test_examples_are_yaml() -> None:
    examples = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert len(examples) == 3
    assert all(isinstance(yaml.safe_load(example), dict) for example in examples)
