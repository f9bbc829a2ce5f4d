"""Objects of a primary's cluster as they stand on its standby: what is carried, what is left out, what is marked.

A copy is complete but for one thing: the uids of the ApplicationSets that own it, which only the standby knows.
"""

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any

import orjson

from argocd import names
from argocd.agents.identity import source_uid
from argocd.agents.routing import AgentMapping, namespace_is_allowed
from argocd.reading import mapping, sequence, text, value

PENDING_OPERATION = "tiphys.dev/pending-operation"
"""Annotation of a copy: the operation that its source has and nobody may run here yet."""
DELETING = "tiphys.dev/deleting"
"""Annotation of a copy: since when its source is being deleted."""

_MARKS = frozenset({PENDING_OPERATION, DELETING, names.SOURCE_UID})
_CONTENT = ("spec", "status", "data", "binaryData", "type")

DIGEST_BYTES = 16
LONGEST_OPERATION = 64 << 10
"""Bytes of an operation that still fits into an annotation: an API server takes 256 KiB of all of them."""

_OWNER = "ApplicationSet"


def admits_replica(
    application: Mapping[str, Any],
    *,
    namespace: str,
    allowed_namespaces: list[str],
    mapped_by: AgentMapping,
) -> bool:
    """Whether an Application is one of its principal's agents; those that are kept from them too."""
    patterns = allowed_namespaces
    if mapped_by is AgentMapping.DESTINATION:
        if text(application, "spec", "destination", "name") in {"", names.IN_CLUSTER_NAME}:
            return False
        patterns = [*allowed_namespaces, namespace]
    return namespace_is_allowed(text(application, "metadata", "namespace"), patterns)


def replicated_copy(item: Mapping[str, Any]) -> dict[str, Any]:
    """What a standby shall have of an object. The copy of a copy is that copy."""
    metadata = mapping(item, "metadata")
    copy: dict[str, Any] = {"metadata": _metadata(item, metadata)}
    for key in _CONTENT:
        if item.get(key) is not None:
            copy[key] = item[key]
    if text(metadata, "labels", names.SECRET_TYPE) == names.SECRET_TYPE_CLUSTER:
        copy["data"] = _without_token(mapping(copy, "data"))
        copy["metadata"]["annotations"].pop(names.LAST_APPLIED, None)  # it has the token too
    return copy


def copy_digest(copy: Mapping[str, Any]) -> bytes:
    """Equal exactly where two ends have the same copy."""
    told = orjson.dumps(copy, option=orjson.OPT_SORT_KEYS)
    return blake2b(told, digest_size=DIGEST_BYTES, person=b"replica").digest()


def local_copy(
    copy: Mapping[str, Any], *, uid_of_owner: Callable[[str], str]
) -> tuple[dict[str, Any], list[str]]:
    """A copy as it is written here, and the owners that it still lacks."""
    metadata = dict(mapping(copy, "metadata"))
    owners, missing = [], []
    for owner in sequence(metadata, "ownerReferences"):
        uid = uid_of_owner(text(owner, "name"))
        if uid:
            owners.append({**owner, "uid": uid})
        else:
            missing.append(text(owner, "name"))
    metadata.pop("ownerReferences", None)
    if owners:
        metadata["ownerReferences"] = owners
    return {**copy, "metadata": metadata}, missing


def pending_operation(item: Mapping[str, Any]) -> Any:
    """What its mark says, or None; a mark that is no JSON object is none."""
    mark = text(item, "metadata", "annotations", PENDING_OPERATION)
    try:
        operation = orjson.loads(mark) if mark else None
    except orjson.JSONDecodeError:
        return None
    return operation if isinstance(operation, dict) else None


def has_run(item: Mapping[str, Any], operation: Mapping[str, Any]) -> bool:
    """Whether the status shows the operation, begun or over."""
    return bool(value(item, "status", "operationState", "operation") == operation)


def is_marked(item: Mapping[str, Any]) -> bool:
    annotations = mapping(item, "metadata", "annotations")
    return PENDING_OPERATION in annotations or DELETING in annotations


def without_marks(item: Mapping[str, Any]) -> dict[str, Any]:
    """Of a promotion: what they announced is done."""
    metadata = dict(mapping(item, "metadata"))
    metadata["annotations"] = {
        key: word
        for key, word in mapping(metadata, "annotations").items()
        if key not in {PENDING_OPERATION, DELETING}
    }
    return {**item, "metadata": metadata}


def _metadata(item: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {"name": text(metadata, "name")}
    if namespace := text(metadata, "namespace"):
        kept["namespace"] = namespace
    if labels := mapping(metadata, "labels"):
        kept["labels"] = labels
    if finalizers := sequence(metadata, "finalizers"):
        kept["finalizers"] = list(finalizers)
    owners = [
        {key: part for key, part in owner.items() if key != "uid"}
        for owner in sequence(metadata, "ownerReferences")
        if text(owner, "kind") == _OWNER
    ]
    if owners:
        kept["ownerReferences"] = owners
    kept["annotations"] = _annotations(item, mapping(metadata, "annotations"))
    return kept


def _annotations(item: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    annotations = {key: word for key, word in own.items() if key not in _MARKS}
    annotations[names.SOURCE_UID] = source_uid(item)
    operation = item.get("operation")
    if operation is not None:
        mark = orjson.dumps(operation, option=orjson.OPT_SORT_KEYS)
        if len(mark) <= LONGEST_OPERATION:
            annotations[PENDING_OPERATION] = mark.decode()
    elif PENDING_OPERATION in own:
        annotations[PENDING_OPERATION] = own[PENDING_OPERATION]
    since = text(item, "metadata", "deletionTimestamp") or own.get(DELETING)
    if since:
        annotations[DELETING] = since
    return annotations


def _without_token(data: Mapping[str, Any]) -> dict[str, Any]:
    """A cluster's configuration without the token by which the hub's own proxy knows its callers."""
    config = data.get("config")
    try:
        read = orjson.loads(b64decode(config or "", validate=True)) if isinstance(config, str) else None
    except (Base64Error, ValueError):
        read = None
    if not isinstance(read, dict):
        return dict(data)
    # Go, which reads it, takes any spelling.
    kept = {key: part for key, part in read.items() if key.casefold() != "bearertoken"}
    if len(kept) == len(read):
        return dict(data)
    return {**data, "config": b64encode(orjson.dumps(kept)).decode()}
