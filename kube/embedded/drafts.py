"""What an API server makes of a body before it stores it. No I/O, no clock: time and chance are arguments."""

from dataclasses import dataclass

from kube.embedded.managed_fields import Owners
from kube.embedded.traits import Traits
from kube.errors import BadRequestError, ConflictError, InvalidError
from kube.store import Object, Resource

# metadata.generateName is cut so that it fits a label with its suffix.
_LONGEST_GENERATED = 58
_KEPT = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")
_UNSET_ON_CREATION = (*_KEPT, "managedFields", "selfLink", "resourceVersion")


@dataclass(slots=True)
class Draft:
    """An object on its way in. Whatever differs from `base` in the end was written by the caller."""

    body: Object
    owners: Owners
    base: Object | None


def fresh(body: Object, *, namespace: str | None, traits: Traits, uid: str, suffix: str, time: str) -> Object:
    metadata = {key: value for key, value in body["metadata"].items() if key not in _UNSET_ON_CREATION}
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = str(metadata["generateName"])[:_LONGEST_GENERATED] + suffix
    if not metadata.get("name"):
        raise InvalidError(
            f"{body['kind']} is invalid: metadata.name: Required value: name or generateName is required"
        )
    if namespace:
        metadata["namespace"] = namespace
    metadata |= {"uid": uid, "creationTimestamp": time}
    if traits.generation:
        metadata["generation"] = 1
    body["metadata"] = metadata
    if traits.status:
        body.pop("status", None)
    return body


def check_race(resource: Resource, old: Object, new: Object, *, traits: Traits) -> None:
    """The optimistic lock: the caller's version and uid, where it names them, are the stored ones."""
    current, wanted = old["metadata"], new["metadata"]
    what = f'{resource.plural} "{current["name"]}"'
    version = wanted.get("resourceVersion")
    if not version and not traits.unconditional:
        raise InvalidError(
            f"{what}: metadata.resourceVersion: Invalid value: must be specified for an update"
        )
    if version and version != current["resourceVersion"]:
        raise ConflictError(
            f"Operation cannot be fulfilled on {what}: the object has been modified; please apply your changes "
            "to the latest version and try again"
        )
    if wanted.get("uid") and wanted["uid"] != current["uid"]:
        raise ConflictError(f"{what}: Precondition failed: the object has another uid")


def revised(resource: Resource, old: Object, new: Object, *, traits: Traits, subresource: str) -> Object:
    """`new` with everything that a caller cannot change taken from `old`."""
    if subresource:
        kept = {**_without_status(old), "metadata": dict(old["metadata"])}
        return {**kept, "status": new["status"]} if "status" in new else kept
    current, metadata = old["metadata"], new["metadata"]
    for field in ("name", "namespace"):
        if metadata.get(field, current.get(field)) != current.get(field):
            raise BadRequestError(f"the {field} of the object ({metadata[field]}) is not the one of the call")
    if metadata.get("creationTimestamp", current["creationTimestamp"]) not in {
        None,
        current["creationTimestamp"],
    }:
        raise InvalidError(
            f'{resource.kind} "{current["name"]}" is invalid: metadata.creationTimestamp: immutable'
        )
    for field in (*_KEPT, "name", "namespace", "resourceVersion"):
        if field in current:
            metadata[field] = current[field]
        else:
            metadata.pop(field, None)
    if traits.status:
        new = _without_status(new)
        if "status" in old:
            new["status"] = old["status"]
    _check_finalizers(resource, current, metadata)
    return new


def _without_status(body: Object) -> Object:
    return {key: value for key, value in body.items() if key != "status"}


def _check_finalizers(resource: Resource, current: Object, metadata: Object) -> None:
    if not current.get("deletionTimestamp"):
        return
    added = set(metadata.get("finalizers") or ()) - set(current.get("finalizers") or ())
    if added:
        raise InvalidError(
            f'{resource.kind} "{current["name"]}" is invalid: metadata.finalizers: Forbidden: no new finalizers '
            f"can be added if the object is being deleted, found {sorted(added)}"
        )


def count_generation(old: Object, new: Object, *, traits: Traits) -> None:
    if not traits.generation:
        return
    ignored = {"metadata", "status"} if traits.status else {"metadata"}
    before = {key: value for key, value in old.items() if key not in ignored}
    after = {key: value for key, value in new.items() if key not in ignored}
    if before != after:
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def marked_for_deletion(old: Object, *, finalizers: list[str], time: str) -> Object:
    metadata = {**old["metadata"], "finalizers": finalizers}
    if "deletionTimestamp" not in metadata:
        metadata |= {"deletionTimestamp": time, "deletionGracePeriodSeconds": 0}
        if metadata.get("generation"):
            metadata["generation"] += 1
    if not finalizers:
        del metadata["finalizers"]
    return {**old, "metadata": metadata}


def scope_of_apply(config: Object, *, traits: Traits, subresource: str) -> Object:
    """The part of an apply configuration that the addressed (sub)resource takes."""
    if config["metadata"].get("managedFields"):
        raise BadRequestError("metadata.managedFields must be nil")
    if not subresource:
        return _without_status(config) if traits.status else config
    scoped: Object = {"apiVersion": config["apiVersion"], "kind": config["kind"], "metadata": {}}
    return {**scoped, "status": config["status"]} if "status" in config else scoped
