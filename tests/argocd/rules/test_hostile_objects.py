"""Whatever an object looks like, the answer is findings: never an exception, never a long wait."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argocd.judging.case import Case, Finding, Rule
from argocd.rules.catalogue import CATALOGUE
from tests.argocd.altered_objects import at, paths, replaced
from tests.argocd.cases import case_of
from tests.processor_time import ProcessorTime

EXAMPLES = [case_of(example, rule=rule) for rule in CATALOGUE for example in (rule.bad, rule.good)]
EVERY_RULE = [pytest.param(rule, id=rule.id) for rule in CATALOGUE]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)

LONG = 40_000
LONGER = 400_000
HOSTILE = (",", ";", "/", "{{", "{{ .a", " ", "\u00e9", "[", "{", "*", "-", "0", "https://[", "\n")
TEXTS = [*(text * (LONG // len(text)) for text in HOSTILE), "a" * LONGER]
PATIENCE = 1.0
"""Seconds of our own work on one text. Most rules need milliseconds; quadratic work would take minutes."""


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """An example in which something was replaced by anything."""
    case = draw(st.sampled_from(EXAMPLES))
    changed = dict(case.object)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from([path for path in paths(changed) if path]))
        changed = replaced(changed, path, draw(JSON))
    old = draw(st.sampled_from([case.old, case.object, changed, {}]))
    return replace(case, object=changed, old=old)


def asked(case: Case) -> list[Finding]:
    return [finding for rule in CATALOGUE for finding in rule.check(case)]


@settings(max_examples=400, deadline=None)
@given(cases())
def test_no_rule_raises_on_an_object_with_anything_in_it(case: Case) -> None:
    for finding in asked(case):
        assert finding.message


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(EXAMPLES), st.dictionaries(st.text(max_size=8), JSON, max_size=4))
def test_no_rule_raises_on_an_object_of_no_shape_at_all(case: Case, thing: dict[str, Any]) -> None:
    asked(replace(case, object=thing))
    asked(replace(case, object={"metadata": thing, "spec": thing, "data": thing}))


@pytest.mark.parametrize("rule", EVERY_RULE)
def test_a_long_text_in_a_field_is_judged_in_linear_time(rule: Rule) -> None:
    case = case_of(rule.bad, rule=rule)
    for path in paths(case.object):
        if path and isinstance(at(case.object, path), str):
            for text in TEXTS:
                hostile = replaced(case.object, path, text)
                with ProcessorTime() as taken:
                    list(rule.check(replace(case, object=hostile)))
                assert taken.seconds < PATIENCE, (path, text[:20])
