"""Policies as casbin reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argocd.settings.casbin import fields_of, line_problem, policy_lines


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("", ""),
        ("# comment", ""),
        ("g, my-group, proj:p:r", ""),
        ('g, "my,group", proj:p:r', ""),
        ("g, a, b, c", "invalid RBAC policy: g, a, b, c"),
        ("x, a", "invalid RBAC policy: x, a"),
        ("p, a, b, c, d, e", ""),
        ("m, anything", ""),
        ('g, my"group, x', 'error parsing policy line "g, my"group, x": bare " in non-quoted-field'),
        ('g, "open, x', 'error parsing policy line "g, "open, x": extraneous or missing " in quoted-field'),
    ],
)
def test_a_line_of_csv_is_judged_as_argo_cd_reads_it(line: str, problem: str) -> None:
    assert line_problem(line) == problem


def test_policies_of_all_keys_are_read_the_main_one_first() -> None:
    data = {
        "policy.team.csv": "g, ada, role:a",
        "policy.csv": "# nobody\n\n  p, role:a, logs, get, */*, allow  \n",
        "policy.default": "role:a",
    }
    assert [(line.key, line.number, line.fields[0]) for line in policy_lines(data)] == [
        ("policy.csv", 3, "p"),
        ("policy.team.csv", 1, "g"),
    ]


def test_white_space_before_a_column_is_passed_over_and_after_it_counts() -> None:
    assert fields_of('p ,  a ,"b ""c"""') == ("p ", "a ", 'b "c"')


@given(st.text(max_size=60))
def test_every_text_gets_an_answer(text: str) -> None:
    assert isinstance(line_problem(text), str)
