"""How two ends compare what they have."""

from typing import Any

import pytest
from hypothesis import given

from argocd import names
from argocd.agents.checksums import ChecksumError, ResourceKey, inventory_checksum, spec_checksum
from argocd.agents.namespaces import PeerUnknownError
from argocd.agents.resync import (
    ResyncError,
    Side,
    UpdateRequest,
    accepts,
    answer_to,
    namespace_to_look_in,
    request_about,
    request_for,
    resources_to_tell,
    what_is_gone,
)
from argocd.agents.routing import AgentMapping
from argocd.agents.vocabulary import TRACKED_AS, Message, Mode, Target
from tests.argocd.agents.agent_objects import OBJECTS, application, project

APPS = [ResourceKey("Application", f"app-{number}", f"uid-{number}", "agent-a") for number in range(10)]
APP = ResourceKey("Application", "web", "uid-web", "agent-a")
COPY = application(namespace="argocd", metadata={"annotations": {names.SOURCE_UID: "uid-web"}})


@pytest.mark.parametrize(
    ("side", "mode", "asked"),
    [
        (Side.PRINCIPAL, Mode.MANAGED, {Message.REQUEST_SYNCED_RESOURCE_LIST, Message.REQUEST_UPDATE}),
        (
            Side.PRINCIPAL,
            Mode.AUTONOMOUS,
            {Message.RESPONSE_SYNCED_RESOURCE, Message.REQUEST_RESOURCE_RESYNC},
        ),
        (Side.AGENT, Mode.MANAGED, {Message.RESPONSE_SYNCED_RESOURCE, Message.REQUEST_RESOURCE_RESYNC}),
        (Side.AGENT, Mode.AUTONOMOUS, {Message.REQUEST_SYNCED_RESOURCE_LIST, Message.REQUEST_UPDATE}),
    ],
)
def test_the_source_is_asked_and_the_peer_is_told(side: Side, mode: Mode, asked: set[Message]) -> None:
    assert {message for message in Message if accepts(side, message, mode=mode)} == asked


def test_a_list_is_told_when_it_differs() -> None:
    assert resources_to_tell([], checksum=b"any") == []
    assert resources_to_tell(APPS, checksum=inventory_checksum(APPS)) == []
    assert resources_to_tell(APPS, checksum=b"other") == APPS
    assert resources_to_tell(APPS, checksum=None) == APPS
    assert resources_to_tell(APPS, checksum=b"") == APPS


def test_what_is_not_here_is_asked_for_without_a_checksum() -> None:
    assert request_about(APP, None) == UpdateRequest("Application", "web", "agent-a")


def test_what_is_here_is_asked_about_with_its_checksum() -> None:
    assert request_about(APP, COPY) == UpdateRequest(
        "Application", "web", "argocd", "uid-web", spec_checksum(COPY)
    )


def test_what_is_somebody_elses_here_is_an_error_or_left_alone() -> None:
    assert request_about(APP, application(), ignore_unmanaged=True) is None
    with pytest.raises(ResyncError, match="Application web: source uid not found"):
        request_about(APP, application())


def test_a_remapped_application_is_asked_about_in_the_peers_namespace() -> None:
    remapped = application(
        namespace="own",
        metadata={"annotations": {names.SOURCE_UID: "uid-web", names.NAMESPACE_REMAPPED: "true"}},
    )
    request = request_about(APP, remapped, peer_namespace="argocd")
    assert request is not None
    assert request.namespace == "argocd"
    with pytest.raises(PeerUnknownError):
        request_about(APP, remapped)
    not_an_application = request_for(TRACKED_AS[Target.PROJECT], remapped)
    assert not_an_application.namespace == "own"


@pytest.mark.parametrize(
    ("kind", "item"),
    [
        (TRACKED_AS[Target.APPLICATION], COPY),
        (TRACKED_AS[Target.PROJECT], project(description="d")),
        (TRACKED_AS[Target.REPOSITORY], {"metadata": {"name": "r"}, "data": {"url": "eA=="}}),
        (TRACKED_AS[Target.GPG_KEYS], {"metadata": {"name": "k"}}),
    ],
)
def test_a_question_is_answered_by_what_the_peer_should_have(kind: str, item: Any) -> None:
    request = request_for(kind, item)
    assert request.checksum
    assert answer_to(request, item) is None
    assert answer_to(UpdateRequest(kind, "x"), item) is Message.SPEC_UPDATE
    assert answer_to(UpdateRequest(kind, "x", checksum=b"other"), item) is Message.SPEC_UPDATE
    assert answer_to(request, None) is Message.DELETE


def test_an_unknown_kind_is_hashed_as_it_is() -> None:
    item = {"spec": {"a": 1}}
    assert answer_to(UpdateRequest("ApplicationSet", "x", checksum=spec_checksum(item)), item) is None


def test_what_is_gone_is_named_by_the_question() -> None:
    request = UpdateRequest("Application", "web", "agent-a", "uid-web")
    assert what_is_gone(request) == {"metadata": {"name": "web", "namespace": "agent-a", "uid": "uid-web"}}
    assert what_is_gone(UpdateRequest("AppProject", "shop")) == {"metadata": {"name": "shop"}}


@pytest.mark.parametrize(
    ("kind", "reported", "side", "mode", "mapped_by", "found"),
    [
        (TRACKED_AS[Target.APPLICATION], "agent-a", Side.AGENT, Mode.MANAGED, AgentMapping.NAMESPACE, "own"),
        (TRACKED_AS[Target.APPLICATION], "argocd", Side.AGENT, Mode.MANAGED, AgentMapping.DESTINATION, "own"),
        (TRACKED_AS[Target.APPLICATION], "team", Side.AGENT, Mode.MANAGED, AgentMapping.DESTINATION, "team"),
        (TRACKED_AS[Target.APPLICATION], "", Side.AGENT, Mode.MANAGED, AgentMapping.DESTINATION, "own"),
        (
            TRACKED_AS[Target.APPLICATION],
            "argocd",
            Side.PRINCIPAL,
            Mode.AUTONOMOUS,
            AgentMapping.NAMESPACE,
            "agent-a",
        ),
        (
            TRACKED_AS[Target.APPLICATION],
            "argocd",
            Side.PRINCIPAL,
            Mode.MANAGED,
            AgentMapping.NAMESPACE,
            "agent-a",
        ),
        (
            TRACKED_AS[Target.APPLICATION],
            "agent-a",
            Side.AGENT,
            Mode.AUTONOMOUS,
            AgentMapping.DESTINATION,
            "own",
        ),
        (TRACKED_AS[Target.GPG_KEYS], "argocd", Side.AGENT, Mode.MANAGED, AgentMapping.DESTINATION, "own"),
        (
            TRACKED_AS[Target.PROJECT],
            "argocd",
            Side.PRINCIPAL,
            Mode.AUTONOMOUS,
            AgentMapping.NAMESPACE,
            "own",
        ),
    ],
)
def test_an_object_is_looked_up_where_this_side_keeps_it(
    *, kind: str, reported: str, side: Side, mode: Mode, mapped_by: AgentMapping, found: str
) -> None:
    assert (
        namespace_to_look_in(
            kind,
            reported,
            side=side,
            own_namespace="own",
            agent="agent-a",
            mode=mode,
            mapped_by=mapped_by,
            peer_namespace="argocd",
        )
        == found
    )


@given(OBJECTS)
def test_objects_of_any_shape_are_asked_about_or_refused(item: Any) -> None:
    try:
        request = request_about(APP, item, peer_namespace="argocd")
    except (ResyncError, ChecksumError):
        return
    assert request is not None
    assert answer_to(request, item) is None
