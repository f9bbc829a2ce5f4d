"""The image without Docker: the Dockerfile's own steps one by one, in folders instead of a root of their own."""

import os
import re
import shlex
import shutil
import subprocess
import venv
from pathlib import Path

import pytest

from tiphys import __version__

ROOT = Path(__file__).parents[2]
FOLDERS = ("/opt/tiphys", "/wheels", "/src")
"""What the steps write; everything else is read."""
RULE = "project/source-repo-format"
PROJECT = (
    "{apiVersion: argoproj.io/v1alpha1, kind: AppProject, metadata: {name: web}, spec: {sourceRepos: ['!*']}}"
)


def steps(stage: str) -> list[tuple[str, str]]:
    """Each with its words on one line, and comments left out."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    stages = re.split(r"^FROM .*\n", text.replace("\\\n", " "), flags=re.MULTILINE)[1:]
    lines = dict(zip(("build", "image"), stages, strict=True))[stage].splitlines()
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines if line)]


class Builder:
    """What the build stage does, below a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._source = folder / "src"
        self._source.mkdir()
        venv.create(folder / "base", with_pip=True)
        self._environment = {**os.environ, "PATH": f"{folder}/base/bin:/usr/bin:/bin"}

    def follow(self, word: str, rest: str) -> None:
        if word == "RUN":
            self._run(rest)
        elif word == "COPY":
            self._copy(shlex.split(rest))
        elif word == "ARG":
            name, _, value = rest.partition("=")
            self._environment[name] = value
        else:
            assert (word, rest) == ("WORKDIR", "/src")

    def _run(self, command: str) -> None:
        for folder in FOLDERS:
            command = re.sub(rf"(?<![\w/]){folder}\b", f"{self._folder}{folder}", command)
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=self._source,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=1500,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"

    def _copy(self, words: list[str]) -> None:
        *files, to = words
        for file in files:
            if (ROOT / file).is_dir():
                shutil.copytree(ROOT / file, self._source / to, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                (self._source / to).mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / file, self._source / to)


@pytest.mark.proof
@pytest.mark.timeout(1800)
def test_its_steps_make_a_command_that_answers_and_judges(tmp_path: Path) -> None:
    builder = Builder(tmp_path)
    for word, rest in steps("build"):
        builder.follow(word, rest)
    made = dict(steps("image"))
    assert made["COPY"] == "--from=build /opt/tiphys /opt/tiphys"
    assert made["ENTRYPOINT"] == '["tiphys"]'
    assert "PATH=/opt/tiphys/bin:$PATH" in made["ENV"]
    (tmp_path / "web.yaml").write_text(PROJECT)
    for words, code, told in ((["--version"], 0, __version__), (["check", "web.yaml"], 1, RULE)):
        done = subprocess.run(
            [tmp_path / "opt" / "tiphys" / "bin" / "tiphys", *words],
            cwd=tmp_path,
            env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, told in done.stdout) == (code, True), done.stdout + done.stderr
