"""The three endpoints' decisions: a review in, an answer out, from the state of the cluster at that moment.

Pure but for the access review that `impersonation.check-writer` asks for: then the decision is awaited.
"""

import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from datetime import date
from typing import Any, Protocol

from jsonpointer import escape

from argocd import reading
from argocd.agents import autonomous_projects
from argocd.budget import BudgetExceededError, StepBudget
from argocd.engine.judge import Judgement, costs_too_much, judge, weigh
from argocd.judging.case import Action, Case, Finding, Kind, Operation, Surroundings, User, kind_of
from argocd.judging.writers import is_kubernetes_cleaning_up
from argocd.tracking import completion as tracking_completion
from webhook.admission.access_reviews import AccessReviews, Asking, unchecked
from webhook.admission.cluster_state import Snapshot
from webhook.admission.messages import denial, warnings
from webhook.admission.review import PASSED, UNREAD_RULE, Review, ReviewAnswer
from webhook.injection import inject as injecting

Object = Mapping[str, Any]

_OPERATIONS = {operation.value: operation for operation in Operation}

LEFT_ALONE = "left-alone"
"""Audit annotation: why an object that could have been completed was not."""
FINDINGS, EXEMPTIONS, INJECTION = "findings", "exemptions", "injection"
"""Audit annotations: the rules that spoke, those that an exemption silenced, what happened to a pod."""


class SnapshotSource(Protocol):
    """A cluster's, or what stands for it offline."""

    @property
    def snapshot(self) -> Snapshot: ...


_DAY_SECONDS = 86_400
_EPOCH = date(1970, 1, 1).toordinal()


