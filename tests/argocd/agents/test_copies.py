"""What is written where an object of the other end arrives."""

import copy
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argocd import names
from argocd.agents.copies import (
    application_at_principal,
    application_copied,
    application_released,
    application_updated,
    copied,
    error_shown,
    mirror_updated,
    operation_applied,
    operation_to_use,
    stamped,
    status_applied,
    terminated,
    updated,
)
from tests.argocd.agents.agent_objects import NAMES, OBJECTS, application, project

SYNC = {"sync": {"revision": "v1"}}
OTHER = {"sync": {"revision": "v2"}}


def annotated(**annotations: str) -> dict[str, Any]:
    keys = {
        "source": names.SOURCE_UID,
        "principal": names.PRINCIPAL_UID,
        "refresh": names.REFRESH,
        "hydrate": names.HYDRATE,
        "sets": names.APPLICATION_SET_REFRESH,
        "notified": names.NOTIFIED,
        "applied": names.LAST_APPLIED,
        "note": "note",
    }
    return {"annotations": {keys[key]: text for key, text in annotations.items()}}


def test_a_copy_is_new_here_and_says_where_it_comes_from() -> None:
    incoming = project(
        annotations={"note": "x", names.LAST_APPLIED: "{}"}, labels={"l": "1"}, description="d"
    )
    incoming["metadata"].update(
        generation=3, creationTimestamp="t", managedFields=[], ownerReferences=[{}], finalizers=["f"]
    )
    before = copy.deepcopy(incoming)
    assert copied(incoming, namespace="here") == {
        "metadata": {
            "name": "shop",
            "namespace": "here",
            "labels": {"l": "1"},
            "finalizers": ["f"],
            "annotations": {"note": "x", names.SOURCE_UID: "uid-shop"},
        },
        "spec": {"description": "d"},
    }
    assert incoming == before


def test_a_copy_of_something_without_identity_has_none() -> None:
    assert copied({"metadata": {"name": "x"}}, namespace="here")["metadata"]["annotations"] == {}


def test_an_update_takes_what_the_source_says_and_keeps_what_is_local() -> None:
    here = {
        "metadata": {
            "name": "shop",
            "uid": "local",
            "labels": {"old": "1"},
            **annotated(source="1", note="old"),
        },
        "spec": {"description": "old"},
        "status": {"local": True},
    }
    told = copied(
        {"metadata": {"uid": "2", "finalizers": ["f"]}, "spec": {"description": "new"}}, namespace="here"
    )
    assert updated(here, told, content="spec") == {
        "metadata": {"name": "shop", "uid": "local", "finalizers": ["f"], **annotated(source="2")},
        "spec": {"description": "new"},
        "status": {"local": True},
    }


def test_data_that_is_gone_at_the_source_goes() -> None:
    here = {"metadata": {"name": "r"}, "data": {"a": "b"}}
    assert updated(here, {"metadata": {}}, content="data") == {"metadata": {"name": "r"}}


def test_an_update_without_identity_keeps_the_one_that_is_here() -> None:
    here = {"metadata": annotated(source="1", principal="p")}
    result = updated(here, {"metadata": {}}, content="spec")
    assert result["metadata"] == annotated(source="1", principal="p")


@pytest.mark.parametrize(
    ("here", "said", "left"),
    [
        ([names.RESOURCES_FINALIZER], None, None),
        ([names.BACKGROUND_FINALIZER, names.FOREGROUND_FINALIZER], ["other"], None),
        ([names.RESOURCES_FINALIZER], [names.RESOURCES_FINALIZER], [names.RESOURCES_FINALIZER]),
        (
            [names.RESOURCES_FINALIZER, names.POST_DELETE_FINALIZER, "local"],
            None,
            [names.POST_DELETE_FINALIZER, "local"],
        ),
        (None, [names.RESOURCES_FINALIZER], None),
    ],
)
def test_what_a_source_let_go_of_at_its_end_is_let_go_of_here(
    here: list[str] | None, said: list[str] | None, left: list[str] | None
) -> None:
    local = {"metadata": {"name": "web", **({"finalizers": here} if here else {})}, "spec": {}}
    released = application_released(local, {"metadata": {"finalizers": said} if said else {}})
    assert released == {"metadata": {"name": "web", **({"finalizers": left} if left else {})}, "spec": {}}


