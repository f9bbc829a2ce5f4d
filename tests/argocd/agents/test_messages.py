"""Which messages follow a change on the principal."""

from typing import Any

import pytest
from hypothesis import given

from argocd import names
from argocd.agents.messages import (
    Sending,
    application_messages,
    application_sendings,
    differs,
    project_sendings,
    refresh_requested,
    repository_sendings,
    strands_its_deletion,
)
from argocd.agents.routing import AgentIndex, AgentMapping
from argocd.agents.vocabulary import Message, Mode, Target
from tests.argocd.agents.agent_objects import OBJECTS, application, project, repository

CREATE, DELETE, SPEC_UPDATE = Message.CREATE, Message.DELETE, Message.SPEC_UPDATE
SET_OPERATION, TERMINATE = Message.SET_OPERATION, Message.TERMINATE_OPERATION
IGNORED = {names.IGNORE_SYNC: "true"}
SYNC = {"sync": {"revision": "v1"}}


def agents(mapped_by: AgentMapping = AgentMapping.DESTINATION) -> AgentIndex:
    index = AgentIndex(mapped_by=mapped_by)
    for name in ("agent-a", "agent-b"):
        index.put(name, Mode.MANAGED)
    index.put("edge", Mode.AUTONOMOUS)
    return index


def to(*patterns: str, **parts: Any) -> dict[str, Any]:
    return project(destinations=[{"name": pattern} for pattern in patterns], **parts)


def told(sendings: Any) -> list[tuple[str, Message]]:
    return [(sending.agent, sending.message) for sending in sendings]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, to("agent-*"), [("agent-a", CREATE), ("agent-b", CREATE)]),
        (None, to("agent-a", labels=IGNORED), []),
        (None, to("edge"), []),
        (to("agent-a"), None, [("agent-a", DELETE)]),
        (to("agent-a", labels=IGNORED), None, []),
        (to("agent-a"), to("agent-b"), [("agent-a", DELETE), ("agent-b", SPEC_UPDATE)]),
        (to("agent-a"), to("agent-a", description="new"), [("agent-a", SPEC_UPDATE)]),
        (to("agent-a"), to("agent-a", labels={"l": "1"}), [("agent-a", SPEC_UPDATE)]),
        (to("agent-a"), to("agent-a"), []),
        (to("agent-a"), {**to("agent-a"), "status": {"jwtTokensByRole": {}}}, []),
        (to("agent-a"), to("agent-a", roles=[{"name": "r"}]), []),
        (to("agent-a"), to("agent-a", "elsewhere"), []),
        (to("agent-a"), to("agent-a", labels=IGNORED), [("agent-a", DELETE)]),
        (to("agent-a", labels=IGNORED), to("agent-a"), [("agent-a", CREATE)]),
    ],
)
def test_a_project_is_told_to_those_whom_it_concerns(old: Any, new: Any, expected: Any) -> None:
    assert told(project_sendings(old, new, agents=agents())) == expected


def test_a_project_is_told_as_the_agents_copy() -> None:
    [sending] = project_sendings(None, to("agent-a", roles=[{"name": "r"}]), agents=agents())
    copy = {"destinations": [{"name": "in-cluster", "server": names.IN_CLUSTER_SERVER}]}
    assert sending == Sending("agent-a", CREATE, Target.PROJECT, {**to("agent-a"), "spec": copy})


def test_agents_with_the_same_destinations_share_one_copy() -> None:
    found = list(project_sendings(to("agent-*"), to("agent-*", description="new"), agents=agents()))
    assert told(found) == [("agent-a", SPEC_UPDATE), ("agent-b", SPEC_UPDATE)]
    assert found[0].object is found[1].object
    assert list(project_sendings(to("agent-*"), to("agent-*"), agents=agents())) == []


def test_a_withdrawn_project_is_told_in_its_last_visible_version() -> None:
    old, new = to("agent-a", description="old"), to("agent-a", description="new", labels=IGNORED)
    [sending] = project_sendings(old, new, agents=agents())
    assert sending.object["spec"]["description"] == "old"
    [sending] = project_sendings(old, to("x", description="new"), agents=agents())
    assert sending.object["spec"] == {"description": "new"}


