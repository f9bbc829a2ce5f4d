"""The generated messages are fresh and have the numbers that the other side expects."""

from pathlib import Path
from typing import Any

import pytest

from scripts import protos
from sidecars.wire.generated import (
    auth_pb2,
    cloudevents_pb2,
    eventstream_pb2,
    haadmin_pb2,
    replication_pb2,
    version_pb2,
)

FIELDS = {
    auth_pb2.AuthRequest: "method 1, credentials 2, mode 3, version 4, agentNamespace 5",
    auth_pb2.AuthResponse: "accessToken 1, refreshToken 2, version 3, principalNamespace 4",
    auth_pb2.RefreshTokenRequest: "refreshToken 1",
    version_pb2.VersionRequest: "",
    version_pb2.VersionResponse: "version 1",
    eventstream_pb2.Event: "event 1, batch 1000",
    eventstream_pb2.PushSummary: "result 1, received 2, processed 3",
    cloudevents_pb2.CloudEvent: (
        "id 1, source 2, spec_version 3, type 4, attributes 5, binary_data 6, text_data 7, proto_data 8"
    ),
    cloudevents_pb2.CloudEventAttributeValue: (
        "ce_boolean 1, ce_integer 2, ce_string 3, ce_bytes 4, ce_uri 5, ce_uri_ref 6, ce_timestamp 7"
    ),
    replication_pb2.ReplicatedEvent: (
        "event 1, agent_name 2, direction 3, sequence_num 4, processed_at_unix 5"
    ),
    replication_pb2.ReplicationSnapshot: "agents 1, last_sequence_num 2, principal_resources 3",
    replication_pb2.AgentState: "name 1, mode 2, connected 3, resources 4",
    replication_pb2.Resource: "name 1, namespace 2, kind 3, uid 4, spec_checksum 5, data 6",
    replication_pb2.ReplicationAck: (
        "acked_sequence_num 1, taken_bytes 101, word 102, payload 103, held 104"  # from 101 on ours
    ),
    replication_pb2.ReplicationStatus: (
        "current_sequence_num 1, pending_events 2, last_event_unix 3, connected_replicas 4, report 101"
    ),
    replication_pb2.SnapshotRequest: "since_sequence_num 1",
    replication_pb2.ConfirmMissingResourcesRequest: "agent_name 1, snapshot_sequence_num 2, resources 3",
    replication_pb2.ConfirmMissingResourcesResponse: "results 1",
    replication_pb2.ConfirmMissingResourceResult: "resource 1, status 2, reason 3",
    haadmin_pb2.HAStatusResponse: (
        "state 1, preferred_role 2, peer_address 3, peer_reachable 4, peer_state 5, connected_replicas 6,"
        " last_event_timestamp 7, last_sequence_num 8, connected_agents 9"
    ),
    haadmin_pb2.PromoteRequest: "force 1",
    haadmin_pb2.PromoteResponse: "state 1",
    haadmin_pb2.DemoteRequest: "",
    haadmin_pb2.DemoteResponse: "state 1",
}

METHODS = {
    (version_pb2, "Version"): "versionapi.Version: Version",
    (auth_pb2, "Authentication"): "authapi.Authentication: Authenticate, RefreshToken",
    (eventstream_pb2, "EventStream"): "eventstreamapi.EventStream: Subscribe <>, Push >, Ping",
    (replication_pb2, "Replication"): (
        "replicationapi.Replication: Subscribe <>, GetSnapshot, Status, ConfirmMissingResources"
    ),
    (haadmin_pb2, "HAAdmin"): "haadminapi.HAAdmin: Status, Promote, Demote",
}


def test_generated_modules_are_what_the_compiler_makes_now(tmp_path: Path) -> None:
    protos.generate(tmp_path)
    fresh = {path.name: path.read_text() for path in (tmp_path / protos.PACKAGE).iterdir()}
    committed = {
        path.name: path.read_text()
        for path in (protos.ROOT / protos.PACKAGE).iterdir()
        if path.suffix in {".py", ".pyi"} and path.name != "__init__.py"
    }
    assert committed == fresh, "run `make protos`"


@pytest.mark.parametrize("message", FIELDS, ids=lambda message: message.DESCRIPTOR.full_name)
def test_fields_have_the_numbers_of_the_protocol(message: Any) -> None:
    found = ", ".join(f"{field.name} {field.number}" for field in message.DESCRIPTOR.fields)
    assert found == FIELDS[message]


@pytest.mark.parametrize(("module", "service"), METHODS, ids=lambda part: getattr(part, "__name__", part))
def test_services_have_the_names_of_the_protocol(module: Any, service: str) -> None:
    described = module.DESCRIPTOR.services_by_name[service]
    methods = ", ".join(
        f"{method.name} {'<' * method.server_streaming}{'>' * method.client_streaming}".strip()
        for method in described.methods
    )
    assert f"{described.full_name}: {methods}" == METHODS[module, service]
