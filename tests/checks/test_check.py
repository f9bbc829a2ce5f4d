"""A few files are kept as they were read, many are packed: both ways find the same."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from argocd.judging.configuration import Configuration
from checks import check
from checks.check import FEW_BYTES, are_few, judge_files
from checks.files.content import STDIN
from checks.findings import CheckResult
from cli.commands.check import command
from tiphys import safe_yaml

BAD = """\
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: web}
spec:
  sourceNamespaces: [a, a]
"""
SECRET = """\
apiVersion: v1
kind: Secret
metadata:
  name: prod
  labels: {argocd.argoproj.io/secret-type: cluster}
stringData: {name: prod, Server: 'https://prod.example.org', config: '{}'}
"""
LIST = f"""\
apiVersion: v1
kind: List
items:
- apiVersion: argoproj.io/v1alpha1
  kind: Application
  metadata: {{name: shop}}
  spec:
    project: web
    source: {{repoURL: 'https://git.example.org/a.git', path: .}}
    destination: {{server: 'https://nowhere.example.org', namespace: shop}}
    syncPolicy: {{syncOptions: [createnamespace=true]}}
---
{BAD}"""
ORDINARY = (
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {argocd.argoproj.io/sync-wave: x}}\n"
)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each text that libyaml was given: how long it is."""
    texts: list[int] = []

    class Counted(yaml.CSafeLoader):
        def __init__(self, stream: Any) -> None:
            texts.append(len(stream))
            super().__init__(stream)

    monkeypatch.setattr(safe_yaml, "LOADER", Counted)
    return texts


def judged(files: list[str]) -> CheckResult:
    return judge_files(files, Configuration(), today=date(2026, 10, 1), strict=True)


def write(folder: Path, **texts: str) -> list[str]:
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)
    return [str(folder / f"{name}.yaml") for name in texts]


def test_a_few_files_are_parsed_once_although_something_is_found_in_them(
    tmp_path: Path, parsed: list[int]
) -> None:
    result = judged(write(tmp_path, bad=BAD, list=LIST))
    assert [
        (found.place.line, found.rule) for found in result.findings if found.place.file.endswith("bad.yaml")
    ]
    assert parsed == [len(BAD), len(LIST)]


def test_standard_input_is_parsed_once(parsed: list[int]) -> None:
    done = CliRunner().invoke(command, [STDIN], input=BAD)
    assert "5:25" in done.stdout
    assert parsed == [len(BAD)]


def test_of_much_text_only_what_is_wrong_is_parsed_again(
    tmp_path: Path, parsed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "FEW_BYTES", 0)
    judged(write(tmp_path, bad=BAD, fine="kind: ConfigMap\n", ordinary=ORDINARY))
    assert parsed == [len(BAD), len("kind: ConfigMap\n"), len(ORDINARY), len(BAD)]


def test_both_ways_find_the_same_at_the_same_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = write(tmp_path, bad=BAD, secret=SECRET, list=LIST, ordinary=ORDINARY, broken="a: [")
    few = judged(files)
    monkeypatch.setattr(check, "FEW_BYTES", 0)
    assert judged(files) == few
    assert {Path(found.place.file).stem for found in few.findings} == {"bad", "secret", "list", "ordinary"}
    assert len(few.unreadable) == 1


def test_what_is_few_is_told_by_size_and_a_pipe_is_never_few(tmp_path: Path) -> None:
    small, large = write(tmp_path, small="a: b\n", large="a: b\n" * (FEW_BYTES // 5))
    assert are_few([small])
    assert are_few([large])
    assert not are_few([small, large])
    assert are_few([str(tmp_path / "nowhere.yaml")]), "to be told as unreadable"
    assert not are_few(["/dev/zero"])
    assert not are_few([small] * check.MANY_FILES)