def test_finalizers_on_a_project_would_strand_its_deletion() -> None:
    with_finalizer = {"metadata": {"finalizers": ["f"]}}
    assert strands_its_deletion({}, with_finalizer)
    assert not strands_its_deletion(with_finalizer, with_finalizer)
    assert not strands_its_deletion(with_finalizer, {})


BASE = application(metadata={"annotations": {"note": "x"}})
RUNNING = application(status={"operationState": {"phase": "Running"}})
TERMINATING = application(status={"operationState": {"phase": "Terminating"}})


def with_annotations(**annotations: str) -> dict[str, Any]:
    keys = {
        "refresh": names.REFRESH,
        "hydrate": names.HYDRATE,
        "updated": names.LAST_UPDATED,
        "notified": names.NOTIFIED,
        "note": "note",
    }
    return application(metadata={"annotations": {keys[key]: text for key, text in annotations.items()}})


@pytest.mark.parametrize(
    ("old", "new", "managed", "autonomous"),
    [
        (None, BASE, [CREATE], []),
        (BASE, None, [DELETE], []),
        (BASE, BASE, [], []),
        (BASE, application(metadata={"annotations": {"note": "y"}}), [SPEC_UPDATE], []),
        (BASE, {**BASE, "status": {"health": "h"}}, [], []),
        (BASE, application(metadata={"annotations": {"note": "x"}}, spec={"source": 1}), [SPEC_UPDATE], []),
        (application(), application(metadata={"labels": {"l": "1"}}), [SPEC_UPDATE], []),
        (application(), application(metadata={"labels": {}}), [], []),
        (application(), application(metadata={"finalizers": ["f"]}), [SPEC_UPDATE], []),
        (application(), application(metadata={"deletionTimestamp": "t"}), [SPEC_UPDATE], []),
        (BASE, {**BASE, "operation": SYNC}, [SET_OPERATION], [SET_OPERATION]),
        ({**BASE, "operation": SYNC}, {**BASE, "operation": {"sync": {}}}, [], []),
        ({**BASE, "operation": SYNC}, BASE, [], []),
        (BASE, with_annotations(note="x", refresh="hard"), [SPEC_UPDATE], [SPEC_UPDATE]),
        (with_annotations(refresh="normal"), with_annotations(refresh="hard"), [SPEC_UPDATE], [SPEC_UPDATE]),
        (with_annotations(refresh="hard"), application(), [], []),
        (BASE, with_annotations(note="x", hydrate="normal"), [SPEC_UPDATE], [SPEC_UPDATE]),
        (with_annotations(refresh="hard", hydrate="normal"), with_annotations(refresh="hard"), [], []),
        (with_annotations(hydrate="normal"), application(), [], []),
        (with_annotations(updated="1"), with_annotations(updated="2", notified="{}"), [], []),
        (RUNNING, TERMINATING, [TERMINATE], [TERMINATE]),
        (TERMINATING, TERMINATING, [], []),
        (RUNNING, {**TERMINATING, "spec": {}}, [TERMINATE, SPEC_UPDATE], [TERMINATE]),
    ],
)
def test_an_application_is_told_when_it_differs_or_commands(
    old: Any, new: Any, managed: list[Message], autonomous: list[Message]
) -> None:
    assert application_messages(old, new, mode=Mode.MANAGED) == managed
    assert application_messages(old, new, mode=Mode.AUTONOMOUS) == autonomous
    assert application_messages(old, new, mode=None) == []


