"""What is stuck stays listed until it gets through, in bounded room, and tells no value of an object."""

from datetime import UTC, datetime, timedelta

import pytest

from sidecars.mirroring.drift import UndoneChange
from sidecars.mirroring.kinds import PROJECT
from sidecars.mirroring.repeated_drift import WITHIN
from sidecars.principal.fleet_page.stuck import (
    ADVICE,
    LONGEST_REASON,
    PER_AGENT,
    STUCK,
    StuckObject,
    StuckObjects,
    StuckReason,
    in_words,
    reason_of_condition,
)

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def undone(found: StuckObjects, now: datetime) -> bool:
    project, meant = {"spec": {"description": "mine"}}, {"spec": {"description": "as told"}}
    change = UndoneChange(kind=PROJECT, mirror=project, expected=meant)
    return found.drifted_here("a", change, place="argocd/a-web", now=now)


def stuck(
    agent: str = "a",
    place: str = "a/web",
    words: str = "no",
    since: datetime = NOW,
    kind: str = "Application",
) -> StuckObject:
    return StuckObject(
        agent=agent,
        kind=kind,
        place=place,
        reason=StuckReason.REFUSED_HERE,
        words=words,
        since=since,
    )


def test_every_reason_says_what_to_do() -> None:
    assert set(ADVICE) == set(StuckReason)


def test_it_is_listed_once_with_its_first_time_and_its_last_words() -> None:
    found = StuckObjects()
    assert found.note(stuck())
    assert not found.note(stuck(since=NOW + timedelta(minutes=1)))
    assert found.note(stuck(words="still no", since=NOW + timedelta(minutes=2)))
    (only,) = found
    assert (only.since, only.words, only.times) == (NOW, "still no", 3)


def test_it_goes_when_it_gets_through_but_not_by_what_was_sent_before_it_failed() -> None:
    found = StuckObjects()
    found.note(stuck())
    assert not found.resolve("a", "Application", "a/web", before=NOW - timedelta(seconds=1))
    assert found.resolve("a", "Application", "a/web", before=NOW + timedelta(seconds=1))
    assert not found.resolve("a", "Application", "a/web")
    assert len(found) == 0


def test_an_agent_with_endless_trouble_pushes_out_only_its_own() -> None:
    found = StuckObjects()
    found.note(stuck("b", "b/web"))
    for number in range(3 * PER_AGENT):
        found.note(stuck(place=f"a/{number}"))
    assert (found.count("a"), found.count("b")) == (PER_AGENT, 1)
    assert found.of("a")[-1].place == f"a/{3 * PER_AGENT - 1}"


def test_all_agents_together_have_a_bound() -> None:
    found = StuckObjects()
    for agent in range(STUCK // PER_AGENT + 10):
        for number in range(PER_AGENT):
            found.note(stuck(str(agent), f"x/{number}"))
    assert len(found) == len(list(found)) == STUCK
    found.forget("0")
    assert len(found) == len(list(found)) == STUCK - PER_AGENT


def test_drift_is_told_when_it_is_undone_for_the_third_time_within_ten_minutes() -> None:
    found = StuckObjects()
    assert not undone(found, NOW)
    assert not undone(found, NOW + timedelta(minutes=1))
    assert undone(found, NOW + timedelta(minutes=2))
    (only,) = found
    assert only.reason is StuckReason.DRIFT
    assert "3 times, last at 12:02:00 UTC: spec.description." in only.words
    assert found.calm(now=NOW + WITHIN) == set()
    assert found.calm(now=NOW + WITHIN + timedelta(minutes=3)) == {"a"}
    assert len(found) == 0


def test_drift_that_goes_on_stays_listed_and_counts_on() -> None:
    found = StuckObjects()
    for minute in range(60):
        now = NOW + timedelta(minutes=minute)
        undone(found, now)
        assert found.calm(now=now) == set()
    (only,) = found
    assert "60 times" in only.words
    assert only.since == NOW


def test_what_gets_through_does_not_end_drift_and_what_is_gone_does() -> None:
    found = StuckObjects()
    found.note(stuck(place="argocd/a-web", kind="AppProject"))
    for _ in range(3):
        undone(found, NOW)
    assert found.count("a") == 2
    assert found.resolve("a", "AppProject", "argocd/a-web")
    assert [each.reason for each in found] == [StuckReason.DRIFT]
    assert found.withdrawn("a", "AppProject", "argocd/a-web")
    assert not found.withdrawn("a", "AppProject", "argocd/a-web")
    assert len(found) == 0


def test_drift_that_was_pushed_out_is_not_looked_for_later() -> None:
    found = StuckObjects()
    for _ in range(3):
        undone(found, NOW)
    for number in range(PER_AGENT):
        found.note(stuck(place=f"a/{number}"))
    assert all(not each.is_drift for each in found)
    assert found.calm(now=NOW + timedelta(hours=1)) == set()
    assert found.count("a") == PER_AGENT


def test_drift_now_and_then_is_nobodys_business() -> None:
    found = StuckObjects()
    for hour in range(5):
        assert not undone(found, NOW + timedelta(hours=hour))


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            'Application "web" is invalid: spec.project: Invalid value: "hunter2": must not be empty',
            'Application "web" is invalid: spec.project: Invalid value: (not shown): must not be empty',
        ),
        ('spec.x: Invalid value: {"a":"b"}: no', "spec.x: Invalid value: (not shown): no"),
        ("spec.n: Invalid value: 17: too small", "spec.n: Invalid value: (not shown): too small"),
        (
            "fetch https://bob:hunter2@git.example.org/x failed",
            "fetch https://[removed]@git.example.org/x failed",
        ),
    ],
)
def test_what_an_api_server_quotes_is_not_shown(message: str, words: str) -> None:
    assert in_words(message) == words


def test_a_reason_has_an_end() -> None:
    assert len(in_words("no " * 100_000)) == LONGEST_REASON


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("not sent to agent a: too large", StuckReason.TOO_LARGE),
        ("agent a: forbidden", StuckReason.REFUSED_HERE),
        ("agent a: AppProject x is not a mirror of agent a's: rename one of the two", StuckReason.CONFLICT),
        ("namespace gone", StuckReason.REFUSED_THERE),
    ],
)
def test_a_condition_says_whose_refusal_it_was(message: str, reason: StuckReason) -> None:
    assert reason_of_condition(message, agent="a") is reason
