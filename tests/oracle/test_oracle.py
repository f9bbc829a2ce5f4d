"""Every case with a known answer; skipped where the cases are not beside the repository."""

import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
CASES = HERE.parents[2] / "shared" / "oracle"
FILES = ("argocd", "agent", "fuzz")

ENOUGH = 0.98

SIDECARS = frozenset(
    {
        "writer_dedupe",
        "header_auth",
        "resource_path",
        "ha_transitions",
    }
)
"""Questions about the sidecars' behaviour, which is no rule."""

EXCEPTIONS: dict[tuple[str, str], str] = {}
"""Kinds of cases in which Tiphys means to differ: (file, pattern of the case's id) and the reason."""

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(not CASES.is_dir(), reason=f"no cases with known answers in {CASES.name}"),
]


def _suites() -> Iterator[Any]:
    for file in FILES:
        path = CASES / f"{file}.json"
        if path.is_file():
            for suite in json.loads(path.read_text())["suites"]:
                yield pytest.param(file, suite, id=f"{file}-{suite['id']}")


@pytest.fixture(scope="module")
def answers() -> Any:
    spec = importlib.util.spec_from_file_location("tiphys_oracle_answers", HERE / "answers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("file", "suite"), list(_suites()))
def test_tiphys_answers_as_argocd_and_its_agent_do(file: str, suite: Any, answers: Any) -> None:
    wrong = []
    unexpected = []
    for case in suite["cases"]:
        try:
            given = answers.answer(suite["id"], case["input"])
        except answers.Unanswered:
            if suite["id"] in SIDECARS:
                pytest.skip("belongs to the sidecars")
            raise
        if not is_right(case["expect"], given):
            wrong.append(case["id"])
            if not is_exception(file, case["id"]):
                unexpected.append(
                    f"{case['id']}: {case['input']!r:.300}\n  expected {case['expect']}\n  answered {given}"
                )
    rate = 1 - len(wrong) / len(suite["cases"])
    print(f"{file} {suite['id']}: {rate:.1%} of {len(suite['cases'])}")  # noqa: T201 - the rate is the result
    assert not unexpected, "\n".join(unexpected[:10])
    assert rate >= ENOUGH, wrong


def test_every_exception_has_a_reason() -> None:
    assert all(reason for reason in EXCEPTIONS.values())


def is_exception(file: str, case: str) -> bool:
    return any(name == file and re.fullmatch(pattern, case) for name, pattern in EXCEPTIONS)


def is_right(expected: Any, given: Any) -> bool:
    """Every key that is expected is equal; of error texts the first words count, of panics the presence."""
    if not isinstance(expected, dict):
        return bool(expected == given)
    return isinstance(given, dict) and all(_agrees(key, value, given) for key, value in expected.items())


def _agrees(key: str, value: Any, given: dict[str, Any]) -> bool:
    if key in {"panic", "compileError"}:
        return bool(value) == bool(given.get(key))
    if key in {"error", "errorFull"}:
        said = given.get(key) or ""
        return bool(value) == bool(said) and str(said).startswith(_first_words(str(value or "")))
    if key == "errorContains":
        return value in (given.get("errorFull") or given.get("error") or "")
    return key in given and bool(given[key] == value)


def _first_words(text: str) -> str:
    return re.split(r"[\"'`:]", text, maxsplit=1)[0]
