"""What Tiphys answers to a case with a known answer: each suite's input becomes a call of the real functions.

The suites are in `suites_*.py` beside this file, each with a dictionary `ANSWERS` from a suite's id to a
function from the case's input to an answer in the shape of its `expect`.
"""

import importlib.util
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
if str(ROOT) not in sys.path:  # this file may be loaded by its path alone
    sys.path.insert(0, str(ROOT))

Answer = Callable[[Any], Any]


class Unanswered(Exception):  # noqa: N818 - the name is part of the contract
    """There is no rule for this suite."""


def _answers_in(file: Path) -> dict[str, Answer]:
    # By path, so that an installed package called `tests` cannot stand in the way.
    spec = importlib.util.spec_from_file_location(f"tiphys_oracle_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    answers: dict[str, Answer] = module.ANSWERS
    return answers


def _all_answers() -> dict[str, Answer]:
    merged: dict[str, Answer] = {}
    for file in sorted(HERE.glob("suites_*.py")):
        for suite, function in _answers_in(file).items():
            assert suite not in merged, f"{suite} is answered twice"
            merged[suite] = function
    return merged


ANSWERS = _all_answers()


def answer(suite: str, given: object) -> object:
    """What Tiphys answers to one case; raises Unanswered(suite) for a suite it has no rule for."""
    try:
        function = ANSWERS[suite]
    except KeyError:
        raise Unanswered(suite) from None
    return _with_every_name_of_an_error(function(given))


def _with_every_name_of_an_error(answered: Any) -> Any:
    """Suites ask for an error's text under three names; two want all of it, one the words before a value."""
    text = isinstance(answered, dict) and (answered.get("error") or answered.get("errorFull"))
    if not isinstance(text, str):
        return answered
    words = re.split(r"[\"'`:]", text, maxsplit=1)[0].strip()
    return {"error": text, "errorFull": text, "errorContains": words, **answered}