def test_what_is_being_deleted_here_keeps_its_finalizers() -> None:
    here = {"metadata": {"deletionTimestamp": "t", "finalizers": ["working"]}}
    told = {"metadata": {"finalizers": ["added", "working"]}}
    assert updated(here, told, content="spec")["metadata"]["finalizers"] == ["working"]


def test_an_application_is_created_for_the_agents_own_cluster() -> None:
    incoming = application(
        destination={"name": "agent-a", "server": "https://proxy", "namespace": "guest"},
        metadata={"finalizers": ["f"], **annotated(applied="{}")},
        operation=SYNC,
        status={"health": {}},
    )
    assert application_copied(incoming, namespace="argocd", principal_uid="p", remapped=True) == {
        "metadata": {
            "name": "web",
            "namespace": "argocd",
            "finalizers": ["f"],
            "annotations": {
                names.SOURCE_UID: "uid-web",
                names.PRINCIPAL_UID: "p",
                names.NAMESPACE_REMAPPED: "true",
            },
        },
        "spec": {"project": "shop", "destination": {"name": "in-cluster", "namespace": "guest"}},
        "operation": SYNC,
        "status": {"health": {}},
    }


def test_an_old_principal_leaves_no_mark() -> None:
    plain = application_copied(application(), namespace="argocd")
    assert plain["metadata"]["annotations"] == {names.SOURCE_UID: "uid-web"}


def test_an_update_keeps_a_refresh_that_is_under_way_and_the_status() -> None:
    under_way = annotated(refresh="hard", hydrate="normal", sets="true", notified="here")["annotations"]
    here = application(
        metadata={"annotations": {**under_way, names.SOURCE_UID: "uid-web", names.PRINCIPAL_UID: "p"}},
        status={"sync": "s"},
        operation=OTHER,
    )
    told = application_copied(
        application(
            metadata=annotated(notified="at the hub"), spec={"source": "new"}, status={"sync": "old"}
        ),
        namespace="argocd",
    )
    result = application_updated(here, told)
    assert result["metadata"]["annotations"] == {
        names.SOURCE_UID: "uid-web",
        names.PRINCIPAL_UID: "p",
        **under_way,
    }
    assert result["spec"]["source"] == "new"
    assert result["status"] == {"sync": "s"}
    assert result["operation"] == OTHER


def test_a_new_principal_is_remembered() -> None:
    here = application(metadata=annotated(source="1", principal="old"))
    result = application_updated(
        here, application_copied(application(), namespace="argocd", principal_uid="new")
    )
    assert result["metadata"]["annotations"] == annotated(source="uid-web", principal="new")["annotations"]


@pytest.mark.parametrize(
    ("here", "told", "used"),
    [
        ({}, {}, None),
        ({"operation": OTHER}, {}, OTHER),
        ({}, {"operation": SYNC}, SYNC),
        ({"operation": OTHER}, {"operation": SYNC}, SYNC),
        (
            {"operation": OTHER, "status": {"operationState": {"phase": "Terminating"}}},
            {"operation": SYNC},
            OTHER,
        ),
        ({"status": {"operationState": {"phase": "Running"}}}, {"operation": SYNC}, SYNC),
    ],
)
def test_an_operation_is_taken_unless_one_is_being_ended(here: Any, told: Any, used: Any) -> None:
    assert operation_to_use(here, told) == used
    assert application_updated(here, told).get("operation") == used
    assert operation_applied(here, told).get("operation") == used


