"""The table of faults in docs/high-availability.md: each row names tests that are there, and what the storms must have met."""

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
PAGE = (ROOT / "docs/high-availability.md").read_text().split("## Which test holds which fault?")[1]
FAULTS = [f"F{number}" for number in range(1, 34)]
WITHOUT_A_TEST = {"F27", "F31"}
"""The row says why."""

_FILE = re.compile(r"`([\w/]+\.py)`")
WORDS = {
    word: _FILE.findall(files) for word, files in re.findall(r"^\| ([\w ]+) \| (`.*) \|$", PAGE, re.MULTILINE)
}
ROWS = dict(re.findall(r"^\| (F\d+) [^|]*\| (.*) \|$", PAGE, re.MULTILINE))
NOBODY = "none: "
_PART = re.compile(r"(?P<where>[^:(]+?)(?: \((?P<met>[^)]*)\))?(?:: (?P<test>.*))?")


def named(where: str) -> list[str]:
    """Files of `tests/`, by themselves or by a word."""
    files = []
    for each in where.split(", "):
        files += _FILE.findall(each) if each.startswith("`") else WORDS[each]
    return files


def written_in(file: str) -> list[str]:
    return re.findall(r"^(?:async )?def test_(\w+)", (TESTS / file).read_text(), re.MULTILINE)


def problems(part: str) -> list[str]:
    """Of what one row says of one place."""
    if part.startswith(NOBODY):
        return []
    match = _PART.fullmatch(part)
    if match is None:
        return [f"{part}: cannot be read"]
    try:
        files = named(match["where"])
    except KeyError as error:
        return [f"{part}: nobody knows {error}"]
    if missing := [file for file in files if not (TESTS / file).is_file()]:
        return [f"{file} is not there" for file in missing]
    found = []
    if match["test"]:
        begins = tuple(
            re.sub(r"\W+", "_", match["test"].lower().replace("'", apostrophe)) for apostrophe in ("", "_")
        )
        if not any(test.startswith(begins) for file in files for test in written_in(file)):
            found.append(f"{part}: no test of {', '.join(files)} begins so")
    for case in filter(None, (match["met"] or "").split(", ")):
        for file in files:
            sometimes = import_module(f"tests.{file.removesuffix('.py').replace('/', '.')}").SOMETIMES
            if case not in sometimes:
                found.append(f"{part}: {file} may end without {case!r}")
    return found


def test_every_fault_has_its_row() -> None:
    assert list(ROWS) == FAULTS


@pytest.mark.parametrize("fault", FAULTS)
def test_what_holds_a_fault_is_there(fault: str) -> None:
    parts = ROWS[fault].split("; ")
    assert [problem for part in parts for problem in problems(part)] == []
    assert all(part.startswith(NOBODY) for part in parts) is (fault in WITHOUT_A_TEST)


@pytest.mark.parametrize(
    "part",
    [
        "nowhere: a test",
        "faults: a test that was never written",
        "replication (something that never happened)",
        "`simulation/test_nothing.py`",
    ],
)
def test_what_is_not_there_is_noticed(part: str) -> None:
    assert problems(part) != []
