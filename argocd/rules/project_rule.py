"""How rules about a project are made: those about one look at it, and those about what the API server refuses."""

from collections.abc import Callable, Iterable, Sequence

from argocd.judging.case import Action, Case, Check, Finding, Kind, Profile, Rule, SharedLook
from argocd.judging.memo import Remembered
from argocd.projects.rule_ids import RefusalId
from argocd.projects.validation import ValidationProblem, validate
from argocd.rules import examples

PROJECT = frozenset({Kind.PROJECT})

Notice = Callable[[Case], Sequence[Finding]]


def noticed(rule: str, notice: Notice) -> Check:
    """Of the findings that one look at the project makes for several rules, those of this one."""

    def tell(_case: Case, found: Sequence[Finding]) -> Iterable[Finding]:
        return [finding for finding in found if finding.rule == rule]

    return SharedLook(notice, tell)


def project_rule(
    rule: str,
    *,
    check: Check | Remembered[Finding],
    reads: tuple[str, ...],
    title: str,
    explanation: str,
    bad: str,
    good: str,
    profile: Profile = Profile.RECOMMENDED,
    action: Action = Action.WARN,
    refused_by_argocd: bool = False,
    needs: tuple[str, ...] = (),
    opinion: str = "",
    mild_when: Callable[[Case], bool] | None = None,
) -> Rule:
    """A remembered look is one that rules share: each tells what was found for it.

    The examples are what stands under `spec`, or whole objects.
    """
    return Rule(
        id=rule,
        kinds=PROJECT,
        profile=profile,
        action=action,
        refused_by_argocd=refused_by_argocd,
        reads=reads,
        title=title,
        explanation=explanation,
        bad=_example(bad),
        good=_example(good),
        check=noticed(rule, check) if isinstance(check, Remembered) else check,
        needs=needs,
        opinion=opinion,
        mild_when=mild_when,
    )


def _example(text: str) -> str:
    return text if text.startswith("apiVersion") else examples.project(spec=text)


@Remembered
def _problems(case: Case) -> list[ValidationProblem]:
    version = case.surroundings.configuration.argocd.version
    return validate(case.object, version=version, old=case.old)


def refused(
    rule: RefusalId,
    *,
    reads: tuple[str, ...],
    title: str,
    explanation: str,
    hint: str,
    bad: str,
    good: str,
    mild_when: Callable[[Case], bool] | None = None,
) -> Rule:
    """A rule for one thing that Argo CD's API server refuses: all of them ask one validation of the whole project."""

    def tell(_case: Case, problems: Sequence[ValidationProblem]) -> Iterable[Finding]:
        return [Finding(rule, one.path, one.message, hint) for one in problems if one.rule == rule]

    return project_rule(
        rule,
        check=SharedLook(_problems, tell),
        reads=reads,
        title=title,
        explanation=explanation,
        bad=bad,
        good=good,
        profile=Profile.PARITY,
        action=Action.DENY,
        mild_when=mild_when,
    )
