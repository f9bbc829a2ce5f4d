"""The order and the number of lines that people read."""

from argocd.judging.case import Finding
from tests.webhook.admission.test_decisions import asked
from webhook.admission.messages import denial, warnings
from webhook.admission.review import shortened

HABIT = "application/floating-revision"
MISSING = "impersonation/account-missing"
IGNORED = "repository/type"
REFUSED = "application/destination-forbidden"


def found(rule: str, path: str = "spec", message: str = "it is so", hint: str = "") -> Finding:
    return Finding(rule, path, message, hint)


def test_what_argo_cd_refuses_comes_first_and_habits_last() -> None:
    lines = warnings([found(HABIT), found(MISSING), found(IGNORED), found(REFUSED)])
    assert [line.partition(":")[0] for line in lines] == [REFUSED, IGNORED, MISSING, HABIT]


def test_a_cause_that_comes_again_is_one_line_with_a_count() -> None:
    findings = [found(HABIT, f"spec.sources[{index}]", f"'v{index}' moves", "Pin it.") for index in range(5)]
    assert warnings(findings) == [
        f"{HABIT}: [4 more: spec.sources[1], spec.sources[2], …] spec.sources[0]: 'v0' moves (Pin it.)"
    ]
    assert warnings(findings[:2]) == [
        f"{HABIT}: [1 more: spec.sources[1]] spec.sources[0]: 'v0' moves (Pin it.)"
    ]


def test_two_causes_of_one_rule_are_two_lines() -> None:
    assert len(warnings([found(HABIT, message="one"), found(HABIT, message="another")])) == 2


def test_the_cut_never_hides_a_stronger_one() -> None:
    habits = [found(HABIT, message=f"{'word ' * index} moves") for index in range(1, 60)]
    lines = shortened(warnings([*habits, found(REFUSED, message="no such destination")]))
    assert lines[0] == f"{REFUSED}: spec: no such destination"
    assert lines[-1].endswith("more; `tiphys check` lists all")


def test_a_denial_says_where_more_is_said_of_a_rule() -> None:
    found_once = [found(REFUSED)]
    assert denial(asked(object={}), found_once).endswith(f"\n  see: tiphys explain rule {REFUSED}")
    linked = denial(asked(object={}), found_once, pages_url="https://tiphys.example.com/x")
    assert linked.endswith(f"\n  see https://tiphys.example.com/x/rules/{REFUSED}")
    assert "see" not in denial(asked(object={}), [found("object/not-read")])


def test_a_denial_begins_with_what_argo_cd_refuses() -> None:
    text = denial(asked(object={}), [found(IGNORED), found(REFUSED)])
    assert text.index(REFUSED) < text.index(IGNORED)
