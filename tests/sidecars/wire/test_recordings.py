"""What a Go principal, agent and replica really said: read, written again, compared field by field."""

import json
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from argocd.agents.vocabulary import OBJECT_TARGETS, Message, Mode, Target
from sidecars.wire import payloads, proxy_payloads
from sidecars.wire.auth.tokens import Holder
from sidecars.wire.envelopes import encode, from_cloudevent, to_cloudevent
from sidecars.wire.events import acknowledgement
from sidecars.wire.generated import auth_pb2, eventstream_pb2, replication_pb2, version_pb2
from sidecars.wire.json_objects import read_object

RECORDINGS = Path(__file__).resolve().parents[4] / "shared" / "oracle" / "wire"

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(not RECORDINGS.is_dir(), reason="no recordings beside the repository"),
]

KINDS: dict[tuple[str, str], Any] = {
    ("/versionapi.Version/Version", "request"): version_pb2.VersionRequest,
    ("/versionapi.Version/Version", "response"): version_pb2.VersionResponse,
    ("/eventstreamapi.EventStream/Subscribe", "request"): eventstream_pb2.Event,
    ("/eventstreamapi.EventStream/Subscribe", "response"): eventstream_pb2.Event,
    ("/replicationapi.Replication/Subscribe", "request"): replication_pb2.ReplicationAck,
    ("/replicationapi.Replication/Subscribe", "response"): replication_pb2.ReplicatedEvent,
    ("/replicationapi.Replication/GetSnapshot", "request"): replication_pb2.SnapshotRequest,
    ("/replicationapi.Replication/GetSnapshot", "response"): replication_pb2.ReplicationSnapshot,
    ("/replicationapi.Replication/Status", "request"): replication_pb2.StatusRequest,
    ("/replicationapi.Replication/Status", "response"): replication_pb2.ReplicationStatus,
}

STRUCTS: dict[str, Any] = {
    Message.REQUEST_SYNCED_RESOURCE_LIST: payloads.RequestSyncedResourceList,
    Message.RESPONSE_SYNCED_RESOURCE: payloads.SyncedResource,
    Message.REQUEST_UPDATE: payloads.RequestUpdate,
    Message.REQUEST_RESOURCE_RESYNC: payloads.RequestResourceResync,
    Message.CLUSTER_CACHE_INFO_UPDATE: proxy_payloads.ClusterCacheInfo,
    Message.ERROR: payloads.ErrorData,
}


def lines(*names: str) -> Iterator[dict[str, Any]]:
    for name in names or ("managed", "autonomous", "replication"):
        with (RECORDINGS / f"{name}.jsonl").open() as file:
            yield from map(json.loads, file)


def messages(*names: str) -> Iterator[tuple[dict[str, Any], Any, bytes]]:
    for line in lines(*names):
        kind = KINDS.get((line.get("method", ""), line["what"]))
        if kind is not None and line.get("raw") is not None:
            raw = b64decode(line["raw"])
            yield line, kind.FromString(raw), raw


def cloudevents(*names: str) -> list[Any]:
    found = [message.event for _, message, _ in messages(*names) if hasattr(message, "event")]
    assert found
    return found


def test_every_recorded_message_is_written_as_it_was_read() -> None:
    count = 0
    for _, message, raw in messages():
        # Maps have no order on the wire: the same bytes, sorted, is all that can be asked.
        assert sorted(message.SerializeToString()) == sorted(raw)
        assert not message.FindInitializationErrors()
        count += 1
    assert count > 200


def test_every_recorded_event_survives_our_own_form_unchanged() -> None:
    for message in cloudevents():
        assert to_cloudevent(from_cloudevent(message)) == message


def test_every_recorded_event_has_a_type_and_target_that_we_know() -> None:
    for message in cloudevents():
        event = from_cloudevent(message)
        assert event.type in list(Message)
        assert event.target in list(Target)


def test_every_recorded_payload_is_read_and_small_structs_are_written_alike() -> None:
    structs = 0
    for event in map(from_cloudevent, cloudevents()):
        if event.type in STRUCTS and event.target != Target.EVENT_PROCESSED:
            assert payloads.write(payloads.read(STRUCTS[event.type], event.payload)) == event.payload
            structs += 1
        elif event.target in OBJECT_TARGETS:
            obj = read_object(event.payload)
            assert event.subject.endswith(f"/{obj['metadata']['name']}")
            assert event.resource_id == f"{obj['metadata']['name']}_{obj['metadata']['uid']}"
        else:
            assert event.payload == b""
    assert structs > 10


def test_our_acknowledgements_are_those_that_go_sent() -> None:
    """Each answer of the principal and the agent, made again from the event that it answers."""
    compared = 0
    for name in ("managed", "autonomous"):
        sent: dict[tuple[str, str, str], Any] = {}
        for line, message, _ in messages(name):
            if not hasattr(message, "event"):
                continue
            event = from_cloudevent(message.event)
            other = "response" if line["what"] == "request" else "request"
            if not event.is_acknowledgement:
                sent[line["what"], event.resource_id, event.event_id] = event
            elif (original := sent.get((other, event.resource_id, event.event_id))) is not None:
                ours = acknowledgement(original, source=event.source)
                assert encode(ours) == encode(event)
                compared += 1
    assert compared > 80


def test_our_token_subjects_are_those_that_go_wrote() -> None:
    subjects = set()
    for line in lines("managed", "autonomous"):
        if line["what"] == "response" and line["method"].endswith("/Authenticate"):
            for token in ("accessToken", "refreshToken"):
                claims = line["decoded"][token]["claims"]
                agent, mode = json.loads(claims["sub"]).values()
                assert Holder(agent, Mode(mode)).subject() == claims["sub"]
                subjects.add(claims["sub"])
    assert len(subjects) == 2


def test_recorded_logins_have_the_fields_of_ours() -> None:
    known = {field.name for field in auth_pb2.AuthRequest.DESCRIPTOR.fields}
    for line in lines("managed", "autonomous"):
        if line["what"] == "request" and line["method"].endswith("/Authenticate"):
            assert set(line["decoded"]) <= known