def test_an_update_carries_no_operation_and_a_command_carries_everything() -> None:
    new = application(spec={"source": "new"}, operation=SYNC)
    without = {key: part for key, part in new.items() if key != "operation"}
    found = list(application_sendings(application(), new, agents=agents()))
    assert found == [
        Sending("agent-a", SPEC_UPDATE, Target.APPLICATION, without),
        Sending("agent-a", SET_OPERATION, Target.APPLICATION, new),
    ]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, application(), [("agent-a", CREATE)]),
        (application(), None, [("agent-a", DELETE)]),
        (None, None, []),
        (
            application(),
            application(destination={"name": "agent-b"}),
            [("agent-a", DELETE), ("agent-b", SPEC_UPDATE)],
        ),
        (
            application(),
            application(destination={"name": "agent-b"}, operation=SYNC),
            [("agent-a", DELETE), ("agent-b", SPEC_UPDATE), ("agent-b", SET_OPERATION)],
        ),
        (application(), application(destination={"name": "nobody"}, operation=SYNC), [("agent-a", DELETE)]),
        (application(destination={"name": "nobody"}), application(), [("agent-a", SPEC_UPDATE)]),
    ],
)
def test_an_application_that_moves_is_withdrawn_and_sent(old: Any, new: Any, expected: Any) -> None:
    assert told(application_sendings(old, new, agents=agents())) == expected


def test_what_is_withdrawn_is_told_as_it_was() -> None:
    found = list(
        application_sendings(application(), application(destination={"name": "agent-b"}), agents=agents())
    )
    assert [sending.object for sending in found] == [
        application(),
        application(destination={"name": "agent-b"}),
    ]


def test_a_refresh_is_requested_once() -> None:
    assert refresh_requested({}, with_annotations(refresh="hard"))
    assert not refresh_requested(with_annotations(refresh="hard"), with_annotations(refresh="hard"))
    assert not refresh_requested(with_annotations(refresh="hard"), {})


REACHED = {"one": ["agent1"], "two": ["agent2"], "both": ["agent1", "agent2"], "none": []}


@pytest.mark.parametrize(
    ("old", "new", "had", "expected"),
    [
        (None, repository(project="one"), [], [("agent1", CREATE)]),
        (None, repository(project=None), [], []),
        (None, repository(project="both"), [], [("agent1", CREATE), ("agent2", CREATE)]),
        (None, repository(project="gone"), [], []),
        (
            repository(project="one"),
            repository(project="two"),
            ["agent1"],
            [("agent1", DELETE), ("agent2", SPEC_UPDATE)],
        ),
        (
            {**repository(project="both"), "data": {"url": "old"}},
            {**repository(project="both"), "data": {"url": "new"}},
            ["agent1", "agent2"],
            [("agent1", SPEC_UPDATE), ("agent2", SPEC_UPDATE)],
        ),
        (
            repository(project="gone"),
            repository(project="two"),
            ["agent1"],
            [("agent1", DELETE), ("agent2", SPEC_UPDATE)],
        ),
        (repository(project="one"), repository(project="gone"), ["agent1"], [("agent1", DELETE)]),
        (repository(project="both"), repository(project="both"), ["agent1"], [("agent2", SPEC_UPDATE)]),
        (repository(project="one"), None, ["agent1"], [("agent1", DELETE)]),
        # argocd-agent sends nothing in these two; a Secret that is scoped later would never arrive, and one
        # that loses its project would stay on the agent.
        (repository(project=None), repository(project="one"), [], [("agent1", SPEC_UPDATE)]),
        (repository(project="one"), repository(project=None), ["agent1"], [("agent1", DELETE)]),
    ],
)
def test_a_repository_follows_its_project(old: Any, new: Any, had: list[str], expected: Any) -> None:
    found = repository_sendings(
        old,
        new,
        sent_to=had,
        agents_of=lambda name: REACHED.get(name, []),
        argocd_namespace="argocd",
    )
    assert told(found) == expected


@given(OBJECTS, OBJECTS)
def test_objects_of_any_shape_lead_to_messages(old: Any, new: Any) -> None:
    index = agents()
    for before, after in ((old, new), (None, new), (old, None)):
        assert all(isinstance(found, Sending) for found in project_sendings(before, after, agents=index))
        assert all(isinstance(found, Sending) for found in application_sendings(before, after, agents=index))
    assert list(project_sendings(new, new, agents=index)) == []
    assert list(application_sendings(new, new, agents=index)) == []
    assert differs(old, new) == differs(new, old)
