"""`tiphys check`: what it reads, what it fails on, and what it ends with."""

import itertools
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest
import yaml
from click.testing import CliRunner, Result

from argocd.engine.judge import judge
from argocd.judging.case import Case, Kind, kind_of
from argocd.judging.configuration import Configuration
from argocd.rules.catalogue import CATALOGUE
from checks import check as checking
from checks import packed_check
from checks.known_objects import known_from, needs_the_others
from checks.manifests import MOST_VALUES
from cli.commands.check import command
from tests.cli.terminals import on_a_terminal

GOOD = (
    "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: web, namespace: argocd}\nspec: {}\n"
)
BAD = GOOD.replace("{}", "{sourceNamespaces: [a, a]}")
WARNED = GOOD.replace("{}", "{sourceRepos: ['ssh://git@example.test:web/deploy']}")
APPLICATION = """\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop, namespace: argocd}
spec:
  project: web
  destination: {server: https://kubernetes.default.svc, namespace: shop}
  source: {repoURL: https://example.test/web.git, path: .}
"""
ARGOCD_CM = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: argocd-cm, namespace: argocd}\n"
COPIED = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: colours
  namespace: shop
  annotations: {argocd.argoproj.io/tracking-id: 'shop:/ConfigMap:shop/shapes'}
"""
TODAY = date(2026, 10, 1)
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{after}: &{after} [{','.join([f'*{before}'] * 9)}]\n" for before, after in itertools.pairwise("abcdefg")
)


def check(*arguments: str | Path, stdin: str | None = None) -> Result:
    done = CliRunner().invoke(command, [str(one) for one in arguments], input=stdin)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def findings(*arguments: str | Path) -> list[tuple[str, str]]:
    told = json.loads(check(*arguments, "--format", "json").stdout)
    return [(found["action"], found["rule"]) for found in told["findings"]]


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize(
    ("text", "options", "ends_with"),
    [
        (GOOD, (), 0),
        (WARNED, (), 0),
        (WARNED, ("--fail-on", "warn"), 1),
        (BAD, (), 1),
        (BAD, ("--rule", "project/duplicate-source-namespace=warn"), 0),
        (BAD, ("--rule", "project/*=off"), 0),
        (WARNED, ("--rule", "project/source-repo-unreadable=deny"), 1),
        (WARNED, ("--profile", "parity", "--fail-on", "warn"), 0),
        ("a: [", (), 0),
        ("a: [", ("--strict-input",), 2),
        (f"{BAD}---\na: [", (), 2),
    ],
)
def test_it_ends_with_what_it_found(
    text: str, options: tuple[str, ...], ends_with: int, tmp_path: Path
) -> None:
    assert check(write(tmp_path, a=text), *options).exit_code == ends_with


def test_the_rest_is_judged_beside_what_cannot_be_read(tmp_path: Path) -> None:
    write(
        tmp_path,
        a=BOMB,
        b="a: &a [*a]\n",
        c="a:\n\tb: 1\n",
        d="a: 1\na: 2\n",
        e=BAD,
        f="kind: X\nmetadata: {",
    )
    (tmp_path / "g.yaml").write_bytes(b"\x7fELF\0\0")
    with (tmp_path / "h.yaml").open("wb") as large:
        large.truncate(100 * 1024 * 1024)
    started = time.process_time()
    done = check(tmp_path, "--strict-input", "--format", "json")
    told = json.loads(done.stdout)
    assert done.exit_code == 2
    assert [Path(one["file"]).stem for one in told["unreadable"]] == ["a", "b", "c", "d", "f", "g", "h"]
    assert [one["rule"] for one in told["findings"]] == ["project/duplicate-source-namespace"]
    assert time.process_time() - started < 20


def peak(folder: Path) -> tuple[int, float]:
    """What it ended with, and MiB, of a process that checks the folder."""
    code = (
        "import sys\nfrom cli.commands.check import command\n"
        "try:\n    command(sys.argv[1:])\nexcept SystemExit as end:\n"
        "    print(end.code, open('/proc/self/status').read().partition('VmHWM:')[2].split()[0])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder), "--strict-input"],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    ended, kibibytes = map(int, done.stdout.split()[-2:])
    return ended, kibibytes / 1024


def test_a_file_of_a_hundred_megabytes_costs_no_memory(tmp_path: Path) -> None:
    with (tmp_path / "large.yaml").open("wb") as large:
        large.write(b"a: b\n" * 100_000)
        large.truncate(100 * 1024 * 1024)
    ended, mebibytes = peak(tmp_path)
    assert ended == 2
    assert mebibytes < 120


@pytest.mark.parametrize(
    ("text", "ends_with", "limit"),
    [
        ("kind: X\na:\n" + "- x\n" * (MOST_VALUES - 10), 0, 350),
        ("a:\n" + "- x\n" * 4_000_000, 2, 120),
        ("a: [" + "x," * 8_000_000 + "x]\n", 2, 120),
        (f"a: &a {'x' * 1_000_000}\nb: [{'*a, ' * 100_000}]\n", 2, 120),
    ],
    ids=["just small enough", "many lines", "one line", "aliases of one long text"],
)
def test_memory_is_bounded_whatever_a_file_holds(
    text: str, ends_with: int, limit: int, tmp_path: Path
) -> None:
    ended, mebibytes = peak(write(tmp_path, a=text))
    assert ended == ends_with
    assert mebibytes < limit


def test_what_lies_in_one_run_are_neighbours(tmp_path: Path) -> None:
    write(tmp_path, app=APPLICATION)
    assert findings(tmp_path) == []
    write(tmp_path, project=GOOD.replace("name: web", "name: other"))
    assert ("warn", "application/project-unknown") in findings(tmp_path)
    write(tmp_path, project=GOOD)
    assert ("warn", "application/project-unknown") not in findings(tmp_path)


@pytest.mark.parametrize(
    "setting", ["application.resourceTrackingMethod: label", "resource.exclusions: '[{kinds: [ConfigMap]}]'"]
)
def test_other_objects_are_judged_by_the_argocd_cm_of_the_run(setting: str, tmp_path: Path) -> None:
    write(tmp_path, colours=COPIED)
    assert findings(tmp_path) == [("warn", "tracking/copied-id")]
    write(tmp_path, settings=ARGOCD_CM)
    assert findings(tmp_path) == [("warn", "tracking/copied-id")]
    write(tmp_path, settings=f"{ARGOCD_CM}data:\n  {setting}\n")
    assert findings(tmp_path) == [], "there Argo CD reads no id"


def test_an_object_that_does_not_wait_for_the_run_is_not_judged_by_its_settings() -> None:
    configuration = Configuration()
    unknown = replace(known_from((), configuration).surroundings(configuration), settings=cast("Any", None))
    objects = [
        (rule, thing)
        for rule in CATALOGUE
        for example in (rule.bad, rule.good)
        if kind_of(thing := list(yaml.safe_load_all(example))[-1]) is Kind.ANY
    ]
    assert objects
    for rule, thing in objects:
        judgements = judge(Case(kind=Kind.ANY, object=thing, surroundings=unknown), today=TODAY)
        failed = [found.finding for found in judgements if "failed" in found.finding.message]
        assert not failed or needs_the_others(thing), f"{rule.id}: {failed}"


def test_without_a_namespace_argo_cds_is_meant(tmp_path: Path) -> None:
    write(tmp_path, app=APPLICATION, project=GOOD.replace(", namespace: argocd", ""))
    assert ("warn", "application/project-unknown") not in findings(tmp_path)


def test_standard_input_is_read_like_a_file() -> None:
    done = check("-", stdin=f"{WARNED}---\n{BAD}")
    assert done.exit_code == 1
    assert done.stdout.startswith("<stdin>\n  9:30    deny  project/duplicate-source-namespace\n")
    assert "  4:22    warn  project/source-repo-unreadable\n" in done.stdout


def test_the_configuration_is_found_upwards_and_excludes(tmp_path: Path) -> None:
    write(
        tmp_path,
        tiphys="rules: {project/duplicate-source-namespace: warn}\nexclude: [vendor/**, '*-draft.yaml']\n",
        deep__er__a=BAD,
        deep__vendor__b=BAD,
        **{"deep__c-draft": BAD},
    )
    assert findings(tmp_path / "deep") == [("warn", "project/duplicate-source-namespace")]
    assert findings(tmp_path / "deep/er/a.yaml") == [("warn", "project/duplicate-source-namespace")]
    assert len(findings(f"{tmp_path}/deep/**/*.yaml")) == 1


@pytest.mark.parametrize(
    ("configuration", "said"),
    [
        ("profil: parity\n", "profile"),
        ("exclude: vendor\n", "exclude must be a list"),
        ("rules: {project/nothing: deny}\n", "project/nothing"),
        ("a: [", "tiphys.yaml"),
    ],
)
def test_a_wrong_configuration_is_one_line(configuration: str, said: str, tmp_path: Path) -> None:
    write(tmp_path, tiphys=configuration, a=GOOD)
    done = CliRunner().invoke(command, [str(tmp_path)])
    assert said in str(done.exception)
    assert getattr(done.exception, "exit_code", None) == 2


def test_a_baseline_hides_what_was_known_and_nothing_else(tmp_path: Path) -> None:
    known = tmp_path / "known.json"
    write(tmp_path, a=BAD)
    check(tmp_path / "a.yaml", "--write-baseline", known)
    write(tmp_path, a=f"# moved\n{BAD}")
    assert check(tmp_path / "a.yaml", "--baseline", known).exit_code == 0
    write(tmp_path, a=BAD.replace("[a, a]", "[a, a, b, b]"))
    done = check(tmp_path / "a.yaml", "--baseline", known)
    assert (done.exit_code, done.stdout.count("deny")) == (1, 1)


def test_a_report_can_go_to_a_file(tmp_path: Path) -> None:
    done = check(write(tmp_path, a=BAD), "--output", tmp_path / "report.txt")
    assert (done.stdout, done.exit_code) == ("", 1)
    assert "1 denial" in (tmp_path / "report.txt").read_text()


def test_templates_of_a_chart_are_skipped_with_a_note_unless_named(tmp_path: Path) -> None:
    write(tmp_path, Chart="name: x\n", templates__a="a: {{ .Values.x }}\n")
    done = check(tmp_path)
    assert done.exit_code == 0
    assert "templates of a Helm chart" in done.stderr
    assert check(tmp_path / "templates/a.yaml").exit_code == 2


def test_a_folder_that_cannot_be_listed_is_unreadable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(folder: str) -> NoReturn:
        raise PermissionError(13, "Permission denied")

    folder = write(tmp_path, a=GOOD)
    monkeypatch.setattr(os, "scandir", forbidden)
    done = check(folder)
    assert done.exit_code == 2
    assert "this folder cannot be listed" in done.stdout


def test_pipes_in_a_folder_are_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    assert check(write(tmp_path, a=GOOD)).exit_code == 0


def test_several_processes_find_what_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "MANY_FILES", 4)
    monkeypatch.setattr(packed_check, "CHUNK", 2)
    for number in range(9):
        write(tmp_path, **{f"f{number}": BAD if number % 2 else APPLICATION})
    alone = check(tmp_path, "--jobs", "1").stdout
    assert check(tmp_path, "--jobs", "2").stdout == alone
    assert check(tmp_path, "-", "--jobs", "2", stdin=BAD).stdout.count("<stdin>") == 1


def test_many_bad_objects_in_one_file_take_time_in_proportion(tmp_path: Path) -> None:
    few, many = (
        write(tmp_path / name, a="---\n".join([BAD] * count)) for name, count in (("few", 40), ("many", 320))
    )
    check(few)

    def least(folder: Path) -> float:
        """Of a few: other programs make one slower, none makes it faster."""
        times = []
        for _ in range(3):
            started = time.process_time()
            check(folder)
            times.append(time.process_time() - started)
        return min(times)

    assert least(many) < least(few) * 8 * 3, "a file is read once more for all its findings, not for each"


def test_progress_is_shown_on_a_terminal_for_many_files_and_leaves_nothing_behind(tmp_path: Path) -> None:
    write(tmp_path, **{f"number_{number}": "kind: X\n" for number in range(checking.MANY_FILES)})
    seen = on_a_terminal(["check", str(tmp_path), "--jobs", "1"])
    assert (seen.code, seen.out) == (
        0,
        "0 denials, 0 warnings in 400 files with 400 objects\njudged of Argo CD: nothing\n",
    )
    assert "judging" in seen.screen
    assert "100%" in seen.screen
    assert seen.screen.endswith("\x1b[2K"), "the line is wiped"
    assert check(tmp_path, "--jobs", "1").stderr == "", "elsewhere there is no terminal"


def test_a_few_files_need_no_progress(tmp_path: Path) -> None:
    assert on_a_terminal(["check", str(write(tmp_path, a=GOOD))]).screen == ""
