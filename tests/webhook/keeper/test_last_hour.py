"""What the status page draws: counts of the last hour, which workers told."""

import orjson

from webhook.keeper.last_hour import MINUTES, RULES, LastHour
from webhook.keeper.worker_reports import Reports


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


def test_each_minute_has_its_own_counts_and_an_hour_later_none() -> None:
    clock = Clock()
    hour = LastHour(clock)
    hour.add(reviews=3, denials=1, rules={"a/b": 2})
    hour.add(reviews=1, denials=0, rules={})
    clock.now += 120
    hour.add(reviews=5, denials=0, rules={"a/c": 1, "a/b": 1})
    assert len(hour.counts) == MINUTES
    assert hour.counts[-3:] == [(4, 1), (0, 0), (5, 0)]
    assert hour.loudest(1) == [("a/b", 3)]
    clock.now += 58 * 60
    assert hour.loudest(5) == [("a/c", 1), ("a/b", 1)]
    clock.now += 120
    assert hour.counts == [(0, 0)] * MINUTES
    assert hour.loudest(5) == []


def test_names_of_rules_that_nobody_has_fill_no_memory() -> None:
    hour = LastHour(Clock())
    for number in range(RULES * 2):
        hour.add(reviews=0, denials=0, rules={f"made/up-{number}": 1})
    assert len(hour.loudest(RULES * 2)) == RULES


def test_what_workers_tell_is_added_and_nonsense_is_dropped() -> None:
    reports = Reports()
    for pid in (1, 2):
        counted = {"reviews": 10, "denials": 2, "rules": {"project/namespace": 2}}
        reports.take(orjson.dumps({"worker": pid, "counted": counted}))
    for wrong in (
        {"reviews": 1},
        {"reviews": "x", "denials": 0, "rules": {}},
        {"reviews": 1, "denials": 0, "rules": 7},
        7,
    ):
        reports.take(orjson.dumps({"worker": 1, "counted": wrong}))
    assert sum(reviews for reviews, _ in reports.last_hour.counts) in {20, 21}
    assert reports.last_hour.loudest(9) == [("project/namespace", 4)]
