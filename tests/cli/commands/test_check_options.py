"""`tiphys check`: what a person or a pipeline asks of a run besides its verdicts."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from checks.report_forms import FORMATS
from cli.commands.check import command
from tiphys.errors import CallError

PROJECT = (
    "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: web, namespace: argocd}\nspec: {}\n"
)
BAD = PROJECT.replace("{}", "{sourceNamespaces: [a, a]}")
OPTIONED = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: a, annotations: {argocd.argoproj.io/sync-options: prune=false}}
"""
DUPLICATE = "project/duplicate-source-namespace"


def check(*arguments: str | Path) -> Result:
    done = CliRunner().invoke(command, [str(one) for one in arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


# Baselines


def test_a_baseline_can_be_reviewed_and_covers_what_is_unreadable(tmp_path: Path) -> None:
    write(tmp_path, a=BAD, b=f"{PROJECT}---\na: [")
    known = tmp_path / "known.json"
    assert check(tmp_path, "--write-baseline", known).exit_code == 2
    told = json.loads(known.read_text())
    assert told["known"] == [
        {
            "rule": DUPLICATE,
            "file": f"{tmp_path}/a.yaml",
            "object": "AppProject argocd/web",
            "path": "spec.sourceNamespaces[1]",
            "message": "source namespace 'a' already added",
        },
        {
            "rule": "unreadable",
            "file": f"{tmp_path}/b.yaml",
            "message": "not YAML: did not find expected node content",
        },
    ]
    assert check(tmp_path, "--baseline", known).exit_code == 0


def test_an_old_baseline_is_still_read(tmp_path: Path) -> None:
    write(tmp_path, a=BAD)
    [found] = json.loads(check(tmp_path, "--format", "json").stdout)["findings"]
    known = tmp_path / "known.json"
    known.write_text(json.dumps([found["fingerprint"]]))
    assert check(tmp_path, "--baseline", known).exit_code == 0


def test_a_baseline_is_never_judged_itself(tmp_path: Path) -> None:
    write(tmp_path, a=BAD)
    known = tmp_path / "known.json"
    check(tmp_path, "--write-baseline", known)
    assert check(tmp_path, "--strict-input", "--baseline", known).exit_code == 0


@pytest.mark.parametrize(
    "text", ["{}", "{", '{"tiphys-baseline": 9, "known": []}', '{"tiphys-baseline": 2, "known": 1}', "7"]
)
def test_what_is_no_baseline_is_one_line(text: str, tmp_path: Path) -> None:
    write(tmp_path, a=BAD)
    (tmp_path / "known.json").write_text(text)
    done = CliRunner().invoke(command, [str(tmp_path), "--baseline", str(tmp_path / "known.json")])
    assert isinstance(done.exception, CallError)
    assert "make it with --write-baseline" in str(done.exception)


# Less to read


def test_denials_come_first(tmp_path: Path) -> None:
    done = check(write(tmp_path, a=OPTIONED, b=BAD))
    assert done.stdout.index(" deny ") < done.stdout.index(" warn ")


def test_only_some_rules_are_told_of(tmp_path: Path) -> None:
    write(tmp_path, a=OPTIONED, b=BAD)
    done = check(tmp_path, "--only", "object/*")
    assert done.exit_code == 0
    assert DUPLICATE not in done.stdout
    assert "object/sync-options" in done.stdout
    assert check(tmp_path, "--only", DUPLICATE).exit_code == 1
    wrong = CliRunner().invoke(command, [str(tmp_path), "--only", "object/nothing"])
    assert "there is no rule object/nothing" in str(wrong.exception)


def test_quiet_is_nothing_but_what_fails(tmp_path: Path) -> None:
    (tmp_path / "B.YAML").write_text(BAD)
    write(tmp_path, a=OPTIONED)
    done = check(tmp_path, "--quiet")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    done = check(tmp_path, "--quiet", "--fail-on", "warn")
    assert done.exit_code == 1
    assert done.stdout.endswith("→ Write Prune=false.\n")


# What is passed over


def test_links_and_capital_suffixes_that_are_passed_over_are_said(tmp_path: Path) -> None:
    tree = write(tmp_path / "tree", a=PROJECT)
    write(tmp_path / "outside", prod=BAD)
    (tree / "B.YAML").write_text(BAD)
    (tree / "link.yaml").symlink_to(tmp_path / "outside/prod.yaml")
    (tree / "folder").symlink_to(tmp_path / "outside")
    (tree / "inside.yaml").symlink_to("a.yaml")
    done = check(tree)
    assert done.exit_code == 0
    assert "left alone: 2 links, 1 with a suffix in capitals" in done.stdout
    for said in (
        "B.YAML: Argo CD and kubectl",
        "link.yaml: a link that leads out",
        "folder: a link to a folder",
    ):
        assert said in done.stderr
    assert "judged of Argo CD: 2 AppProject" in done.stdout


def test_few_lines_tell_of_many_links(tmp_path: Path) -> None:
    write(tmp_path, a=PROJECT)
    for number in range(50):
        (tmp_path / f"{number}.yaml").symlink_to("/nowhere")
    lines = check(tmp_path).stderr.splitlines()
    assert (len(lines), lines[-1]) == (21, "skipped 30 more like these")


def test_paths_are_excluded_by_tiphysignore(tmp_path: Path) -> None:
    write(tmp_path, repo__a=PROJECT, repo__vendor__b=BAD, repo__deep__old__c=BAD)
    (tmp_path / "repo/.tiphysignore").write_text("# not ours\nvendor\n\nold/**\n")
    done = check(tmp_path / "repo")
    assert (done.exit_code, "left alone: 2 excluded" in done.stdout) == (0, True)
    hook = check("--any-file", tmp_path / "repo/vendor/b.yaml", tmp_path / "repo/a.yaml")
    assert hook.exit_code == 0
    assert check(tmp_path / "repo/vendor/b.yaml").exit_code == 1, "a file that is named outright is judged"
    (tmp_path / "repo/.tiphysignore").write_text("!a\n")
    wrong = CliRunner().invoke(command, [str(tmp_path / "repo")])
    assert "cannot be taken back in" in str(wrong.exception)


# Nothing outside of the tree is written


@pytest.mark.parametrize("named", ["tree", "tree/link.yaml"])
def test_a_fix_does_not_follow_a_link_out_of_the_tree(named: str, tmp_path: Path) -> None:
    write(tmp_path / "tree", a=BAD)
    write(tmp_path / "outside", prod=BAD)
    (tmp_path / "tree/link.yaml").symlink_to(tmp_path / "outside/prod.yaml")
    done = check(tmp_path / named, "--fix", "--yes")
    assert (tmp_path / "outside/prod.yaml").read_text() == BAD
    assert (tmp_path / "tree/link.yaml").is_symlink()
    if named.endswith(".yaml"):
        assert "it is a link that leads out of what was given" in done.stderr


def test_a_fix_in_the_tree_goes_through_a_link_inside_of_it(tmp_path: Path) -> None:
    write(tmp_path, real__a=BAD)
    (tmp_path / "link.yaml").symlink_to("real/a.yaml")
    check(tmp_path, "--fix", "--yes")
    assert "[a]" in (tmp_path / "real/a.yaml").read_text()
    assert (tmp_path / "link.yaml").is_symlink()


# Reports that others read


RUDE = 'web](https://evil.example) ![x](https://evil.example) @root `\\"<b>\\\\|` ``|\u202etxt\u2066'


def test_markdown_holds_no_link_and_calls_nobody(tmp_path: Path) -> None:
    write(tmp_path, a=BAD.replace("name: web", f'name: "{RUDE}"'))
    [row] = [line for line in check(tmp_path, "--format", "markdown").stdout.splitlines() if "deny" in line]
    for turned in "\u202e\u2066":
        assert turned not in row
    cells = row.replace("\\|", "").split("|")
    assert len(cells) == 5
    code = cells[3].strip()
    fence = code[: len(code) - len(code.lstrip("`"))]
    assert len(fence) == 3
    assert code.endswith(fence)
    assert fence not in code.strip("`")


@pytest.mark.parametrize("form", sorted(set(FORMATS) - {"json"}))
def test_no_form_turns_the_direction_of_a_line(form: str, tmp_path: Path) -> None:
    write(tmp_path, a=BAD.replace("name: web", 'name: "we\u202eb"'))
    assert "\u202e" not in check(tmp_path, "--format", form).stdout


def test_gitlab_reads_the_report(tmp_path: Path) -> None:
    """What its documentation asks of a Code Quality report."""
    write(tmp_path, a=f"{BAD}---\n{BAD}", b=OPTIONED, c=f"{PROJECT}---\na: [")
    issues = json.loads(check(tmp_path, "--format", "gitlab").stdout)
    assert len({issue["fingerprint"] for issue in issues}) == len(issues) == 4
    for issue in issues:
        assert set(issue) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert issue["severity"] in {"info", "minor", "major", "critical", "blocker"}
        assert os.path.isfile(issue["location"]["path"])  # noqa: PTH113 - as it is written there
        assert issue["location"]["lines"]["begin"] >= 1
    assert [issue["check_name"] for issue in issues].count(DUPLICATE) == 2
