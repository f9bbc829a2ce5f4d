"""`impersonation.check-writer`: may the writer act as the accounts that a project names?

Asked of the API server by SubjectAccessReview, remembered for a while, and never waited for too long: a question that
gets no answer is a no, and so is one too many. It proves what the writer may do now on this cluster; it cannot prove
that nobody gave the account more rights afterwards, and it says nothing about other clusters.
"""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any

import orjson

from argocd import globs
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
"""Asked for one write at most: each is a call, and they have two seconds together."""
PATTERNS = 64
"""Tried on our URLs for one write at most; those after them are taken to mean this cluster."""

_HOSTS = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
IN_CLUSTER_URLS = frozenset(f"https://{host}{port}" for host in _HOSTS for port in ("", ":443"))

Account = tuple[str, str]
"""Namespace and name; without a namespace that of every namespace."""
Asking = Callable[[], Coroutine[Any, Any, list[Judgement]]]


class AccessReviews:
    """`urls` are addresses of this API server besides those that every cluster has."""

    def __init__(
        self, store: Store, *, urls: Iterable[str] = (), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._urls = IN_CLUSTER_URLS.union(urls)
        self._clock = clock
        self._answers: OrderedDict[bytes, tuple[float, bool]] = OrderedDict()

    def check(self, case: Case) -> Asking | None:
        """What asks; None where there is nothing to ask: no account is named anew, or Argo CD itself writes."""
        if (
            case.kind is not Kind.PROJECT
            or case.operation is Operation.DELETE
            or is_argocd(case.writer, case.surroundings)
        ):
            return None
        before = {entry[:3] for entry in entries_of(case.old)}
        entries = self._means_here([entry for entry in entries_of(case.object) if entry[:3] not in before])
        return partial(self._judge, case, entries) if entries else None

    def _means_here(self, entries: list[ServiceAccountEntry]) -> list[ServiceAccountEntry]:
        servers = dict.fromkeys(entry.server for entry in entries)
        patterns = [server for server in servers if not is_literal(server)]
        here = {server for server in servers if server.lower().rstrip("/") in self._urls}
        here |= {pattern for pattern in patterns[:PATTERNS] if self._matches_us(pattern)}
        here |= set(patterns[PATTERNS:])
        return [entry for entry in entries if entry.server in here]

    def _matches_us(self, pattern: str) -> bool:
        return any(globs.match(pattern, url) is globs.Verdict.YES for url in self._urls)

    async def _judge(self, case: Case, entries: list[ServiceAccountEntry]) -> list[Judgement]:
        refusal = case.surroundings.configuration.enforced(Action.DENY)
        judgements: list[Judgement] = []
        asked: dict[Account, str] = {}
        """What is wrong with each, which is nothing where the writer may."""
        deadline = asyncio.get_running_loop().time() + ANSWER_SECONDS
        for entry in entries:
            for account in _accounts(entry, case):
                if account not in asked:
                    if len(asked) == QUESTIONS:
                        said = f"this entry and those after it were not checked: at most {QUESTIONS} accounts are at once"
                        hint = "Add entries in several steps."
                        return [*judgements, _judgement(entry, refusal, said, hint)]
                    asked[account] = await self._problem(case, account, deadline=deadline)
                if asked[account]:
                    hint = "Ask somebody who may, or grant the writer this right."
                    judgements.append(_judgement(entry, refusal, asked[account], hint))
                    break
        return judgements

    async def _problem(self, case: Case, account: Account, *, deadline: float) -> str:
        user, (namespace, name) = case.writer.user, account
        whom = (
            f"the service account {namespace}/{name}"
            if namespace
            else f"service accounts {name} of every namespace"
        )
        try:
            async with asyncio.timeout_at(deadline):
                allowed = await self._may_impersonate(user, case.writer.groups, account)
        except (ApiError, TimeoutError):
            return f"the API server did not say whether {user} may impersonate {whom}"
        return "" if allowed else f"{user} may not impersonate {whom}"

    async def _may_impersonate(self, user: str, groups: tuple[str, ...], account: Account) -> bool:
        # Of the texts, which are the caller's, only a digest is kept.
        question = hashlib.sha256(orjson.dumps((user, groups, account))).digest()
        held = self._answers.get(question)
        if held is not None and self._clock() - held[0] < REMEMBERED_SECONDS:
            return held[1]
        namespace, name = account
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


def unchecked(case: Case) -> Judgement:
    """Nobody found out in time which accounts are meant: a question without an answer is a no."""
    message = "the accounts were not checked: finding out which are meant takes more steps than a review has"
    hint = "Use fewer and simpler patterns for servers."
    action = case.surroundings.configuration.enforced(Action.DENY)
    return Judgement(Finding(RULE, "spec.destinationServiceAccounts", message, hint), action)


def _accounts(entry: ServiceAccountEntry, case: Case) -> list[Account]:
    """Whom Argo CD may come to act as. Where an Application has no namespace to go to, that is in its own."""
    namespace, name = account_of(entry)
    if namespace or entry.namespace:
        return [(namespace, name)]
    others = case.surroundings.settings.application_namespaces
    if others is None or not all(map(is_literal, others)):
        return [("", name)]
    argocd = case.surroundings.configuration.argocd.namespace
    return [(each, name) for each in dict.fromkeys((argocd, *others))]


def _judgement(entry: ServiceAccountEntry, action: Action, message: str, hint: str) -> Judgement:
    return Judgement(Finding(RULE, f"{entry.path}.defaultServiceAccount", message, hint), action)