def _today() -> date:
    """In UTC. Each review asks, and a datetime on the way costs eight times as much."""
    return date.fromordinal(_EPOCH + int(time.time()) // _DAY_SECONDS)


class Decisions:
    """Without `access_reviews` no API server is asked, whatever the configuration says."""

    def __init__(
        self,
        state: SnapshotSource,
        *,
        access_reviews: AccessReviews | None = None,
        today: Callable[[], date] = _today,
    ) -> None:
        self._state = state
        self._access_reviews = access_reviews
        self._today = today

    def validate(self, review: Review) -> ReviewAnswer | Coroutine[Any, Any, ReviewAnswer]:
        if review.unread:
            return self._validate_unread(review)
        case = case_of(review, self._state.snapshot.surroundings)
        if case is None:
            return PASSED
        judgements = judge(case, today=self._today())
        pages_url = case.surroundings.configuration.pages.url
        if self._access_reviews is not None and case.surroundings.configuration.impersonation.check_writer:
            try:
                with self._budget(case):
                    ask = self._access_reviews.check(case)
            except BudgetExceededError:
                return _verdict(
                    review,
                    [
                        *judgements,
                        *weigh([*costs_too_much(case), unchecked(case)], case, today=self._today()),
                    ],
                    pages_url=pages_url,
                )
            if ask is not None:
                return self._validate_when_asked(review, case, judgements, ask)
        return _verdict(review, judgements, pages_url=pages_url)

    @staticmethod
    def _budget(case: Case) -> StepBudget:
        """For what is worked out besides the rules: as much again at most."""
        return StepBudget(case.surroundings.configuration.limits.review_steps)

    def _validate_unread(self, review: Review) -> ReviewAnswer:
        """Refused where it would be judged: what nobody reads must not pass because nobody read it."""
        writer = writer_of(review)
        if (
            review.operation not in {"CREATE", "UPDATE"}
            or review.subresource
            or is_kubernetes_cleaning_up(writer)
        ):
            return PASSED
        known = {"metadata": {"name": review.name, "namespace": review.namespace}}
        surroundings = self._state.snapshot.surroundings
        case = Case(kind=Kind.ANY, object=known, writer=writer, surroundings=surroundings)
        finding = Finding(
            UNREAD_RULE, "", f"the object was not read: {review.unread}", "Make it smaller or flatter."
        )
        refusal = Judgement(finding, surroundings.configuration.enforced(Action.DENY))
        return _verdict(
            review,
            weigh([refusal], case, today=self._today()),
            pages_url=surroundings.configuration.pages.url,
        )

    async def _validate_when_asked(
        self, review: Review, case: Case, judgements: list[Judgement], ask: Asking
    ) -> ReviewAnswer:
        answers = weigh(await ask(), case, today=self._today())
        return _verdict(review, [*judgements, *answers], pages_url=case.surroundings.configuration.pages.url)

    def mutate(self, review: Review) -> ReviewAnswer:
        if review.operation not in {"CREATE", "UPDATE"} or review.object is None or review.subresource:
            return PASSED
        snapshot = self._state.snapshot
        case = case_of(review, snapshot.surroundings)
        if case is not None and case.kind is Kind.PROJECT:
            return self._mutate_project(case)
        try:
            with StepBudget(snapshot.surroundings.configuration.limits.review_steps):
                completion = tracking_completion.complete(
                    review.object,
                    namespace=snapshot.namespace(review.namespace),
                    writer=writer_of(review),
                    surroundings=snapshot.surroundings,
                    group=review.group,
                )
        except BudgetExceededError:
            # A project with such patterns was stored before there was a budget, or past us.
            completion = tracking_completion.Completion(
                warnings=("not tracked: to find out whose this object is takes too long",)
            )
        return ReviewAnswer(
            patch=[*_removals(completion.removed), *_additions(review.object, completion)],
            warnings=completion.warnings,
            audit={LEFT_ALONE: "; ".join(completion.warnings)} if completion.warnings else {},
        )

    def _mutate_project(self, case: Case) -> ReviewAnswer:
        try:
            with self._budget(case):
                return ReviewAnswer(patch=autonomous_projects.admission_patch(case))
        except BudgetExceededError:
            # As it is it does not mean its agent alone, and is refused for that.
            return ReviewAnswer(warnings=("not rewritten: that takes too long",))

    def inject(self, review: Review) -> ReviewAnswer:
        if (
            review.operation != "CREATE"
            or review.kind != "Pod"
            or review.object is None
            or review.subresource
        ):
            return PASSED
        injection = injecting.inject(review.object, self._state.snapshot.templates)
        return ReviewAnswer(
            patch=injection.patch,
            warnings=injection.warnings,
            audit={INJECTION: injection.reason},
            injection=injection.reason,
        )


def case_of(review: Review, surroundings: Surroundings) -> Case | None:
    """What the rules are asked; None for what no rule is about (CONNECT, subresources)."""
    operation = _OPERATIONS.get(review.operation)
    if operation is None or review.subresource:
        return None
    judged = review.old if operation is Operation.DELETE else review.object
    if judged is None:
        return None
    kind = kind_of(judged)
    if kind is Kind.ANY and review.old is not None:
        kind = kind_of(review.old)  # a Secret that loses its label was Argo CD's until now
    return Case(
        kind=kind,
        object=judged,
        old=review.old if operation is Operation.UPDATE else None,
        operation=operation,
        writer=writer_of(review),
        surroundings=surroundings,
    )


def writer_of(review: Review) -> User:
    return User(review.user, review.groups)


def _verdict(review: Review, judgements: Sequence[Judgement], *, pages_url: str) -> ReviewAnswer:
    if not judgements:
        return PASSED
    denied = [judgement.finding for judgement in judgements if judgement.action is Action.DENY]
    warned = [judgement.finding for judgement in judgements if judgement.action is Action.WARN]
    return ReviewAnswer(
        allowed=not denied,
        message=denial(review, denied, pages_url=pages_url) if denied else "",
        warnings=warnings(warned),
        audit=dict(_audit(judgements)),
        judgements=judgements,
    )


def _audit(judgements: Sequence[Judgement]) -> Iterator[tuple[str, str]]:
    spoke = sorted({f"{judgement.finding.rule}={judgement.action.value}" for judgement in judgements})
    yield FINDINGS, ",".join(spoke)
    exempted = sorted(
        {
            f"{judgement.finding.rule}: {judgement.exemption.reason or 'no reason given'}"
            for judgement in judgements
            if judgement.exemption is not None
        }
    )
    if exempted:
        yield EXEMPTIONS, "; ".join(exempted)


def _removals(annotations: Sequence[str]) -> list[dict[str, Any]]:
    return [{"op": "remove", "path": f"/metadata/annotations/{escape(key)}"} for key in annotations]


def _additions(thing: Object, completion: tracking_completion.Completion) -> Iterator[dict[str, Any]]:
    """Each key by itself, so that two field managers and other webhooks are not disturbed."""
    for section, added in (("labels", completion.labels), ("annotations", completion.annotations)):
        if not added:
            continue
        if not isinstance(reading.value(thing, "metadata", section), Mapping):
            yield {"op": "add", "path": f"/metadata/{section}", "value": dict(added)}
            continue
        for key, value in added.items():
            yield {"op": "add", "path": f"/metadata/{section}/{escape(key)}", "value": value}
