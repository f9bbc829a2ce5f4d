"""A review answered the way an API server would use our two endpoints: mutation, then validation of the result."""

import copy
from dataclasses import dataclass, replace
from enum import StrEnum

from kube.patches import apply_json_patch
from webhook.admission.cluster_state import Snapshot
from webhook.admission.decisions import Decisions
from webhook.admission.review import Review, ReviewAnswer


class Part(StrEnum):
    MUTATE = "mutate"
    VALIDATE = "validate"


@dataclass(frozen=True, slots=True)
class FixedState:
    """In place of a cluster's: nothing changes it."""

    snapshot: Snapshot


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
