"""Schedules; the golden file holds answers of robfig/cron as Argo CD uses it."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argocd.go import cron, time_zones
from argocd.go.cron import Schedule, ScheduleError, SchedulePanicError

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "schedules.json").read_text())

HOUR, DAY = 60, 24 * 60


def test_the_originals_answers_are_ours() -> None:
    wrong = []
    for text, verdict, error in GOLDEN:
        read = cron.read(text)
        if isinstance(read, Schedule):
            said = "never" if read.never_fires else "fires"
        else:
            said = "panic" if isinstance(read, SchedulePanicError) else "bad"
        if said != verdict or (error and str(read) != error):
            wrong.append((text, verdict, said, error, str(read)))
    assert not wrong


@pytest.mark.parametrize(
    "text",
    [
        "0 0 31 2 *",
        "0 0 30 2 *",
        "0 0 31 4,6,9,11 *",
        ", * * * *",
        "* , * * *",
        "* * , * ,",
        "* * * , *",
        "* * * * ,",
        "0 0 , * *",
    ],
)
def test_a_schedule_can_never_come_true(text: str) -> None:
    assert cron.parse(text).never_fires


@pytest.mark.parametrize("text", ["0 0 29 2 *", "0 0 31 2 1", "* * * * *", "0 0 31 1,2 *", "0 0 1 * ,"])
def test_a_schedule_comes_true_some_day(text: str) -> None:
    assert not cron.parse(text).never_fires


@pytest.mark.parametrize(
    ("text", "longest"),
    [
        ("* * * * *", 1),
        ("0 * * * *", HOUR),
        ("0 22 * * *", DAY),
        ("0 8,20 * * *", 12 * HOUR),
        ("0 8,9 * * *", 23 * HOUR),
        ("0 8 * * 1-5", 3 * DAY),
        ("0 0 * * 6", 7 * DAY),
        ("0 0 1 * *", 31 * DAY),
        ("0 0 1,15 * *", 17 * DAY),
        ("0 0 1 jan *", 366 * DAY),
        ("0 0 1 * 1", 7 * DAY),
        ("0 0 1-31 * 1", DAY),
    ],
)
def test_the_longest_pause_is_known(text: str, longest: int) -> None:
    schedule = cron.parse(text)
    assert not schedule.pauses_longer_than(longest)
    assert schedule.pauses_longer_than(longest - 1)


def test_a_day_or_a_month_that_is_left_out_is_noticed_at_once() -> None:
    assert cron.parse("0 8 * * 1-5").pauses_longer_than(DAY)
    assert cron.parse("0 0 1 jan *").pauses_longer_than(20 * DAY)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("", "empty spec string"),
    ],
)
def test_the_words_are_the_originals(text: str, error: str) -> None:
    assert str(cron.read(text)) == error


def test_a_zone_with_nothing_after_it_makes_argocd_panic() -> None:
    assert isinstance(cron.read("TZ=UTC"), SchedulePanicError)
    assert isinstance(cron.read("CRON_TZ=UTC\t*"), SchedulePanicError)
    assert isinstance(cron.read("TZ=Europe/Paris * * * * *"), Schedule)
    assert str(cron.read("TZ=x * * * * *")) == "provided bad location x: unknown time zone x"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", ""),
        ("UTC", ""),
        ("Local", ""),
        ("America/New_York", ""),
        ("US/Pacific", ""),
        ("europe/amsterdam", "unknown time zone europe/amsterdam"),
        ("GMT+2", "unknown time zone GMT+2"),
        ("../etc/passwd", "time: invalid location name"),
        ("/etc/localtime", "time: invalid location name"),
    ],
)
def test_time_zones_are_those_of_the_database(name: str, problem: str) -> None:
    assert time_zones.problem(name) == problem


@given(st.text(st.sampled_from("0123456789*?/,-+ \tjanLW#@TZ=é"), max_size=30))
def test_every_text_gets_an_answer(text: str) -> None:
    assert isinstance(cron.read(text), Schedule | ScheduleError | SchedulePanicError)
