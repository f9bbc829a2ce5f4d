"""argocd-agent's rules: routing, rewriting, identity, admission, checksums."""

from collections.abc import Callable, Mapping
from typing import Any

from argocd import names
from argocd.agents import identity, routing
from argocd.agents.checksums import (
    ChecksumError,
    ResourceKey,
    inventory_checksum,
    resource_key,
    spec_checksum,
)
from argocd.agents.messages import Acceptance, principal_accepts
from argocd.agents.namespaces import at_agent
from argocd.agents.project_copies import (
    NameTooLongError,
    prefixed_name,
    project_at_principal,
    project_for_agent,
    role_line,
)
from argocd.agents.routing import AgentIndex, AgentMapping
from argocd.agents.vocabulary import PREFIX, Message, Mode, Target
from argocd.globs import Verdict

PANIC = {"panic": True}


def _mapping(given: Any, key: str = "destinationBasedMapping") -> AgentMapping:
    return AgentMapping.DESTINATION if given.get(key) else AgentMapping.NAMESPACE


def _project(given: Any) -> dict[str, Any]:
    parts = ("destinations", "sourceNamespaces", "roles")
    spec = {key: given[key] for key in parts if given.get(key) is not None}
    return {"metadata": {"name": given.get("name", "p")}, "spec": spec}


def _index(given: Any) -> AgentIndex:
    index = AgentIndex(mapped_by=_mapping(given))
    for name, mode in given["agents"].items():
        index.put(name, Mode(mode))
    return index


def _match(given: Any) -> Any:
    route = routing.route_project(_project(given), given["agent"], mapped_by=_mapping(given))
    return PANIC if any(step.verdict is Verdict.PANIC for step in route.steps) else route.goes


def _transform(given: Any) -> Any:
    project = _project(given["input"])
    verdicts = {
        routing.destination_verdict(destination, given["agent"])
        for destination in project["spec"].get("destinations", ())
    }
    if Verdict.PANIC in verdicts:
        return PANIC
    how = {"agent": given["agent"], "mapped_by": _mapping(given), "mode": Mode(given["mode"])}
    copy = project_for_agent(project, **how)
    return {
        "name": copy["metadata"]["name"],
        "destinations": _one_by_one(project, lambda one: project_for_agent(one, **how)),
        "sourceNamespaces": copy["spec"].get("sourceNamespaces"),
        "roles": copy["spec"].get("roles", []),
    }


def _one_by_one(project: Any, copied: Callable[[Any], Any]) -> list[Any]:
    """Destinations of the copy. Of those that become the same argocd-agent keeps all, and we the first."""
    return [
        destination
        for one in project["spec"].get("destinations", ())
        for destination in copied({**project, "spec": {**project["spec"], "destinations": [one]}})[
            "spec"
        ].get("destinations", ())
    ]


def _fanout(given: Any) -> Any:
    change = _index(given).for_change(_project(given["old"]), _project(given["new"]))
    return {"delete": list(change.lost), "spec_update": change.reached}


def _is_from_autonomous(given: Any) -> bool:
    item = {
        "metadata": {"namespace": given.get("namespace"), "annotations": given.get("annotations")},
        "spec": {"sourceNamespaces": given.get("sourceNamespaces")},
    }
    modes = {name: Mode(mode) for name, mode in given["agents"].items()}
    return routing.is_autonomous_mirror(item, mode_of=modes.get)


def _role_line(given: Any) -> str:
    return role_line(
        given["line"],
        role=given["role"],
        original=given["original"],
        prefixed=given["prefixed"],
        namespace=given["agentNamespace"],
    )


def _at_principal(given: Any) -> Any:
    message = Message(PREFIX + given["event"])
    mode = Mode(given.get("mode", "autonomous"))
    acceptance = principal_accepts(Target.PROJECT, message, mode=mode)
    if acceptance is not Acceptance.APPLY:
        return {"error": str(acceptance)}
    told = given.get("input", {})
    project = {
        "metadata": {
            "name": told.get("name", ""),
            "namespace": told.get("namespace", ""),
            "uid": "uid",
            "ownerReferences": [{}] * told.get("ownerReferences", 0),
        },
        "spec": {**told.get("spec", {}), **({"roles": told["roles"]} if "roles" in told else {})},
    }
    namespace = given.get("principalNamespace", names.DEFAULT_NAMESPACE)
    how = {"agent": given["agent"], "namespace": namespace}
    mirror = project_at_principal(project, **how)
    name = mirror["metadata"]["name"]
    if message is Message.DELETE:
        return {"absent": f"{namespace}/{name}"}
    spec = mirror["spec"]
    return {
        "name": name,
        "namespace": mirror["metadata"]["namespace"],
        "ownerReferences": len(mirror["metadata"].get("ownerReferences", ())),
        "spec": {
            "sourceNamespaces": spec["sourceNamespaces"],
            "destinations": _one_by_one(project, lambda one: project_at_principal(one, **how)),
        },
        "roles": spec.get("roles", []),
    }


