"""Counts of Applications follow each change, and never need a walk over all of them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argocd.reading import text
from sidecars.principal.fleet_page.tallies import HEALTH, SYNC, ApplicationTallies


def application(agent: str, name: str, health: str = "Healthy", sync: str = "Synced") -> dict[str, Any]:
    return {
        "metadata": {"namespace": agent, "name": name},
        "status": {"health": {"status": health}, "sync": {"status": sync}},
    }


def tallies() -> ApplicationTallies:
    return ApplicationTallies(lambda each: text(each, "metadata", "namespace"))


def test_an_application_counts_for_its_agent_and_for_all_until_it_is_gone() -> None:
    counted = tallies()
    first = application("a", "web")
    assert counted.changed(None, first) == {"a"}
    worse = application("a", "web", "Degraded", "OutOfSync")
    assert counted.changed(first, worse) == {"a"}
    assert (counted.of("a").health["Degraded"], counted.total.sync["OutOfSync"]) == (1, 1)
    assert counted.total.health["Healthy"] == 0
    assert counted.changed(worse, worse) == set()
    assert counted.changed(worse, None) == {"a"}
    assert (counted.of("a").applications, counted.total.applications) == (0, 0)


@pytest.mark.parametrize("odd", ["", "Splendid", "healthy"])
def test_a_word_that_argo_cd_does_not_use_counts_as_unknown(odd: str) -> None:
    counted = tallies()
    counted.changed(None, application("a", "web", odd, odd))
    assert (counted.of("a").health["Unknown"], counted.of("a").sync["Unknown"]) == (1, 1)


def test_an_application_that_belongs_to_none_is_not_counted() -> None:
    counted = tallies()
    assert counted.changed(None, application("", "web")) == set()
    assert counted.total.applications == 0


def test_one_that_belongs_to_another_agent_now_moves() -> None:
    owner = {"web": "a"}
    counted = ApplicationTallies(lambda each: owner[text(each, "metadata", "name")])
    item = application("x", "web")
    counted.changed(None, item)
    owner["web"] = "b"
    counted.count_again([item])
    assert (counted.of("a").applications, counted.of("b").applications) == (0, 1)


CHANGE = st.tuples(
    st.sampled_from(["a", "b", ""]),
    st.sampled_from(["x", "y", "z"]),
    st.one_of(st.none(), st.tuples(st.sampled_from([*HEALTH, "odd"]), st.sampled_from([*SYNC, "odd"]))),
)


@given(st.lists(CHANGE, max_size=40))
def test_after_any_changes_the_counts_are_those_of_what_is_there(changes: list[Any]) -> None:
    counted = tallies()
    there: dict[tuple[str, str], dict[str, Any]] = {}
    for agent, name, state in changes:
        old = there.pop((agent, name), None)
        new = None if state is None else application(agent, name, *state)
        if new is not None:
            there[agent, name] = new
        if old is not None or new is not None:
            counted.changed(old, new)
    again = tallies()
    for item in there.values():
        again.changed(None, item)
    for agent in ("a", "b"):
        assert counted.of(agent).by_health == again.of(agent).by_health
        assert counted.of(agent).by_sync == again.of(agent).by_sync
    assert counted.total.by_health == again.total.by_health
