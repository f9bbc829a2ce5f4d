"""The cheap question never says no where the whole answer is yes."""

from hypothesis import given
from hypothesis import strategies as st

from argocd.agents.routing import AgentMapping, route_project
from sidecars.principal.project_reach import Reach
from tests.argocd.agents.agent_objects import NAMES, PATTERNS, SERVERS


@given(st.lists(st.tuples(PATTERNS, SERVERS), max_size=4), st.sampled_from(NAMES))
def test_who_gets_a_project_is_never_left_out(destinations: list[tuple[str, str]], agent: str) -> None:
    project = {
        "metadata": {"name": "web"},
        "spec": {"destinations": [{"name": name, "server": server} for name, server in destinations]},
    }
    if route_project(project, agent, mapped_by=AgentMapping.DESTINATION).goes:
        assert Reach(project).may_include(agent)


def test_other_names_are_told_apart_without_trying() -> None:
    project = {"metadata": {"name": "web"}, "spec": {"destinations": [{"name": "prod-*"}, {"name": "test"}]}}
    reach = Reach(project)
    assert [reach.may_include(agent) for agent in ("prod-1", "test", "test-1", "other")] == [
        True,
        True,
        False,
        False,
    ]
