"""`impersonation.check-writer` without a cluster: what its answers come to, and how long it waits for them."""

import asyncio
import time
from datetime import date
from typing import Any, cast

import pytest

from argocd.engine.configuration_file import parse_configuration
from argocd.judging.case import Surroundings
from argocd.settings.argocd_cm import Settings
from tests.argocd.fake_neighbours import Nothing
from tests.webhook.conftest import ROOT, review
from webhook.admission import access_reviews
from webhook.admission.access_reviews import QUESTIONS, AccessReviews
from webhook.admission.cluster_state import Snapshot
from webhook.admission.decisions import Decisions
from webhook.admission.offline import FixedState
from webhook.admission.review import ReviewAnswer, decode

HERE = "https://kubernetes.default.svc"


class Refusing:
    """An API server that lets nobody impersonate anybody."""

    def __init__(self) -> None:
        self.asked = 0

    async def create(self, *_: Any, **__: Any) -> dict[str, Any]:
        self.asked += 1
        return {"status": {"allowed": False}}


class Silent(Refusing):
    async def create(self, *_: Any, **__: Any) -> dict[str, Any]:
        self.asked += 1
        await asyncio.Event().wait()
        return {}


def project(count: int) -> dict[str, Any]:
    entries = [
        {"server": HERE, "namespace": f"web{number}", "defaultServiceAccount": "a"} for number in range(count)
    ]
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": "sample", "namespace": "argocd"},
        "spec": {"destinationServiceAccounts": entries},
    }


def validated(server: Refusing, *, count: int = 1, **configured: Any) -> ReviewAnswer:
    configuration, problems = parse_configuration(
        {"profile": "parity", "impersonation": {"check-writer": True}, **configured}
    )
    assert not problems
    surroundings = Surroundings(settings=Settings(), configuration=configuration, neighbours=Nothing())
    decisions = Decisions(
        FixedState(Snapshot(surroundings)),
        access_reviews=AccessReviews(cast("Any", server)),
        today=lambda: date(2026, 11, 1),
    )

    async def decide() -> ReviewAnswer:
        decided = decisions.validate(decode(review(object=project(count))))
        return decided if isinstance(decided, ReviewAnswer) else await decided

    return asyncio.run(decide())


def test_who_may_not_is_refused() -> None:
    answer = validated(Refusing())
    assert not answer.allowed
    assert "jason may not impersonate the service account web0/a" in answer.message
    assert "see docs/webhook.md#what-can-check-writer-not-prove" in answer.message
    assert "\n## What can check-writer not prove?\n" in (ROOT / "docs/webhook.md").read_text()


def test_in_a_careful_first_week_it_is_a_warning() -> None:
    answer = validated(Refusing(), enforcement="warn")
    assert answer.allowed
    assert "may not impersonate" in answer.warnings[0]


def test_an_exemption_counts() -> None:
    exemption = {"rules": ["impersonation/*"], "names": ["sample"], "reason": "ticket 1"}
    answer = validated(Refusing(), exemptions=[exemption])
    assert answer.allowed
    assert answer.audit["exemptions"] == "impersonation/writer-may-impersonate: ticket 1"


def test_an_api_server_that_does_not_answer_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_reviews, "ANSWER_SECONDS", 0.2)
    started = time.monotonic()
    answer = validated(Silent(), count=QUESTIONS)
    assert time.monotonic() - started < 0.2 * QUESTIONS / 2
    assert answer.allowed
    [line] = answer.warnings
    assert "the API server did not say" in line
    assert f"[{QUESTIONS - 1} more" in line


def test_more_accounts_than_are_asked_about_are_told() -> None:
    server = Refusing()
    answer = validated(server, count=QUESTIONS + 2, enforcement="warn")
    assert server.asked == QUESTIONS
    assert "this entry and those after it were not checked" in answer.warnings[-1]
