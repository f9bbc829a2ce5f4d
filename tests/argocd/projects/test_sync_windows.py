"""Sync windows."""

from typing import Any

import pytest

from argocd.go import cron, durations
from tests.argocd import sync_window

GOOD = {"kind": "allow", "schedule": "0 8 * * 1-5", "duration": "1h", "applications": ["*"]}


def test_a_good_window_passes() -> None:
    assert sync_window.problems(GOOD) == []


def test_everything_that_is_wrong_is_said_in_argocds_order() -> None:
    assert sync_window.problems(
        {"kind": "x", "schedule": "* * *", "duration": "1d", "description": "é" * 128}
    ) == [
        "kind 'x' mismatch: can only be allow or deny",
        "cannot parse schedule '* * *': expected exactly 5 fields, found 3: [* * *]",
        'cannot parse duration \'1d\': time: unknown unit "d" in duration "1d"',
        "description must not exceed 255 characters",
    ]


def test_a_schedule_can_make_argocd_panic() -> None:
    assert sync_window.panics("TZ=UTC")
    assert (
        "Argo CD panics on a time zone with nothing after it"
        in sync_window.problems({**GOOD, "schedule": "TZ=UTC"})[0]
    )
    assert not sync_window.panics("* * * * *")


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({}, True),
        ({"manualSync": True, "description": "x", "syncOverrun": True}, True),
        ({"kind": "deny"}, False),
        ({"timeZone": "UTC"}, False),
        ({"andOperator": True}, False),
        ({"applications": ["*", "*"]}, False),
        ({"namespaces": []}, True),
        ({"namespaces": ["a"]}, False),
    ],
)
def test_two_windows_are_the_same(change: dict[str, Any], *, same: bool) -> None:
    assert sync_window.are_same(GOOD, {**GOOD, **change}, version=(3, 5)) is same


def test_before_3_2_three_fields_decided() -> None:
    assert sync_window.are_same(GOOD, {**GOOD, "applications": ["a"]}, version=(3, 1))


def test_long_texts_are_judged_and_not_remembered() -> None:
    def remembered() -> list[int]:
        return [one.short.cache_info().currsize for one in (cron.read, durations.read)]

    assert sync_window.problems(GOOD) == []
    before = remembered()
    assert sync_window.problems({**GOOD, "description": "x" * 301})
    assert sync_window.problems({**GOOD, "schedule": "x" * 301})
    assert sync_window.problems({**GOOD, "schedule": f"{','.join(['1'] * 300)} * * * *"}) == []
    assert sync_window.problems({**GOOD, "duration": "1h" * 301}) == []
    assert remembered() == before
