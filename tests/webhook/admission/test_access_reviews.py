"""`impersonation.check-writer` without a cluster: what its answers come to, and how long it waits for them."""

import asyncio
import time
from datetime import date
from typing import Any, cast

import pytest

from argocd.engine.configuration_file import parse_configuration
from argocd.judging.case import Surroundings
from argocd.settings.argocd_cm import ImpersonationSwitch, Settings
from tests.argocd.fake_neighbours import Nothing
from tests.webhook.conftest import review
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


class Telling(Refusing):
    """One that allows what it is told to, and tells what it was asked."""

    def __init__(self, *allowed: str) -> None:
        super().__init__()
        self.allowed = set(allowed)
        self.questions: list[str] = []

    async def create(self, _resource: Any, body: dict[str, Any]) -> dict[str, Any]:
        attributes = body["spec"]["resourceAttributes"]
        self.questions.append(f"{attributes['namespace']}/{attributes['name']}")
        return {"status": {"allowed": self.questions[-1] in self.allowed}}


def entry(namespace: str = "web", account: str = "a", server: str = HERE) -> dict[str, str]:
    return {"server": server, "namespace": namespace, "defaultServiceAccount": account}


def project(entries: list[dict[str, str]]) -> dict[str, Any]:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": "sample", "namespace": "argocd"},
        "spec": {"destinationServiceAccounts": entries},
    }


def validated(
    server: Refusing,
    *entries: dict[str, str],
    old: list[dict[str, str]] | None = None,
    settings: Settings | None = None,
    neighbours: Nothing | None = None,
    user: str = "jason",
    **configured: Any,
) -> ReviewAnswer:
    configuration, problems = parse_configuration(
        {"profile": "parity", "impersonation": {"check-writer": True}, **configured}
    )
    assert not problems
    surroundings = Surroundings(
        settings=settings or Settings(), configuration=configuration, neighbours=neighbours or Nothing()
    )
    decisions = Decisions(
        FixedState(Snapshot(surroundings)),
        access_reviews=AccessReviews(cast("Any", server), urls=("https://10.0.0.1",)),
        today=lambda: date(2026, 11, 1),
    )
    request: dict[str, Any] = {
        "object": project(list(entries) or [entry("web0")]),
        "userInfo": {"username": user},
    }
    if old is not None:
        request |= {"operation": "UPDATE", "oldObject": project(old)}

    async def decide() -> ReviewAnswer:
        decided = decisions.validate(decode(review(**request)))
        return decided if isinstance(decided, ReviewAnswer) else await decided

    return asyncio.run(decide())


def many(count: int) -> list[dict[str, str]]:
    return [entry(f"web{number}") for number in range(count)]


def test_accounts_that_take_too_much_work_to_find_are_refused_unasked() -> None:
    costly = [entry(server=f"https://{{a*,b?*,{number}*c*}}{{d*,e?*}}") for number in range(60)]
    quiet = {"project/*": "off", "impersonation/*": "off"}
    server = Telling()
    assert validated(server, *costly, rules=quiet).allowed
    answer = validated(server, *costly, rules=quiet, limits={"review-steps": 1000})
    assert not answer.allowed
    assert "[object/too-costly]" in answer.message
    assert server.questions == []
    tolerant = {**quiet, "object/too-costly": "off"}
    answer = validated(server, *costly, rules=tolerant, limits={"review-steps": 1000})
    assert not answer.allowed
    assert "the accounts were not checked" in answer.message


def test_who_may_not_is_refused() -> None:
    answer = validated(Refusing())
    assert not answer.allowed
    assert "jason may not impersonate the service account web0/a" in answer.message
    assert answer.message.endswith("Ask somebody who may, or grant the writer this right.")


def test_in_a_careful_first_week_it_is_a_warning() -> None:
    answer = validated(Refusing(), enforcement="warn")
    assert answer.allowed
    assert "may not impersonate" in answer.warnings[0]


def test_an_exemption_counts() -> None:
    exemption = {"rules": ["impersonation/*"], "names": ["sample"], "reason": "ticket 1"}
    answer = validated(Refusing(), exemptions=[exemption])
    assert answer.allowed
    assert answer.audit["exemptions"] == "impersonation/writer-may-impersonate: ticket 1"


