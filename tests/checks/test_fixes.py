"""`check --fix`: what has one answer is mended where it stands, and nothing else moves."""

import shutil
import tempfile
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.fixes import FIXES
from cli.commands.check import command
from tests.cli.golden_files import GOLDEN, compare

PROJECT = (
    "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: web, namespace: argocd}\nspec:\n"
)


def fix(path: Path, *arguments: str) -> Result:
    done = CliRunner().invoke(command, [str(path), "--fix", *arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def mended(tmp_path: Path, text: str, name: str = "a.yaml") -> str:
    file = tmp_path / name
    file.write_bytes(text.encode())
    fix(file, "--yes")
    return file.read_bytes().decode()


def test_the_diff_is_shown_and_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(GOLDEN / "check" / "team.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    done = fix(Path("team.yaml"))
    diff, _, _ = done.stdout.partition("team.yaml\n  ")
    compare("fix.diff.txt", diff)
    assert "5 places can be fixed: --yes does it" in done.stderr
    assert Path("team.yaml").read_text() == (GOLDEN / "check" / "team.yaml").read_text()


def test_with_yes_the_files_are_written_and_judged_again(tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "check" / "team.yaml", tmp_path)
    done = fix(tmp_path / "team.yaml", "--yes")
    compare("fix.yaml.txt", (tmp_path / "team.yaml").read_text())
    assert "secret/key-case" not in done.stdout
    assert "project/glob-invalid" in done.stdout
    assert "fixed" not in fix(tmp_path / "team.yaml", "--yes").stderr


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("  sourceRepos: [a, 'a',  a, b] # all\n", "  sourceRepos: [a, b] # all\n"),
        (
            "  sourceRepos:\n    - a\n    # about the second\n    - a\n    # about b\n    - b\n",
            "  sourceRepos:\n    - a\n    # about the second\n    # about b\n    - b\n",
        ),
        ("  sourceRepos:\n  - a\n  - a", "  sourceRepos:\n  - a\n"),
        (
            "  destinations:\n  - server: x\n    namespace: y\n\n  -\n    namespace: y\n    server: x\n  - {server: z}\n",
            "  destinations:\n  - server: x\n    namespace: y\n\n  - {server: z}\n",
        ),
        (
            (
                "  roles:\n  - name: r\n    groups: [g, g]\n    policies:\n    - p, proj:web:r, applications, get, web/*, allow\n"
                "    - p, proj:web:r, applications, get, web/*, allow\n  description: x\n"
            ),
            (
                "  roles:\n  - name: r\n    groups: [g]\n    policies:\n    - p, proj:web:r, applications, get, web/*, allow\n"
                "  description: x\n"
            ),
        ),
        ("  sourceRepos:\r\n  - a\r\n  - a\r\n", "  sourceRepos:\r\n  - a\r\n"),
    ],
)
def test_repeated_entries_go_and_comments_stay(before: str, after: str, tmp_path: Path) -> None:
    assert mended(tmp_path, PROJECT + before) == PROJECT + after


@pytest.mark.parametrize(
    "kept",
    [
        # The same destination twice, but with different accounts: somebody must say which one is meant.
        (
            "  destinationServiceAccounts:\n  - {server: '*', namespace: a, defaultServiceAccount: x}\n"
            "  - {server: '*', namespace: a, defaultServiceAccount: y}\n"
        ),
        # An anchor that others use.
        "  sourceRepos:\n  - a\n  - &b a\n  sourceNamespaces: [*b]\n",
        "  roles:\n  - {name: r, description: one}\n  - {name: r, description: two}\n",
    ],
)
def test_what_needs_a_decision_stays(kept: str, tmp_path: Path) -> None:
    assert mended(tmp_path, PROJECT + kept) == PROJECT + kept


def test_json_is_mended_too(tmp_path: Path) -> None:
    text = '{"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",\n\t"metadata": {"name": "web"}, "spec": {"sourceNamespaces": ["a",\n\t"a"]}}\n'
    assert mended(tmp_path, text, "a.json") == text.replace(',\n\t"a"]', "]")


def test_a_key_that_is_there_in_both_spellings_is_left(tmp_path: Path) -> None:
    text = (
        "apiVersion: v1\nkind: Secret\nmetadata: {name: x, labels: {argocd.argoproj.io/secret-type: repository}}\n"
        "stringData: {url: https://example.test, URL: https://example.test/b}\n"
    )
    assert mended(tmp_path, text) == text
    assert yaml.safe_load(mended(tmp_path, text.replace("url: https://example.test, ", "")))[
        "stringData"
    ] == {"url": "https://example.test/b"}


def test_every_fix_belongs_to_a_rule() -> None:
    from argocd.rules.catalogue import CATALOGUE  # noqa: PLC0415 - all rules, for this test alone

    assert set(FIXES) <= {rule.id for rule in CATALOGUE}


@given(
    texts=st.lists(st.sampled_from(["a", "b c", "'", '"', "#x", "- y", ": z", "é", "😀", "{", "1", "~", "x: y"]), max_size=6),
    flow=st.booleans(),
    style=st.sampled_from([None, "'", '"']),
    indent=st.integers(2, 5),
)  # fmt: skip
@settings(max_examples=60)
def test_any_list_loses_its_repetitions_and_nothing_else(
    *, texts: list[str], flow: bool, style: str | None, indent: int
) -> None:
    body = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": "web", "namespace": "argocd"},
        "spec": {"sourceNamespaces": texts, "description": "last"},
    }
    text = yaml.safe_dump(
        body, default_flow_style=flow, default_style=style, indent=indent, allow_unicode=True
    )
    with tempfile.TemporaryDirectory() as folder:
        after = yaml.safe_load(mended(Path(folder), text))
    body["spec"] = {"sourceNamespaces": list(dict.fromkeys(texts)), "description": "last"}
    assert after == body
