"""What is written where an object of the other end arrives: the copy as created, and as updated.

Each function answers with a whole object and changes nothing that it is given. What the API server keeps
(uid, versions, times) is not carried over.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from argocd import names
from argocd.agents.identity import has_source, source_uid
from argocd.agents.own_annotations import requests_on
from argocd.agents.project_copies import bare_name, prefixed_name
from argocd.judging.ratchet import PASSING_ANNOTATIONS
from argocd.reading import mapping, sequence, text, value

Object = Mapping[str, Any]

_SERVERS_OWN = frozenset(
    {
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
# The owner lives on the other cluster: here the garbage collector would take its absence for its deletion.

_SIDES_OWN = frozenset({names.LAST_APPLIED, names.NOTIFIED})
# Each side's notifications know what they have sent.

_CASCADING = frozenset({names.RESOURCES_FINALIZER, names.FOREGROUND_FINALIZER, names.BACKGROUND_FINALIZER})

_TERMINATING = "Terminating"
_ENDED = frozenset({"Succeeded", "Failed", "Error"})

AGENT_ERROR = "AgentError"
"""The condition under which argocd-agent shows what went wrong at an agent."""


def copied(incoming: Object, *, namespace: str, stamps: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A project, repository or key ring as a managed agent creates it: marked with its uid at the source."""
    metadata = {key: part for key, part in mapping(incoming, "metadata").items() if key not in _SERVERS_OWN}
    annotations = {
        key: part for key, part in mapping(metadata, "annotations").items() if key not in _SIDES_OWN
    }
    annotations.update(stamps or {})
    if uid := source_uid(incoming):
        annotations[names.SOURCE_UID] = uid
    return {
        **incoming,
        "metadata": {**metadata, "namespace": namespace, "annotations": annotations},
    }


def updated(local: Object, copy: Object, *, content: str) -> dict[str, Any]:
    """A local project (`content` is spec), repository or key ring (data) brought to what `copied` made.

    Status stays the local one, and so do marks of origin that the copy does not carry.
    """
    result = {**local, "metadata": _updated_metadata(local, copy)}
    return _put(result, content, value(copy, content))


def application_copied(
    incoming: Object,
    *,
    namespace: str,
    principal_uid: str = "",
    remapped: bool = False,
) -> dict[str, Any]:
    """An Application as a managed agent creates it: on its own cluster, with the marks of its origin."""
    stamps = {names.PRINCIPAL_UID: principal_uid} if principal_uid else {}
    if remapped:
        stamps[names.NAMESPACE_REMAPPED] = "true"
    copy = copied(incoming, namespace=namespace, stamps=stamps)
    spec = dict(mapping(incoming, "spec"))
    destination = {key: part for key, part in mapping(spec, "destination").items() if key != "server"}
    spec["destination"] = {**destination, "name": names.IN_CLUSTER_NAME}
    return {**copy, "spec": spec}


def application_updated(local: Object, copy: Object) -> dict[str, Any]:
    """A managed agent's Application brought to what `application_copied` made; status stays the local one.

    So do a refresh that the local controller has not answered yet and what notifications were sent.
    """
    result = _keeping(PASSING_ANNOTATIONS, local, updated(local, copy, content="spec"))
    return _with_operation(result, local, copy)


def application_released(local: Object, gone: Object) -> dict[str, Any]:
    """A managed agent's Application before it is deleted: what it deployed goes with it only where the source, when it
    went, still said so. One that a source says no more of than that it is gone had no finalizer: that would have held it.
    """
    said = sequence(gone, "metadata", "finalizers")
    kept = [
        each for each in sequence(local, "metadata", "finalizers") if each in said or each not in _CASCADING
    ]
    return {**local, "metadata": _put(dict(mapping(local, "metadata")), "finalizers", kept or None)}


def _with_operation(result: dict[str, Any], local: Object, incoming: Object) -> dict[str, Any]:
    """A new one comes without the state of the last, as argocd-server gives it: the controller merges its own into what is
    there, and would go on with the last one's dry run, resources and manifests.
    """
    operation = operation_to_use(local, incoming)
    ended = text(local, "status", "operationState", "phase") in _ENDED
    if ended and operation is not None and operation != value(local, "operation"):
        result = {**result, "status": {**mapping(result, "status")}}
        _put(result["status"], "operationState", None)
    return _put(result, "operation", operation)


def operation_to_use(local: Object, incoming: Object) -> Any:
    """The operation that an agent's Application has after an event: a running end is not disturbed."""
    operation = value(incoming, "operation")
    terminating = text(local, "status", "operationState", "phase") == _TERMINATING
    return value(local, "operation") if operation is None or terminating else operation


def status_applied(hub: Object, incoming: Object, *, operation_pending: bool = False) -> dict[str, Any]:
    """The principal's Application after a managed agent's status: status, operation, refresh, nothing else.

    `operation_pending`: the agent has not acknowledged the principal's operation yet, so a status without
    one is older than it and must not erase it.
    """
    own = {
        key: part
        for key, part in mapping(hub, "metadata", "annotations").items()
        if key not in names.REQUESTS
    }
    asked = {key: requests_on(hub).get(key, part) for key, part in requests_on(incoming).items()}
    annotations = {**own, **asked}
    metadata = _put(dict(mapping(hub, "metadata")), "annotations", annotations or None)
    result = _put({**hub, "metadata": metadata}, "status", value(incoming, "status"))
    operation = value(incoming, "operation")
    if operation is None and operation_pending:
        return result
    return _put(result, "operation", operation)


