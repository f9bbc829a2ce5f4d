"""A review answered the way an API server would use our two endpoints: mutation, then validation of the result."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum

from argocd.engine.judge import Judgement
from kube.patches import apply_json_patch
from webhook.admission.decisions import Decisions
from webhook.admission.review import Review, ReviewAnswer
from webhook.injection.inject import InjectionReason


class Part(StrEnum):
    MUTATE = "mutate"
    VALIDATE = "validate"


class Unheard:
    """Nobody counts what is only rehearsed."""

    def judged(self, review: Review, judgements: Sequence[Judgement]) -> None: ...

    def injected(self, reason: InjectionReason) -> None: ...


def rehearse(decisions: Decisions, review: Review, *, part: Part | None = None) -> ReviewAnswer:
    """Both endpoints in turn, or the one that is named. A denial carries no patch, as with the API server."""
    if part is Part.VALIDATE:
        return _validated(decisions, review)
    mutated = decisions.mutate(review)
    if part is Part.MUTATE:
        return mutated
    if mutated.patch and review.object is not None:
        changed = apply_json_patch(copy.deepcopy(dict(review.object)), [dict(one) for one in mutated.patch])
        review = replace(review, object=changed)
    validated = _validated(decisions, review)
    return replace(
        validated,
        patch=mutated.patch if validated.allowed else (),
        warnings=[*mutated.warnings, *validated.warnings],
        audit={**mutated.audit, **validated.audit},
    )


def _validated(decisions: Decisions, review: Review) -> ReviewAnswer:
    answer = decisions.validate(review)
    assert isinstance(answer, ReviewAnswer), "nothing is asked of an API server here"
    return answer
