"""Paths in jq's language that say which differences are to be ignored."""

from collections.abc import Iterator
from functools import partial

from argocd import reading
from argocd.go import gojq
from argocd.judging.case import Action, Case, Finding, Kind, Profile, Rule
from argocd.rules import examples
from argocd.shortening import shortened

_SHOWN = 100
_PATHS = "jqPathExpressions"


def _problems(case: Case, *, rule: str, field: str) -> Iterator[Finding]:
    before = {
        path for entry in reading.sequence(case.old, "spec", field) for path in reading.texts(entry, _PATHS)
    }
    for index, entry in enumerate(reading.sequence(case.object, "spec", field)):
        for position, path in enumerate(reading.sequence(entry, _PATHS)):
            known = not isinstance(path, str) or path in before
            if not known and (reason := gojq.path_problem(path)):
                yield Finding(
                    rule,
                    f"spec.{field}[{index}].{_PATHS}[{position}]",
                    f"{shortened(path, _SHOWN)!r}: {reason}",
                    "Write a path that jq's del(...) takes, such as .spec.containers[].image.",
                )


def _rule(*, id: str, kind: Kind, field: str, consequence: str, bad: str, good: str) -> Rule:  # noqa: A002 - as in Rule
    return Rule(
        id=id,
        kinds=frozenset({kind}),
        profile=Profile.RECOMMENDED,
        action=Action.WARN,
        refused_by_argocd=True,
        reads=(f"spec.{field}",),
        title="A jq path compiles",
        explanation=(
            "Argo CD makes del(path) of each path and compiles it with gojq, which has no input, debug and "
            f"$__loc__, and knows no variables but $ENV. {consequence}"
        ),
        bad=bad,
        good=good,
        check=partial(_problems, rule=id, field=field),
    )


def _application(path: str) -> str:
    entry = f"{{group: apps, kind: Deployment, jqPathExpressions: ['{path}']}}"
    return examples.application(spec=f"ignoreDifferences: [{entry}]")


def _application_set(path: str) -> str:
    return examples.application_set(spec=f"ignoreApplicationDifferences: [{{jqPathExpressions: ['{path}']}}]")


RULES: tuple[Rule, ...] = (
    _rule(
        id="application/jq-path",
        kind=Kind.APPLICATION,
        field="ignoreDifferences",
        consequence="With one that does not compile the application cannot be compared.",
        bad=_application(".spec.template.spec.containers[] |"),
        good=_application('.spec.template.spec.containers[] | select(.name == "shop")'),
    ),
    _rule(
        id="applicationset/jq-path",
        kind=Kind.APPLICATION_SET,
        field="ignoreApplicationDifferences",
        consequence="With one that does not compile the controller cannot update applications.",
        bad=_application_set(".spec.source | without(.helm)"),
        good=_application_set(".spec.source.helm.values"),
    ),
)
