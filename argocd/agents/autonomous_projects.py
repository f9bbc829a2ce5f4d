"""Whose project is this? Projects of autonomous agents on the control plane, and who may touch a mirror."""

from collections.abc import Iterator, Mapping
from typing import Any

from argocd import names
from argocd.agents.identity import has_source
from argocd.agents.project_copies import NAME_LIMIT, bare_name, settled_project
from argocd.globs import Verdict
from argocd.globs import match as glob_match
from argocd.judging.case import Case, Kind, Operation, Surroundings, User
from argocd.judging.configuration import Configuration, Role
from argocd.judging.writers import (
    agent_named,
    is_agent,
    is_argocd,
    is_argocd_server,
    is_principal,
    is_replica,
)
from argocd.reading import mapping, sequence, text

Object = Mapping[str, Any]

_REWRITTEN = ("sourceNamespaces", "destinations", "roles")


def owner_of(project: Object | None, configuration: Configuration) -> str:
    """The autonomous agent that a project's marks name: ours, or the principal's."""
    annotations = mapping(project, "metadata", "annotations")
    if not annotations:
        return ""
    if agent := text(annotations, names.TIPHYS_AGENT):
        return agent
    first = next(iter(sequence(project, "spec", "sourceNamespaces")), None)
    if has_source(project) and isinstance(first, str) and configuration.agents.is_autonomous(first):
        return first
    return ""


def owner_for(project: Object, writer: User, configuration: Configuration) -> str:
    """The same, where a writer that belongs to an agent is a mark too."""
    return owner_of(project, configuration) or agent_named(writer, configuration)


def is_mirrored_application(application: Object | None, configuration: Configuration) -> bool:
    """Whether an Application on the control plane is the mirror of an autonomous agent's."""
    namespace = text(application, "metadata", "namespace")
    return has_source(application) and configuration.agents.is_autonomous(namespace)


def is_mirror(item: Object | None, kind: Kind, configuration: Configuration) -> bool:
    """Whether an object here is a copy of one that lives elsewhere, by the role of this cluster.

    On the control plane only what autonomous agents send is one.
    """
    if configuration.role is Role.CONTROL_PLANE:
        return (kind is Kind.PROJECT and bool(owner_of(item, configuration))) or (
            kind is Kind.APPLICATION and is_mirrored_application(item, configuration)
        )
    return has_source(item)


def may_change_mirror(writer: User, *, owner: str, surroundings: Surroundings) -> bool:
    """Whether the writer is one that keeps mirrors here; `owner` is the agent whose it is, where that is known.

    Argo CD may, but not on a standby, where it must not serve; and on the control plane not argocd-server: its user
    would be told success and see the change undone.
    """
    configuration = surroundings.configuration
    if configuration.role is Role.STANDBY:  # where our own principal is the replica
        return (
            is_replica(writer, configuration)
            or is_principal(writer, configuration)
            or names.HA_BREAK_GLASS in writer.groups
        )
    if is_argocd(writer, surroundings):
        return configuration.role is not Role.CONTROL_PLANE or not is_argocd_server(writer, configuration)
    if configuration.role is Role.WORKLOAD:
        return is_agent(writer, configuration)
    return is_principal(writer, configuration) or (
        bool(owner) and agent_named(writer, configuration) == owner
    )


def is_rewritten_mirror(case: Case) -> bool:
    """Whether a project is written here by those who keep an agent's: what it repeats argocd-agent itself made.

    Two destinations that differed in the cluster alone mean the same one here. Argo CD's API server, which
    would refuse that, is never asked, and refusing it to the principal would leave an outdated mirror.
    """
    configuration = case.surroundings.configuration
    owner = owner_of(case.old, configuration) or owner_for(case.object, case.writer, configuration)
    return (
        bool(owner)
        and configuration.role is Role.CONTROL_PLANE
        and may_change_mirror(case.writer, owner=owner, surroundings=case.surroundings)
    )


def right_name(project: Object, agent: str) -> str:
    """The name that an agent's project must have here; the one it has, if that is right."""
    name = text(project, "metadata", "name")
    return name if bare_name(agent, name) != name else f"{agent}-{name}"


def fits(name: str) -> bool:
    return len(name) <= NAME_LIMIT


def unsettled_fields(project: Object, agent: str) -> Iterator[str]:
    """The fields of an agent's project that are not what argocd-agent's principal would store."""
    settled = mapping(settled_project(project, agent=agent), "spec")
    spec = mapping(project, "spec")
    for key in _REWRITTEN:
        if spec.get(key) != settled.get(key):
            yield f"spec.{key}"


def settling_patch(project: Object, agent: str) -> list[dict[str, Any]]:
    """The JSON patch that makes an agent's project what argocd-agent's principal would store; [] if it is."""
    settled = settled_project(project, agent=agent)["spec"]
    if not isinstance(project.get("spec"), Mapping):
        return [{"op": "add", "path": "/spec", "value": settled}]
    return [
        {"op": "add", "path": f"/{path.replace('.', '/')}", "value": settled[path.removeprefix("spec.")]}
        for path in unsettled_fields(project, agent)
    ]


def admission_patch(case: Case) -> list[dict[str, Any]]:
    """What the webhook changes in a project that is created or updated on the control plane: an agent's is settled.

    An update that touches neither its content nor its marks (a status, a finalizer) is left alone.
    """
    configuration = case.surroundings.configuration
    if (
        case.kind is not Kind.PROJECT
        or case.operation is Operation.DELETE
        or configuration.role is not Role.CONTROL_PLANE
        or (case.old is not None and not _touched(case.old, case.object))
    ):
        return []
    agent = owner_of(case.old, configuration) or owner_for(case.object, case.writer, configuration)
    # What cannot have the name of an agent's project is refused, and there is nothing to settle.
    return settling_patch(case.object, agent) if agent and fits(right_name(case.object, agent)) else []


def _touched(old: Object, new: Object) -> bool:
    return old.get("spec") != new.get("spec") or mapping(old, "metadata", "annotations") != mapping(
        new, "metadata", "annotations"
    )


def accounts_for_the_control_plane(project: Object) -> Iterator[str]:
    """The paths of destinationServiceAccounts that meant the agent's own cluster and here mean this one."""
    for index, entry in enumerate(sequence(project, "spec", "destinationServiceAccounts")):
        server = text(entry, "server")
        if server and glob_match(server, names.IN_CLUSTER_SERVER) is Verdict.YES:
            yield f"spec.destinationServiceAccounts[{index}].server"
