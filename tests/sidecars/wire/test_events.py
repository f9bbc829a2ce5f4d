"""What an event says about itself, before it is bytes."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from argocd.agents.vocabulary import Message, Target
from sidecars.wire.events import Event, acknowledgement, heartbeat, message_event, object_event
from tiphys.errors import ObjectError

NOW = datetime(2026, 11, 16, 2, 44, 23, 745280, tzinfo=UTC)


def project(**metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "web", "namespace": "argocd", "uid": "u", "resourceVersion": "7", **metadata}
    }


def test_ids_come_from_the_objects_own_metadata() -> None:
    event = object_event(Message.CREATE, target=Target.PROJECT, obj=project())
    assert (event.resource_id, event.event_id, event.subject) == ("web_u", "web_u_7", "argocd/web")


def test_a_deleted_object_without_a_version_still_has_ids() -> None:
    event = object_event(Message.DELETE, target=Target.PROJECT, obj=project(resourceVersion=None))
    assert (event.resource_id, event.event_id) == ("web_u", "web_u_")


def test_an_object_that_is_no_json_is_refused_with_its_name() -> None:
    with pytest.raises(ObjectError, match="appproject 'web' cannot be sent"):
        object_event(Message.CREATE, target=Target.PROJECT, obj=project(labels={"a": object()}))


def test_messages_get_one_fresh_id_for_both() -> None:
    first, second = (message_event(Message.PING, target=Target.HEARTBEAT) for _ in range(2))
    assert first.resource_id == first.event_id != second.event_id


def test_an_answer_carries_its_requests_id() -> None:
    event = message_event(Message.RESPONSE, target=Target.RESOURCE, event_id="request-1")
    assert event.event_id == "request-1" != event.resource_id


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (NOW, "2026-11-16T02:44:23.74528Z"),
        (NOW.replace(microsecond=0), "2026-11-16T02:44:23Z"),
        (NOW.astimezone(timezone(timedelta(hours=2))), "2026-11-16T02:44:23.74528Z"),
    ],
)
def test_the_first_transmission_is_stamped_as_go_writes_times(moment: datetime, text: str) -> None:
    event = object_event(Message.CREATE, target=Target.PROJECT, obj=project()).stamped(moment)
    assert event.extensions["sentat"] == text


def test_a_resend_keeps_the_first_time() -> None:
    event = object_event(Message.CREATE, target=Target.PROJECT, obj=project()).stamped(NOW)
    assert event.stamped(NOW + timedelta(hours=1)) == event


def test_acknowledgements_and_heartbeats_are_not_stamped() -> None:
    event = object_event(Message.CREATE, target=Target.PROJECT, obj=project())
    assert "sentat" not in acknowledgement(event).stamped(NOW).extensions
    assert "sentat" not in heartbeat().stamped(NOW).extensions


def test_an_acknowledgement_returns_every_extension() -> None:
    event = object_event(
        Message.CREATE, target=Target.PROJECT, obj=project(), principal_uid="p", extensions={"x": "y"}
    ).stamped(NOW)
    echoed = acknowledgement(event)
    assert echoed.extensions == {"principaluid": "p", "x": "y", "sentat": "2026-11-16T02:44:23.74528Z"}
    assert (echoed.resource_id, echoed.event_id) == (event.resource_id, event.event_id)
    assert (echoed.type, echoed.target, echoed.payload) == (Message.PROCESSED, Target.EVENT_PROCESSED, b"")
    assert echoed.is_acknowledgement
    assert not echoed.expects_acknowledgement


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-16T02:44:23.745280299Z", NOW),
        ("2026-11-16T02:44:23.74528Z", NOW),
        ("yesterday", None),
        ("2026-11-16T02:44:23", None),
        ("", None),
    ],
)
def test_a_peers_time_is_read_or_ignored(text: str, expected: datetime | None) -> None:
    event = Event(type="t", target="application", resource_id="r", event_id="e", extensions={"sentat": text})
    assert event.sent_at == expected


def test_a_payload_never_shows_in_a_repr() -> None:
    event = object_event(
        Message.CREATE, target=Target.REPOSITORY, obj={**project(), "data": {"password": "hunter2"}}
    )
    assert "hunter2" not in repr(event)
