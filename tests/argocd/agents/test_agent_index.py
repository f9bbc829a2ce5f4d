"""All agents at once say what each one would say."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argocd import globs, names
from argocd.agents import routing
from argocd.agents.routing import AgentIndex, AgentMapping, ProjectChange, explain_project
from argocd.agents.vocabulary import Mode
from argocd.globs import Verdict
from tests.argocd.agents.agent_objects import NAMES, projects
from tests.argocd.agents.agent_objects import project as project_of

ALL_MANAGED = dict.fromkeys(NAMES, Mode.MANAGED)


def index_of(modes: dict[str, Mode], mapped_by: AgentMapping = AgentMapping.DESTINATION) -> AgentIndex:
    index = AgentIndex(mapped_by=mapped_by)
    for name, mode in modes.items():
        index.put(name, mode)
    return index


def to(*patterns: str, **parts: Any) -> dict[str, Any]:
    return project_of(destinations=[{"name": pattern} for pattern in patterns], **parts)


@given(
    st.lists(projects(), min_size=1, max_size=4),
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from([*Mode, None])), max_size=12),
    st.sampled_from(AgentMapping),
)
def test_the_index_agrees_with_one_question_for_each_agent(
    asked: list[Any], history: list[tuple[str, Mode | None]], mapped_by: AgentMapping
) -> None:
    index = index_of(ALL_MANAGED, mapped_by)
    for thing in asked:
        index.for_project(thing)  # what it remembers now must stay true
    for name, mode in history:
        if mode is None:
            index.drop(name)
        else:
            index.put(name, mode)
    for thing in asked:
        one_by_one = [
            name
            for name in sorted(NAMES)
            if explain_project(thing, name, mapped_by=mapped_by, mode_of=index.mode_of).goes
        ]
        assert index.for_project(thing) == one_by_one


PIECE = st.text("ab-", max_size=3)
SIMPLE = st.one_of(
    st.builds("{}*{}".format, PIECE, PIECE),
    st.builds("*{}*".format, PIECE),
    st.builds("{}{{{},{}}}{}{}".format, PIECE, PIECE, PIECE, PIECE, st.sampled_from(["", "*", "*a", "?"])),
    st.builds("{}[{}]{}".format, PIECE, PIECE, PIECE),
)


@given(SIMPLE, st.sets(st.text("ab-", min_size=1, max_size=5), max_size=8))
def test_what_is_known_without_trying_is_what_trying_would_find(pattern: str, known: set[str]) -> None:
    index = index_of(dict.fromkeys(known, Mode.MANAGED))
    tried = {agent for agent in known if globs.match(pattern, agent) is Verdict.YES}
    assert index.for_project(to(pattern)) == sorted(tried)
    assert index.about({"name": pattern}) == tried


def test_a_destination_without_a_name_is_about_nobody() -> None:
    assert index_of(ALL_MANAGED).about({"namespace": "*"}) == set()


def test_agents_are_counted_and_listed_by_mode() -> None:
    index = index_of({"a": Mode.MANAGED, "b": Mode.AUTONOMOUS})
    assert len(index) == 2
    assert list(index.names(Mode.AUTONOMOUS)) == ["b"]
    assert index.mode_of("c") is None


def test_a_remembered_pattern_learns_of_new_agents() -> None:
    index = index_of({"a-x": Mode.MANAGED})
    assert index.for_project(to("[ab]-x")) == ["a-x"]
    index.put("b-x", Mode.MANAGED)
    index.put("b-y", Mode.MANAGED)
    index.drop("a-x")
    assert index.for_project(to("[ab]-x")) == ["b-x"]


def test_an_agent_may_come_back_in_another_mode() -> None:
    index = index_of({"a": Mode.MANAGED})
    index.put("a", Mode.MANAGED)
    assert index.for_project(to("*")) == ["a"]
    index.put("a", Mode.AUTONOMOUS)
    assert index.for_project(to("*")) == []
    index.drop("never seen")


@pytest.mark.parametrize(
    ("pattern", "reached"),
    [
        ("prod", ["prod"]),
        ("nobody", []),
        ("prod*", ["prod", "prod-eu"]),
        ("*", sorted(NAMES)),
        ("z*", []),
        ("*-b", ["a-b", "agent-b"]),
        ("{prod,a}", ["a", "prod"]),
        ("{prod,agent}-*", ["agent-a", "agent-b", "prod-eu"]),
        ("a{,gent}-b", ["a-b", "agent-b"]),
        ("a*b", ["a-b", "agent-b"]),
        ("a*a", ["a", "agent-a"]),
        ("*gent*", ["agent-a", "agent-b"]),
        ("agent-?", ["agent-a", "agent-b"]),
    ],
)
def test_names_prefixes_and_other_patterns(pattern: str, reached: list[str]) -> None:
    index = index_of(ALL_MANAGED)
    assert index.for_project(to(pattern)) == reached
    assert index.for_project(to("*", f"!{pattern}")) == sorted({*NAMES} - {*reached})


def test_with_namespace_mapping_agents_must_be_placed_too() -> None:
    index = index_of(ALL_MANAGED, AgentMapping.NAMESPACE)
    assert index.for_project(to("*", sourceNamespaces=["prod", "/^a-/", "agent-[b]"])) == [
        "a-b",
        "agent-b",
        "prod",
    ]
    assert index.for_project(to("*")) == []


def test_a_change_names_who_loses_and_who_gets_it() -> None:
    index = index_of(ALL_MANAGED)
    change = index.for_change(to("prod*", "a"), to("prod", "agent-*"))
    assert change == ProjectChange(lost=("a", "prod-eu"), gained=("agent-a", "agent-b"), kept=("prod",))
    assert change.reached == ["agent-a", "agent-b", "prod"]
    assert index.for_change(None, to("a")) == ProjectChange(gained=("a",))
    assert index.for_change(to("a"), None) == ProjectChange(lost=("a",))
    hidden = to("a", labels={names.IGNORE_SYNC: "true"})
    assert index.for_change(to("a"), hidden) == ProjectChange(lost=("a",))


def test_only_so_many_patterns_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "REMEMBERED_PATTERNS", 2)
    index = index_of(ALL_MANAGED)
    for pattern in ("?a", "?b", "?a", "?d"):
        index.for_project(to(pattern))
    assert [text for _, text in index._matches] == ["?a", "?d"]