@pytest.mark.parametrize("give", [application_updated, operation_applied])
def test_a_new_operation_begins_without_the_state_of_the_last(give: Any) -> None:
    done = {"phase": "Succeeded", "operation": OTHER}
    here = application(status={"sync": "s", "operationState": done})
    given = give(here, application(operation=SYNC))
    assert (given["operation"], given["status"]) == (SYNC, {"sync": "s"})
    assert give(given, application(operation=SYNC)) == given

    assert give(here, application())["status"] == here["status"]
    under_way = application(operation=SYNC, status={"operationState": {"phase": "Running"}})
    for told in (SYNC, OTHER):
        assert give(under_way, application(operation=told))["status"] == under_way["status"]


def test_of_a_status_only_status_operation_and_refresh_count() -> None:
    asked = annotated(note="x", refresh="hard", hydrate="normal", sets="true")
    hub = application(metadata=asked, operation=SYNC)
    told = application(
        metadata={**annotated(source="1"), "labels": {"l": "1"}},
        spec={"project": "other"},
        status={"health": "h"},
    )
    assert status_applied(hub, told) == application(metadata=annotated(note="x"), status={"health": "h"})


def test_an_agents_refresh_and_operation_are_shown() -> None:
    told = application(metadata=annotated(refresh="normal"), operation=SYNC)
    assert status_applied(application(), told) == application(
        metadata=annotated(refresh="normal"), operation=SYNC
    )
    hub = application(metadata=annotated(refresh="hard"))
    assert status_applied(hub, told)["metadata"] == hub["metadata"]


def test_a_status_that_is_older_than_an_operation_does_not_erase_it() -> None:
    hub = application(operation=SYNC)
    assert status_applied(hub, application(), operation_pending=True)["operation"] == SYNC
    assert "operation" not in status_applied(hub, application())
    assert status_applied(hub, application(operation=OTHER), operation_pending=True)["operation"] == OTHER


def test_each_side_knows_itself_what_notifications_it_has_sent() -> None:
    told = application(metadata=annotated(notified="there", note="x"))
    assert names.NOTIFIED not in application_copied(told, namespace="argocd")["metadata"]["annotations"]
    mirror = application_at_principal(told, agent="edge", cluster="edge")
    assert names.NOTIFIED not in mirror["metadata"]["annotations"]


def test_what_went_wrong_at_the_agent_is_shown_once() -> None:
    hub = application(status={"health": {"status": "Healthy"}, "conditions": [{"type": "Other"}]})
    once = error_shown(hub, message="no", now="2026-01-01T00:00:00Z")
    again = error_shown(once, message="still no", now="2026-01-01T00:00:01Z")
    assert again["status"] == {
        "health": {"status": "Degraded"},
        "conditions": [
            {"type": "Other"},
            {"type": "AgentError", "message": "still no", "lastTransitionTime": "2026-01-01T00:00:01Z"},
        ],
    }


def test_a_mirror_of_an_application_lives_in_the_agents_namespace() -> None:
    incoming = application(
        namespace="argocd",
        destination={"server": names.IN_CLUSTER_SERVER, "namespace": "guest"},
        metadata={**annotated(note="x"), "ownerReferences": [{}]},
        operation=SYNC,
        status={
            "sync": "s",
            "resources": [
                {"group": names.GROUP, "kind": "Application", "namespace": "argocd", "name": "child"},
                {"kind": "Service", "namespace": "guest", "name": "web"},
                "text",
            ],
        },
    )
    assert application_at_principal(incoming, agent="edge", cluster="the-edge") == {
        "metadata": {"name": "web", "namespace": "edge", **annotated(note="x", source="uid-web")},
        "spec": {"project": "edge-shop", "destination": {"name": "the-edge", "namespace": "guest"}},
        "status": {
            "sync": "s",
            "resources": [
                {"group": names.GROUP, "kind": "Application", "namespace": "edge", "name": "child"},
                {"kind": "Service", "namespace": "guest", "name": "web"},
                "text",
            ],
        },
    }


def test_no_project_is_the_default_project() -> None:
    mirror = application_at_principal(application(spec={"project": ""}), agent="edge", cluster="edge")
    assert mirror["spec"]["project"] == "edge-default"