def test_an_api_server_that_does_not_answer_is_waited_for_once_and_is_a_no(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(access_reviews, "ANSWER_SECONDS", 0.2)
    started = time.monotonic()
    answer = validated(Silent(), *many(QUESTIONS))
    assert time.monotonic() - started < 0.2 * QUESTIONS / 2
    assert not answer.allowed
    assert answer.message.count("the API server did not say whether") == QUESTIONS


def test_more_accounts_than_can_be_asked_about_are_refused() -> None:
    server = Telling(*(f"web{number}/a" for number in range(QUESTIONS)))
    answer = validated(server, *many(QUESTIONS + 2))
    assert len(server.questions) == QUESTIONS
    assert not answer.allowed
    assert "this entry and those after it were not checked" in answer.message


def test_one_account_is_asked_about_once_however_often_it_stands_there() -> None:
    server = Telling("web/a")
    assert validated(server, *[entry(server=f"{HERE}{'/' * number}") for number in range(9)]).allowed
    assert server.questions == ["web/a"]


@pytest.mark.parametrize("namespace", ["kube-syste[m]", "{kube-system}", "*", "web-?"])
def test_a_glob_is_asked_about_for_every_namespace(namespace: str) -> None:
    server = Telling()
    answer = validated(server, entry(namespace))
    assert server.questions == ["/a"]
    assert "jason may not impersonate service accounts a of every namespace" in answer.message
    assert validated(Telling("/a"), entry(namespace)).allowed


def test_no_namespace_means_argo_cds_and_every_applications() -> None:
    server = Telling("argocd/a", "team-1/a")
    known = Settings(application_namespaces=("team-1", "team-2"))
    assert "team-2/a" in validated(server, entry(""), settings=known).message
    assert server.questions == ["argocd/a", "team-1/a", "team-2/a"]
    for namespaces in (None, ("team-*",)):
        server = Telling()
        assert not validated(server, entry(""), settings=Settings(application_namespaces=namespaces)).allowed
        assert server.questions == ["/a"]


@pytest.mark.parametrize(
    "url",
    [
        "https://kubernetes.default.svc.cluster.local",
        "https://kubernetes.default.svc:443",
        "https://KUBERNETES.default.svc/",
        "https://kubernetes",
        "https://10.0.0.1",
        "https://10.0.0.*",
        "*",
    ],
)
def test_other_urls_of_this_cluster_count(url: str) -> None:
    assert not validated(Refusing(), entry(server=url)).allowed


def test_other_clusters_are_not_asked_about() -> None:
    server = Telling()
    entries = [entry(server=url) for url in ("https://elsewhere.test", "https://10.0.0.2", "https://*.test")]
    assert validated(server, *entries).allowed
    assert server.questions == []


def test_patterns_that_nobody_tried_are_taken_to_mean_this_cluster() -> None:
    patterns = [entry(server=f"https://{number}.*.test") for number in range(access_reviews.PATTERNS + 1)]
    assert validated(Refusing(), *patterns[:-1]).allowed
    assert not validated(Refusing(), *patterns).allowed


def test_an_entry_that_only_moved_is_not_asked_about() -> None:
    assert validated(Refusing(), entry("b"), old=[entry("a"), entry("b")]).allowed
    assert not validated(Refusing(), entry("b"), old=[entry("b", account="other")]).allowed


class Naming(Nothing):
    """Where every account is one that a project names."""

    def is_sync_account(self, *_: str) -> bool:
        return True


def test_an_account_that_a_project_names_is_asked_about_like_any_other() -> None:
    on = Settings(impersonation=ImpersonationSwitch(enabled=True))
    account = "system:serviceaccount:team:deployer"
    assert not validated(Refusing(), settings=on, neighbours=Naming(), user=account).allowed
    controller = "system:serviceaccount:argocd:argocd-server"
    assert validated(Refusing(), settings=on, neighbours=Naming(), user=controller).allowed


async def test_what_is_remembered_has_no_text_of_a_caller() -> None:
    reviews = AccessReviews(cast("Any", Refusing()))
    for number in range(3):
        await reviews._may_impersonate("user" * 250, ("group" * 200,), ("web", f"a{number}"))
    assert {len(key) for key in reviews._answers} == {32}
