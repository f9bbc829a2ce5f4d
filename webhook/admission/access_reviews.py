"""`impersonation.check-writer`: may the writer act as the account that a project names?

Asked of the API server by SubjectAccessReview, remembered for a while, and never waited for too long: a
question that gets no answer is a warning. It proves what the writer may do now on this cluster; it cannot
prove that nobody gave the account more rights afterwards, and it says nothing about other clusters.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator

from argocd import globs, names
from argocd.engine.judge import Judgement
from argocd.globs.covering import is_literal
from argocd.impersonation.accounts import account_of
from argocd.impersonation.derivation import ServiceAccountEntry, entries_of
from argocd.judging.case import Action, Case, Finding, Kind, Operation
from argocd.judging.writers import is_argocd
from kube.errors import ApiError
from kube.resources import SUBJECT_ACCESS_REVIEWS
from kube.store import Store

RULE = "impersonation/writer-may-impersonate"

REMEMBERED_SECONDS = 30.0
REMEMBERED = 4096
ANSWER_SECONDS = 2.0
"""For all questions about one project: the API server waits five for us."""
QUESTIONS = 16
"""Asked for one project at most: more entries than this are told, not asked."""

Question = tuple[str, tuple[str, ...], str, str]
"""User, groups, namespace and name of the account."""


class AccessReviews:
    def __init__(self, store: Store, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._answers: OrderedDict[Question, tuple[float, bool]] = OrderedDict()

    def check(self, case: Case) -> Awaitable[list[Judgement]] | None:
        """None where there is nothing to ask: no account is named anew, or Argo CD itself writes."""
        if (
            case.kind is not Kind.PROJECT
            or case.operation is Operation.DELETE
            or is_argocd(case.writer, case.surroundings)
        ):
            return None
        before = set(entries_of(case.old)) if case.old is not None else set()
        entries = [entry for entry in _entries_here(case) if entry not in before]
        return self._judge(case, entries) if entries else None

    async def _judge(self, case: Case, entries: list[ServiceAccountEntry]) -> list[Judgement]:
        judgements = []
        refusal = case.surroundings.configuration.enforced(Action.DENY)
        deadline = asyncio.get_running_loop().time() + ANSWER_SECONDS
        for entry in entries[:QUESTIONS]:
            namespace, name = account_of(entry)
            try:
                async with asyncio.timeout_at(deadline):
                    allowed = await self._may_impersonate(
                        (case.writer.user, case.writer.groups, namespace, name)
                    )
            except (ApiError, TimeoutError):
                said = f"the API server did not say whether {case.writer.user} may impersonate {namespace}/{name}"
                judgements.append(_judgement(entry, Action.WARN, said, "Try again to have it checked."))
                continue
            if not allowed:
                said = f"{case.writer.user} may not impersonate the service account {namespace}/{name}"
                hint = "Ask somebody who may, or grant the writer this right."
                judgements.append(_judgement(entry, refusal, said, hint))
        if entries[QUESTIONS:]:
            said = f"this entry and those after it were not checked: at most {QUESTIONS} are at once"
            hint = "Add entries in several steps to have all of them checked."
            judgements.append(_judgement(entries[QUESTIONS], Action.WARN, said, hint))
        return judgements

    async def _may_impersonate(self, question: Question) -> bool:
        held = self._answers.get(question)
        if held is not None and self._clock() - held[0] < REMEMBERED_SECONDS:
            return held[1]
        user, groups, namespace, name = question
        attributes = {
            "verb": "impersonate",
            "resource": "serviceaccounts",
            "namespace": namespace,
            "name": name,
        }
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "groups": list(groups), "resourceAttributes": attributes},
        }
        answer = await self._store.create(SUBJECT_ACCESS_REVIEWS, body)
        allowed = answer.get("status", {}).get("allowed") is True
        self._answers[question] = (self._clock(), allowed)
        if len(self._answers) > REMEMBERED:
            self._answers.popitem(last=False)
        return allowed


def _entries_here(case: Case) -> Iterator[ServiceAccountEntry]:
    """Entries that mean this cluster and one certain account."""
    for entry in entries_of(case.object):
        here = globs.match(entry.server, names.IN_CLUSTER_SERVER) is globs.Verdict.YES
        if here and (":" in entry.account or (entry.namespace and is_literal(entry.namespace))):
            yield entry


def _judgement(entry: ServiceAccountEntry, action: Action, message: str, hint: str) -> Judgement:
    return Judgement(Finding(RULE, f"{entry.path}.defaultServiceAccount", message, hint), action)