def test_a_later_version_replaces_the_mirror_but_for_what_the_hub_knows() -> None:
    hub = application_at_principal(application(), agent="edge", cluster="edge")
    hub["metadata"]["uid"] = "hub"
    hub["metadata"]["annotations"][names.NOTIFIED] = "sent"
    later = application(metadata={**annotated(note="y"), "labels": {"l": "1"}}, status={"health": "h"})
    result = mirror_updated(
        hub, application_at_principal(later, agent="edge", cluster="edge"), operation=SYNC
    )
    assert result == {
        "metadata": {
            "name": "web",
            "namespace": "edge",
            "uid": "hub",
            "labels": {"l": "1"},
            **annotated(note="y", source="uid-web", notified="sent"),
        },
        "spec": hub["spec"],
        "status": {"health": "h"},
        "operation": SYNC,
    }
    ended = mirror_updated(
        result, application_at_principal(later, agent="edge", cluster="edge"), operation=None
    )
    assert "operation" not in ended


def test_an_autonomous_application_takes_nothing_but_commands() -> None:
    here = application(namespace="argocd", metadata=annotated(note="x"))
    told = application(
        metadata=annotated(refresh="hard", hydrate="normal", note="y"), spec={"project": "z"}, operation=SYNC
    )
    assert operation_applied(here, told) == application(
        namespace="argocd", metadata=annotated(note="x", refresh="hard", hydrate="normal"), operation=SYNC
    )
    assert operation_applied(here, application()) == here


def test_an_operation_that_was_begun_can_be_ended() -> None:
    begun = application(status={"operationState": {"phase": "Running", "message": "m"}})
    assert terminated(begun) == application(
        status={"operationState": {"phase": "Terminating", "message": "m"}}
    )
    assert terminated(application()) is None


@given(OBJECTS)
def test_copying_twice_is_copying_once(incoming: Any) -> None:
    once = application_copied(incoming, namespace="here", principal_uid="p")
    assert application_copied(once, namespace="here", principal_uid="p") == once
    assert isinstance(application_at_principal(incoming, agent="edge", cluster="edge"), dict)


@given(st.sampled_from(NAMES), st.sampled_from(["", "shop", "agent-a-shop"]))
def test_a_mirror_mirrored_twice_is_the_mirror(agent: str, its_project: str) -> None:
    mirror = application_at_principal(application(spec={"project": its_project}), agent=agent, cluster="c")
    assert application_at_principal(mirror, agent=agent, cluster="c") == mirror


@given(OBJECTS, OBJECTS)
def test_updates_of_any_shape_settle(here: Any, told: Any) -> None:
    before = copy.deepcopy((here, told))
    once = application_updated(here, told)
    assert application_updated(once, told) == once
    seen = status_applied(here, told)
    assert status_applied(seen, told) == seen
    assert isinstance(mirror_updated(here, told, operation=None), dict)
    assert isinstance(operation_applied(here, told), dict)
    assert isinstance(error_shown(here, message="m", now="t"), dict)
    assert terminated(here) is None or isinstance(terminated(here), dict)
    assert (here, told) == before


def test_a_mirror_says_when_it_was_last_written_and_is_not_written_to_say_so() -> None:
    mirror = {"metadata": {"name": "shop", "annotations": {names.SOURCE_UID: "1"}}, "spec": {"project": "a"}}
    first = stamped(None, mirror, now=datetime(2026, 1, 1, tzinfo=UTC))
    assert first["metadata"]["annotations"][names.LAST_UPDATED] == "2026-01-01T00:00:00Z"
    later = datetime(2026, 1, 2, tzinfo=UTC)
    assert stamped(first, mirror, now=later) == first
    assert stamped(mirror, mirror, now=later) == mirror
    changed = stamped(first, {**mirror, "spec": {"project": "b"}}, now=later)
    assert changed["metadata"]["annotations"][names.LAST_UPDATED] == "2026-01-02T00:00:00Z"