def _local(marks: Mapping[str, str | None]) -> dict[str, Any]:
    keys = {"source": names.SOURCE_UID, "principal": names.PRINCIPAL_UID}
    annotations = {keys[key]: uid for key, uid in marks.items() if key in keys and uid is not None}
    return {"metadata": {"name": "x", "annotations": annotations}}


def _compare_project(given: Any) -> Any:
    if "existing_source_uid" not in given:
        return {"exists": False, "match": False}
    local = _local({"source": given["existing_source_uid"]})
    incoming = {"metadata": {"uid": given["incoming_uid"]}}
    return {"exists": True, "match": identity.matches_source(local, incoming)}


def _compare_application(given: Any) -> Any:
    existing, incoming = given.get("existing"), given.get("incoming", {})
    found = identity.compare_application(
        None if existing is None else _local(existing),
        {
            "metadata": {
                "uid": incoming.get("uid") or "",
                "annotations": {names.SOURCE_UID: incoming.get("source_annotation") or ""},
            }
        },
        principal_uid=given.get("event_principal") or "",
    )
    return {
        "exists": found.exists,
        "sourceUIDMatch": found.source_matches,
        "principalUIDMatch": found.principal_matches,
        "principalTransition": found.principal_changed,
        "missingSourceUID": found.source_unknown,
        "missingPrincipalUID": found.principal_unknown,
        "adoptedPrincipalUID": found.principal_adopted,
    }


def _application_action(given: Any) -> str:
    found = identity.Comparison(
        exists=given.get("exists", False),
        source_matches=given.get("sourceUIDMatch", False),
        principal_matches=given.get("principalUIDMatch", False),
        principal_changed=given.get("principalTransition", False),
        source_unknown=given.get("missingSourceUID", False),
        principal_unknown=given.get("missingPrincipalUID", False),
        principal_adopted=given.get("adoptedPrincipalUID", False),
    )
    action = identity.application_action(found)
    if action is identity.IdentityAction.RECREATE:
        return "mismatch (delete/recreate or upsert policy)"
    return str(action)


def _target_namespace(given: Any) -> Any:
    placement = at_agent(
        given["appNs"],
        agent_namespace=given["agentNs"],
        principal_namespace=given.get("principalNs") or "",
        mapped_by=_mapping(given, "dst"),
        mode=Mode(given["mode"]),
    )
    return {"value": placement.namespace, "remappedAnnotation": placement.remapped}


def _admission(given: Any) -> bool:
    application = {
        "metadata": {"namespace": given["ns"], "labels": given.get("labels")},
        "spec": {"destination": {"name": given.get("destName", "")}},
    }
    return routing.admits_application(
        application,
        allowed_namespaces=given["namespaces"],
        principal_namespace=given.get("principalNs") or "",
        mapped_by=_mapping(given, "dst"),
    )


def _repository_admission(given: Any) -> bool:
    labels = {names.SECRET_TYPE: given.get("type"), names.IGNORE_SYNC: given.get("skip")}
    secret = {
        "metadata": {
            "namespace": given["ns"],
            "labels": {key: text for key, text in labels.items() if text is not None},
        },
        "stringData": {} if given.get("project") is None else {"project": given["project"]},
    }
    return bool(routing.project_of_repository(secret, argocd_namespace=names.DEFAULT_NAMESPACE))


def _resource_key(given: Any) -> Any:
    annotations = {} if given.get("source_uid") is None else {names.SOURCE_UID: given["source_uid"]}
    parts = ("name", "namespace", "uid")
    key = resource_key(
        given["kind"],
        {"metadata": {**{part: given.get(part, "") for part in parts}, "annotations": annotations}},
    )
    return {"kind": key.kind, "name": key.name, "namespace": key.namespace, "uid": key.uid}


def _inventory(given: Any) -> str | None:
    keys = [ResourceKey(kind=kind, name=name, uid=uid) for kind, name, uid in given["keys"]]
    checksum = inventory_checksum(keys)
    return checksum.hex() if checksum else None


def _spec_checksum(given: Any) -> Any:
    try:
        return spec_checksum({"kind": "Secret" if "data" in given else "Application", **given}).hex()
    except ChecksumError as error:
        return {"error": str(error)}


def _prefixed_name(given: Any) -> Any:
    try:
        return prefixed_name(given["agent"], given["project"])
    except NameTooLongError as error:
        return {"error": str(error)}


ANSWERS: dict[str, Callable[[Any], Any]] = {
    "match": _match,
    "transform_to_managed_agent": _transform,
    "map_project_to_agents": lambda given: _index(given).for_project(_project(given)),
    "project_update_fanout": _fanout,
    "is_from_autonomous_agent": _is_from_autonomous,
    "role_line": _role_line,
    "prefixed_name": _prefixed_name,
    "autonomous_project_at_principal": _at_principal,
    "compare_source_uid_project": _compare_project,
    "app_compare_identity": _compare_application,
    "app_identity_action": _application_action,
    "target_namespace_for_app": _target_namespace,
    "app_admission_principal": _admission,
    "repository_admission": _repository_admission,
    "resource_key": _resource_key,
    "checksum_inventory": _inventory,
    "checksum_spec": _spec_checksum,
}
