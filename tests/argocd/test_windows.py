"""Sync windows."""

from typing import Any

import pytest

from argocd import cron, durations, windows
from argocd.globs import Verdict

GOOD = {"kind": "allow", "schedule": "0 8 * * 1-5", "duration": "1h", "applications": ["*"]}


def test_a_good_window_passes() -> None:
    assert windows.problems(GOOD) == []


def test_everything_that_is_wrong_is_said_in_argocds_order() -> None:
    assert windows.problems(
        {"kind": "x", "schedule": "* * *", "duration": "1d", "description": "é" * 128}
    ) == [
        "kind 'x' mismatch: can only be allow or deny",
        "cannot parse schedule '* * *': expected exactly 5 fields, found 3: [* * *]",
        'cannot parse duration \'1d\': time: unknown unit "d" in duration "1d"',
        "description must not exceed 255 characters",
    ]


def test_a_schedule_can_make_argocd_panic() -> None:
    assert windows.panics("TZ=UTC")
    assert (
        "Argo CD panics on a time zone with nothing after it"
        in windows.problems({**GOOD, "schedule": "TZ=UTC"})[0]
    )
    assert not windows.panics("* * * * *")


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
    one, other = (windows.identity(window, version=(3, 5)) for window in (GOOD, {**GOOD, **change}))
    assert (one == other) is same


def test_before_3_2_three_fields_decided() -> None:
    one, other = (
        windows.identity(window, version=(3, 1)) for window in (GOOD, {**GOOD, "applications": ["a"]})
    )
    assert one == other


def application(**destination: str) -> dict[str, Any]:
    return {"metadata": {"name": "web"}, "spec": {"destination": {"namespace": "shop", **destination}}}


@pytest.mark.parametrize(
    ("window", "destination", "verdict"),
    [
        ({}, {}, "no"),
        ({"applications": ["w*"]}, {}, "yes"),
        ({"applications": ["x", "web"]}, {}, "yes"),
        ({"applications": ["x"]}, {}, "no"),
        ({"applications": ["x"], "namespaces": ["shop"]}, {}, "yes"),
        ({"applications": ["x"], "namespaces": ["shop"], "andOperator": True}, {}, "no"),
        ({"applications": ["web"], "namespaces": ["shop"], "andOperator": True}, {}, "yes"),
        ({"clusters": ["eu"]}, {"name": "eu"}, "yes"),
        ({"clusters": ["https://eu"]}, {"server": "https://eu"}, "yes"),
        ({"clusters": ["*"]}, {}, "no"),
        ({"namespaces": ["!shop"]}, {}, "no"),
        ({"namespaces": ["{shop*,shop}"]}, {}, "panic"),
        ({"namespaces": [None]}, {}, "no"),
    ],
)
def test_a_window_is_about_an_application(window: Any, destination: dict[str, str], verdict: str) -> None:
    assert windows.applies_to(window, application(**destination)) is Verdict(verdict)


def test_long_texts_are_judged_and_not_remembered() -> None:
    caches = (cron._remembered, cron._short_field, durations._remembered)
    before = [cache.cache_info().currsize for cache in caches]
    assert windows.problems({**GOOD, "description": "x" * 301})
    assert windows.problems({**GOOD, "schedule": "x" * 301})
    assert windows.problems({**GOOD, "schedule": f"{','.join(['1'] * 300)} * * * *"}) == []
    assert windows.problems({**GOOD, "duration": "1h" * 301}) == []
    assert before[0] == cron._remembered.cache_info().currsize
    assert before[2] == durations._remembered.cache_info().currsize