def error_shown(hub: Object, *, message: str, now: str) -> dict[str, Any]:
    """The principal's Application after an agent could not apply it; `now` is a time as Kubernetes writes it."""
    status = mapping(hub, "status")
    others = [each for each in sequence(status, "conditions") if text(each, "type") != AGENT_ERROR]
    condition = {"type": AGENT_ERROR, "message": message, "lastTransitionTime": now}
    health = {**mapping(status, "health"), "status": "Degraded"}
    return {**hub, "status": {**status, "health": health, "conditions": [*others, condition]}}


def application_at_principal(incoming: Object, *, agent: str, cluster: str) -> dict[str, Any]:
    """The mirror that a principal creates of an autonomous agent's Application. Twice is once.

    Raises NameTooLongError where the project's prefixed name would be none.
    """
    mirror = copied(incoming, namespace=agent)
    mirror.pop("operation", None)
    spec = dict(mapping(incoming, "spec"))
    if not _is_mirror(incoming, agent=agent, cluster=cluster):
        spec["project"] = prefixed_name(agent, text(spec, "project") or names.DEFAULT_PROJECT)
    destination = {key: part for key, part in mapping(spec, "destination").items() if key != "server"}
    spec["destination"] = {**destination, "name": cluster}
    mirror["spec"] = spec
    if resources := sequence(incoming, "status", "resources"):
        mirror["status"] = {
            **mapping(incoming, "status"),
            "resources": [_resource_at_principal(resource, agent) for resource in resources],
        }
    return mirror


def mirror_updated(hub: Object, mirror: Object, *, operation: Any) -> dict[str, Any]:
    """The principal's mirror brought to what `application_at_principal` made of a later version.

    Unlike at creation the agent's operation is shown. What notifications were sent is the hub's knowledge.
    """
    result = _keeping((names.NOTIFIED,), hub, updated(hub, mirror, content="spec"))
    return _put(_put(result, "status", value(mirror, "status")), "operation", operation)


def stamped(hub: Object | None, mirror: Object, *, now: datetime) -> dict[str, Any]:
    """A mirror with the time at which the principal wrote it; the one that is there if nothing else changes."""
    before = value(hub, "metadata", "annotations", names.LAST_UPDATED)
    same = _with_stamp(mirror, before)
    if same == hub:
        return same
    return _with_stamp(mirror, now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))


def operation_applied(local: Object, incoming: Object) -> dict[str, Any]:
    """An autonomous agent's Application after its principal's word: an operation or a refresh, nothing else."""
    result = _with_operation(dict(local), local, incoming)
    if asked := requests_on(incoming):
        annotations = {**mapping(local, "metadata", "annotations"), **asked}
        result["metadata"] = {**mapping(local, "metadata"), "annotations": annotations}
    return result


def terminated(local: Object) -> dict[str, Any] | None:
    """An agent's Application told to end its operation; None where none was ever begun."""
    state = value(local, "status", "operationState")
    if not isinstance(state, Mapping):
        return None
    status = {**mapping(local, "status"), "operationState": {**state, "phase": _TERMINATING}}
    return {**local, "status": status}


def _is_mirror(application: Object, *, agent: str, cluster: str) -> bool:
    project = text(application, "spec", "project")
    destination = mapping(application, "spec", "destination")
    return (
        has_source(application)
        and text(application, "metadata", "namespace") == agent
        and bare_name(agent, project) != project
        and text(destination, "name") == cluster
        and "server" not in destination
    )


def _resource_at_principal(resource: Any, agent: str) -> Any:
    """An app of apps lists its children, which live elsewhere on the principal."""
    if text(resource, "kind") == "Application" and text(resource, "group") == names.GROUP:
        return {**resource, "namespace": agent}
    return resource


def _updated_metadata(local: Object, copy: Object) -> dict[str, Any]:
    kept, told = mapping(local, "metadata"), mapping(copy, "metadata")
    metadata = _put(dict(kept), "labels", value(told, "labels"))
    annotations = dict(mapping(told, "annotations"))
    for key in (names.SOURCE_UID, names.PRINCIPAL_UID):
        if key in mapping(kept, "annotations"):
            annotations.setdefault(key, mapping(kept, "annotations")[key])
    _put(metadata, "annotations", annotations or None)
    # While an object is being deleted no finalizer may be added, and those that are left have work to do.
    if value(kept, "deletionTimestamp") is None:
        _put(metadata, "finalizers", value(told, "finalizers"))
    return metadata


def _keeping(own: Iterable[str], local: Object, result: dict[str, Any]) -> dict[str, Any]:
    here = mapping(local, "metadata", "annotations")
    kept = {key: here[key] for key in own if here.get(key) is not None}
    if not kept:
        return result
    annotations = {**mapping(result, "metadata", "annotations"), **kept}
    return {**result, "metadata": {**result["metadata"], "annotations": annotations}}


def _with_stamp(mirror: Object, stamp: Any) -> dict[str, Any]:
    annotations = _put(dict(mapping(mirror, "metadata", "annotations")), names.LAST_UPDATED, stamp)
    return {**mirror, "metadata": {**mapping(mirror, "metadata"), "annotations": annotations}}


def _put(target: dict[str, Any], key: str, part: Any) -> dict[str, Any]:
    if part is None:
        target.pop(key, None)
    else:
        target[key] = part
    return target
