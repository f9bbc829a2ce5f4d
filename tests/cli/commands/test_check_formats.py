"""Every form of a report, as a whole: golden files, and the schemas of those that programs read."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml
from click.testing import CliRunner
from lxml import etree

from checks.report_forms import FORMATS
from checks.reports import WIDTH
from cli.commands.check import command
from tests.cli import schemas
from tests.cli.golden_files import GOLDEN, compare, settled

FILES = GOLDEN / "check"


@pytest.fixture(autouse=True)
def _folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)


def reported(form: str, *arguments: str) -> str:
    done = CliRunner().invoke(command, [*arguments, "--strict-input", "--format", form])
    assert done.exit_code in {0, 1, 2}, done.exception
    return done.stdout


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_a_report_is_what_the_golden_file_says(form: str) -> None:
    compare(f"check.{form}.txt", settled(reported(form, ".")))


def test_json_and_yaml_tell_the_same() -> None:
    assert yaml.safe_load(reported("yaml", ".")) == json.loads(reported("json", "."))


def test_a_list_ends_with_a_summary_unless_it_shall_be_quiet() -> None:
    last = "6 denials, 4 warnings, 1 audit note, 1 unreadable in 3 files with 5 objects"
    assert last in reported("wide", ".").splitlines()
    head, *rows = reported("wide", ".", "--quiet").splitlines()
    assert head.split()[:3] == ["PLACE", "ACTION", "RULE"]
    assert [row.split()[1] for row in rows] == ["deny"] * 6 + ["unreadable"]
    clean = ("-", "--quiet")  # nothing comes from standard input
    assert reported("wide", *clean) == reported("name", *clean) == ""


def test_text_fits_eighty_columns() -> None:
    assert max(map(len, reported("text", ".").splitlines())) <= WIDTH


def test_no_form_lets_a_manifest_or_the_name_of_a_file_speak_to_the_terminal(tmp_path: Path) -> None:
    rude = (FILES / "legacy.yaml").read_text().replace("[31m", "[35m")
    (tmp_path / "a\x1b[35m.yaml").write_text(rude)
    (tmp_path / "b\x1b[35m.yaml").write_text("{")
    for form in FORMATS:
        told = CliRunner().invoke(command, [str(tmp_path), "--format", form], color=True).stdout
        assert "[35m" in told
        assert "\x1b[35m" not in told


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_no_form_shows_the_credentials_of_a_url(form: str, tmp_path: Path) -> None:
    token = "github_pat_" + "x" * 82
    (tmp_path / "a.yaml").write_text(
        "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: a, namespace: argocd}\n"
        f"spec: {{sourceRepos: ['https://bot:{token}@example.com/a', 'https://bot:{token}@example.com/a']}}\n"
    )
    told = reported(form, str(tmp_path / "a.yaml"))
    assert ("a.yaml" if form == "name" else "duplicate-source-repo") in told
    assert "xxxxxxxx" not in told


def test_colours_are_for_terminals(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        command, [".", "--strict-input", "--output", str(tmp_path / "report.txt")], color=True
    )
    assert (done.exit_code, done.stdout) == (2, "")
    assert "\x1b" not in (tmp_path / "report.txt").read_text()
    assert "\x1b[31mdeny\x1b[0m" in CliRunner().invoke(command, ["."], color=True).stdout
    assert "\x1b" not in reported("text", ".")


@pytest.mark.parametrize("path", [".", "tiphys.yaml"], ids=["findings", "none"])
def test_sarif_keeps_the_schema_of_its_standard(path: str) -> None:
    schemas.sarif().validate(json.loads(reported("sarif", path)))


@pytest.mark.parametrize(
    "broken", ['"level": "fatal"', '"startLine": 0', '"version": "2.0.0"', '"ruleIndex": "first"']
)
def test_the_sarif_schema_notices_what_is_wrong(broken: str) -> None:
    key = broken.partition(":")[0]
    text = re.sub(rf'{key}: ("[^"]*"|\d+)', broken, reported("sarif", "."))
    with pytest.raises(jsonschema.ValidationError):
        schemas.sarif().validate(json.loads(text))


def test_a_sarif_address_is_a_uri(tmp_path: Path) -> None:
    file = tmp_path / "a b%.yaml"
    file.write_text("a: [")
    [run] = json.loads(reported("sarif", str(file)))["runs"]
    [told] = run["invocations"][0]["toolExecutionNotifications"]
    assert told["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].endswith("/a%20b%25.yaml")


@pytest.mark.parametrize("path", [".", "tiphys.yaml"], ids=["findings", "none"])
def test_junit_keeps_its_schema_and_counts_right(path: str) -> None:
    top = etree.fromstring(reported("junit", path).encode())
    schemas.junit().assertValid(top)
    [suite] = top
    assert int(suite.get("tests")) == len(suite.findall("testcase"))
    assert int(suite.get("failures")) == len(suite.findall(".//failure"))
    assert int(suite.get("errors")) == len(suite.findall(".//error"))


@pytest.mark.parametrize("broken", [' classname="', ' hostname="', "properties", "system-err"])
def test_the_junit_schema_notices_what_is_wrong(broken: str) -> None:
    other = etree.fromstring(reported("junit", ".").replace(broken, broken.replace("s", "z")).encode())
    assert not schemas.junit().validate(other)
