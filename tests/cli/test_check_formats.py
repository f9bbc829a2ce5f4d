"""Every form of a report, as a whole: golden files, and the schemas of those that programs read."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import jsonschema
import pytest
from click.testing import CliRunner

from cli.check import command
from cli.reports import FORMATS, WIDTH
from tests.cli.golden_files import GOLDEN, compare
from tiphys import __version__

HERE = Path(__file__).parent
FILES = GOLDEN / "check"
SARIF = HERE / "schemas" / "sarif-2.1.0.json"

# Element -> its attributes (those with a `!` are needed) and the elements inside it, as JUnit readers
# (Jenkins, GitLab) take them.
JUNIT = {
    "testsuites": ("name tests failures errors time", "testsuite"),
    "testsuite": ("!name !tests failures errors skipped time timestamp", "testcase"),
    "testcase": ("!name !classname time file line", "failure error skipped system-out"),
    "failure": ("message type", ""),
    "error": ("message type", ""),
    "system-out": ("", ""),
}


@pytest.fixture(autouse=True)
def _folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)


def reported(form: str, *arguments: str) -> str:
    done = CliRunner().invoke(command, [*arguments, "--format", form])
    assert done.exit_code in {0, 1, 2}, done.exception
    return done.stdout


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_a_report_is_what_the_golden_file_says(form: str) -> None:
    compare(f"check.{form}.txt", reported(form, ".").replace(f'"version": "{__version__}"', '"version": "0"'))


def test_text_fits_eighty_columns() -> None:
    assert max(map(len, reported("text", ".").splitlines())) <= WIDTH


def test_no_form_lets_a_manifest_speak_to_the_terminal() -> None:
    assert not any("\x1b" in reported(form, ".") for form in FORMATS)


@pytest.mark.parametrize("path", [".", "tiphys.yaml"], ids=["findings", "none"])
def test_sarif_keeps_its_schema(path: str) -> None:
    schema = json.loads(SARIF.read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.validate(json.loads(reported("sarif", path)), schema, cls=jsonschema.Draft7Validator)


@pytest.mark.parametrize("broken", ['"level": "fatal"', '"startLine": 0', '"version": "2.0.0"'])
def test_the_sarif_schema_notices_what_is_wrong(broken: str) -> None:
    key = broken.partition(":")[0]
    text = re.sub(rf'{key}: ("[^"]*"|\d+)', broken, reported("sarif", "."))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(json.loads(text), json.loads(SARIF.read_text()))


def test_a_sarif_address_is_a_uri(tmp_path: Path) -> None:
    file = tmp_path / "a b%.yaml"
    file.write_text("a: [")
    [run] = json.loads(reported("sarif", str(file)))["runs"]
    [told] = run["invocations"][0]["toolExecutionNotifications"]
    assert told["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].endswith("/a%20b%25.yaml")


@pytest.mark.parametrize("path", [".", "tiphys.yaml"], ids=["findings", "none"])
def test_junit_keeps_its_schema_and_counts_right(path: str) -> None:
    top = ET.fromstring(reported("junit", path))
    assert top.tag == "testsuites"
    for element in top.iter():
        attributes, inside = JUNIT[element.tag]
        names = attributes.replace("!", "").split()
        needed = [name[1:] for name in attributes.split() if name.startswith("!")]
        assert set(element.attrib) <= set(names)
        assert set(needed) <= set(element.attrib)
        assert {child.tag for child in element} <= set(inside.split())
    [suite] = top
    assert int(suite.attrib["tests"]) == len(suite.findall("testcase"))
    assert int(suite.attrib["failures"]) == len(suite.findall(".//failure"))
    assert int(suite.attrib["errors"]) == len(suite.findall(".//error"))
