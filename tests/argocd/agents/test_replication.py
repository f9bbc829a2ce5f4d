"""Copies of a primary's objects on its standby."""

import json
from base64 import b64encode
from typing import Any

import pytest

from argocd import names
from argocd.agents.replication import (
    DELETING,
    LONGEST_OPERATION,
    PENDING_OPERATION,
    admits_replica,
    copy_digest,
    has_run,
    local_copy,
    pending_operation,
    replicated_copy,
    without_marks,
)
from argocd.agents.routing import AgentMapping


def stored(**changes: Any) -> dict[str, Any]:
    metadata = {
        "name": "web",
        "namespace": "agent-a",
        "uid": "uid-1",
        "resourceVersion": "7",
        "generation": 3,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"team": "a"},
        "annotations": {"note": "kept"},
        "finalizers": [names.RESOURCES_FINALIZER],
        **changes.pop("metadata", {}),
    }
    return {
        "apiVersion": names.API_VERSION,
        "kind": "Application",
        "metadata": metadata,
        "spec": {"project": "x"},
        **changes,
    }


def test_a_copy_carries_what_the_object_is_and_not_what_its_cluster_made_of_it() -> None:
    copy = replicated_copy(stored(status={"sync": {"status": "Synced"}}))
    assert copy == {
        "metadata": {
            "name": "web",
            "namespace": "agent-a",
            "labels": {"team": "a"},
            "finalizers": [names.RESOURCES_FINALIZER],
            "annotations": {"note": "kept", names.SOURCE_UID: "uid-1"},
        },
        "spec": {"project": "x"},
        "status": {"sync": {"status": "Synced"}},
    }


def test_the_copy_of_a_copy_is_that_copy() -> None:
    original = stored(
        operation={"sync": {"revision": "v2"}}, metadata={"deletionTimestamp": "2026-02-02T00:00:00Z"}
    )
    copy = replicated_copy(original)
    there = {**copy, "metadata": {**copy["metadata"], "uid": "another", "resourceVersion": "99"}}
    assert replicated_copy(there) == copy
    assert copy_digest(replicated_copy(there)) == copy_digest(copy)


def test_a_pending_operation_and_a_deletion_are_marks_that_begin_nothing() -> None:
    operation = {"sync": {"revision": "v2"}}
    copy = replicated_copy(
        stored(operation=operation, metadata={"deletionTimestamp": "2026-02-02T00:00:00Z"})
    )
    assert "operation" not in copy
    assert "deletionTimestamp" not in copy["metadata"]
    assert pending_operation(copy) == operation
    assert copy["metadata"]["annotations"][DELETING] == "2026-02-02T00:00:00Z"
    assert set(without_marks(copy)["metadata"]["annotations"]) == {"note", names.SOURCE_UID}


def test_an_operation_that_fits_into_no_annotation_is_left_out() -> None:
    copy = replicated_copy(stored(operation={"info": "x" * LONGEST_OPERATION}))
    assert PENDING_OPERATION not in copy["metadata"]["annotations"]


@pytest.mark.parametrize("mark", ["", "[]", "{", "null"])
def test_a_mark_that_is_no_operation_is_none(mark: str) -> None:
    assert pending_operation({"metadata": {"annotations": {PENDING_OPERATION: mark}}}) is None


def test_an_operation_has_run_where_the_status_shows_it() -> None:
    operation = {"sync": {"revision": "v2"}}
    assert has_run(stored(status={"operationState": {"operation": operation}}), operation)
    assert not has_run(
        stored(status={"operationState": {"operation": {"sync": {"revision": "v1"}}}}), operation
    )
    assert not has_run(stored(), operation)


def test_a_copy_keeps_the_identity_that_agents_know_whichever_side_is_active() -> None:
    first = replicated_copy(stored())
    promoted = stored(metadata={"uid": "uid-2", "annotations": first["metadata"]["annotations"]})
    assert replicated_copy(promoted)["metadata"]["annotations"][names.SOURCE_UID] == "uid-1"
    # Back on the first side the original has no annotation, and is the same all the same.
    assert copy_digest(replicated_copy(promoted)) == copy_digest(first)


def test_owners_are_those_of_the_same_name_here_and_none_where_there_is_none() -> None:
    owner = {"kind": "ApplicationSet", "name": "set", "uid": "there", "controller": True, "apiVersion": "x"}
    other = {"kind": "Deployment", "name": "d", "uid": "u"}
    copy = replicated_copy(stored(metadata={"ownerReferences": [owner, other]}))
    here, missing = local_copy(copy, uid_of_owner={"set": "here"}.get)  # type: ignore[arg-type]
    assert here["metadata"]["ownerReferences"] == [{**owner, "uid": "here"}]
    assert missing == []
    here, missing = local_copy(copy, uid_of_owner=lambda _name: "")
    assert "ownerReferences" not in here["metadata"]
    assert missing == ["set"]


@pytest.mark.parametrize(
    ("config", "kept"),
    [
        (
            b'{"bearerToken":"secret","tlsClientConfig":{"insecure":false}}',
            b'{"tlsClientConfig":{"insecure":false}}',
        ),
        (b'{"tlsClientConfig":{}}', b'{"tlsClientConfig":{}}'),
        (b'{"BEARERTOKEN":"secret"}', b"{}"),
        (b"not json", b"not json"),
        (b"[]", b"[]"),
    ],
)
def test_a_cluster_s_token_is_left_out(config: bytes, kept: bytes) -> None:
    labels = {names.SECRET_TYPE: names.SECRET_TYPE_CLUSTER, names.AGENT_NAME: "agent-a"}
    data = {"config": b64encode(config).decode(), "name": "YQ=="}
    # Whoever applied the Secret by kubectl has left it there once more.
    annotations = {names.LAST_APPLIED: json.dumps({"data": data}), "note": "kept"}
    metadata = {"name": "c", "labels": labels, "uid": "u", "annotations": annotations}
    copy = replicated_copy({"metadata": metadata, "data": data, "type": "Opaque"})
    assert copy["data"] == {"config": b64encode(kept).decode(), "name": "YQ=="}
    assert copy["metadata"]["annotations"] == {"note": "kept", names.SOURCE_UID: "u"}


@pytest.mark.parametrize(
    ("namespace", "destination", "mapped_by", "admitted"),
    [
        ("agent-a", "agent-a", AgentMapping.NAMESPACE, True),
        ("argocd", "agent-a", AgentMapping.NAMESPACE, False),
        ("argocd", "agent-a", AgentMapping.DESTINATION, True),
        ("argocd", names.IN_CLUSTER_NAME, AgentMapping.DESTINATION, False),
        ("argocd", "", AgentMapping.DESTINATION, False),
        ("elsewhere", "agent-a", AgentMapping.DESTINATION, False),
    ],
)
def test_applications_of_agents_are_replicated_also_those_kept_from_them(
    *, namespace: str, destination: str, mapped_by: AgentMapping, admitted: bool
) -> None:
    item = stored(
        metadata={"namespace": namespace, "labels": {names.IGNORE_SYNC: "true"}},
        spec={"destination": {"name": destination}},
    )
    assert (
        admits_replica(item, namespace="argocd", allowed_namespaces=["agent-*"], mapped_by=mapped_by)
        is admitted
    )
