"""`make test` as two pytest processes."""

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.suites import OWN_CACHE, commands, verdict

ROOT = Path(__file__).parents[2]


def test_tests_on_a_real_argo_cd_run_in_a_process_of_their_own() -> None:
    first, second = commands([], workers="2")

    assert first[3:] == ["--numprocesses=2", "--dist=worksteal", "-m", "not argocd"]
    assert second[3:] == ["--numprocesses=0", "-o", OWN_CACHE, "-m", "argocd"]


def test_arguments_go_to_both_and_a_marker_narrows_both() -> None:
    first, second = commands(["-k", "project", "-n", "0", "-m", "cluster or oracle"], workers="2")

    assert first[5:] == ["-k", "project", "-n", "0", "-m", "not argocd and (cluster or oracle)"]
    assert second[3:] == [
        *("-k", "project", "-n", "0", "--numprocesses=0"),
        *("-o", OWN_CACHE, "-m", "argocd and (cluster or oracle)"),
    ]


@pytest.mark.parametrize(
    ("given", "ours", "apart"),
    [
        (["--junitxml=out/all.xml"], "--junitxml=out/all.xml", "--junitxml=out/all-argocd.xml"),
        (["--junit-xml", "all.xml"], "--junitxml=all.xml", "--junitxml=all-argocd.xml"),
        (["--basetemp=/tmp/tests"], "--basetemp=/tmp/tests", "--basetemp=/tmp/tests-argocd"),
    ],
)
def test_what_one_writes_the_other_does_not_write_over(given: list[str], ours: str, apart: str) -> None:
    first, second = commands(given, workers="2")

    assert first[5:] == [ours, "-m", "not argocd"]
    assert second[3:] == [apart, "--numprocesses=0", "-o", OWN_CACHE, "-m", "argocd"]


@pytest.mark.parametrize(
    ("codes", "told"),
    [((0, 0), 0), ((1, 0), 1), ((0, 1), 1), ((0, 5), 0), ((5, 0), 0), ((5, 5), 5), ((5, 1), 1), ((2, 1), 2)],
)
def test_both_exit_codes_count(codes: tuple[int, int], told: int) -> None:
    assert verdict(codes) == told


def test_where_nothing_is_selected_make_says_so() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "scripts.suites",
            "-n",
            "0",
            "-k",
            "no_such_test",
            "tests/house/test_suites.py",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 5, done.stderr
