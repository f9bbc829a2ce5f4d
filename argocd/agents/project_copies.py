"""What a project looks like on the other side: an agent's copy, and the principal's mirror of an agent's own.

Nothing given is changed: the answers share the parts that stay the same.
"""

from collections.abc import Mapping
from typing import Any

from argocd import names
from argocd.agents.identity import has_source, under_first_identity
from argocd.agents.routing import AgentMapping, destination_verdict
from argocd.agents.vocabulary import Mode
from argocd.budget import spend
from argocd.globs import Verdict
from argocd.reading import mapping, sequence, text, texts

Object = Mapping[str, Any]

# A project's name is a DNS subdomain.
NAME_LIMIT = 253

_POLICY_FIELDS = 6
_SUBJECT_PARTS = 3
_OBJECT_PARTS = 2
_WRITTEN = 32
"""Characters of a policy that one step writes."""
# Other resources' objects do not name a namespace, so their lines mean the same on the principal.
_NAMESPACED_RESOURCES = frozenset({"applications", "applicationsets", "logs", "exec"})


class NameTooLongError(ValueError):
    """With the agent's prefix the project's name is no name any more."""


def prefixed_name(agent: str, project: str) -> str:
    """How the principal calls an autonomous agent's project."""
    name = f"{agent}-{project}"
    if len(name.encode(errors="replace")) > NAME_LIMIT:
        raise NameTooLongError(f"{name[:40]}… is longer than the {NAME_LIMIT} characters a name may have")
    return name


def bare_name(agent: str, project: str) -> str:
    """The agent's own name of a project that the principal calls so; unchanged where the prefix is missing."""
    return project.removeprefix(f"{agent}-")


def project_for_agent(
    project: Object,
    *,
    agent: str,
    mapped_by: AgentMapping,
    mode: Mode = Mode.MANAGED,
) -> dict[str, Any]:
    """The copy that a principal sends to an agent: only its destinations, each meaning its own cluster.

    Two destinations that differed only in the cluster's name become the same, which Argo CD's API server
    would refuse: the first is kept, where argocd-agent keeps both. A project that a replica was given goes under the
    uid that the agents know.
    """
    spec = dict(mapping(project, "spec"))
    kept = []
    for destination in sequence(spec, "destinations"):
        if destination_verdict(destination, agent) is Verdict.YES:
            local = {key: part for key, part in destination.items() if part != ""}
            kept.append({**local, "name": names.IN_CLUSTER_NAME, "server": names.IN_CLUSTER_SERVER})
    # Go leaves empty text and lists out; with the same here both ends have the same checksum.
    spec.pop("destinations", None)
    if kept:
        spec["destinations"] = _without_repetitions(kept)
    if mapped_by is AgentMapping.NAMESPACE:
        spec.pop("sourceNamespaces", None)
    if mode is Mode.MANAGED:
        spec.pop("roles", None)
    return {**under_first_identity(project), "spec": spec}


def project_at_principal(
    project: Object, *, agent: str, namespace: str, source_uid: str = ""
) -> dict[str, Any]:
    """The mirror that a principal keeps of an autonomous agent's project, under its prefixed name.

    `source_uid` is the project's own uid unless given. Of destinations that become the same the first is kept. A
    mirror stays what it is: twice is once. Raises NameTooLongError.
    """
    if not is_mirror_of(project, agent=agent, namespace=namespace):
        project = _renamed(project, agent=agent, namespace=namespace, source_uid=source_uid)
    mirror = settled_project(project, agent=agent)
    if sequence(mirror, "spec", "destinations"):
        mirror["spec"]["destinations"] = _without_repetitions(mirror["spec"]["destinations"])
    return mirror


def with_known_destinations(mirror: Object, former: Object | None) -> dict[str, Any]:
    """An autonomous agent of argocd-agent's that is asked for a project answers as a principal would to a managed one:
    without the destinations that do not name it, which are all of them. Those that were mirrored before stay.
    """
    known = sequence(former or {}, "spec", "destinations")
    if not known or sequence(mirror, "spec", "destinations"):
        return dict(mirror)
    return {**mirror, "spec": {**mapping(mirror, "spec"), "destinations": known}}


def _renamed(project: Object, *, agent: str, namespace: str, source_uid: str) -> dict[str, Any]:
    metadata = dict(mapping(project, "metadata"))
    metadata["name"] = prefixed_name(agent, text(metadata, "name"))
    metadata["namespace"] = namespace
    metadata["annotations"] = {
        **mapping(metadata, "annotations"),
        names.SOURCE_UID: source_uid or text(metadata, "uid"),
    }
    metadata.pop("ownerReferences", None)
    return {**project, "metadata": metadata}


def is_mirror_of(project: Object, *, agent: str, namespace: str) -> bool:
    """Whether this already is what `project_at_principal` makes, as far as its name and marks tell."""
    metadata = mapping(project, "metadata")
    return (
        has_source(project)
        and text(metadata, "namespace") == namespace
        and text(metadata, "name").startswith(f"{agent}-")
        and list(sequence(project, "spec", "sourceNamespaces")) == [agent]
    )


def settled_project(project: Object, *, agent: str) -> dict[str, Any]:
    """A project that has its prefixed name, with the content that argocd-agent's principal would store.

    destinationServiceAccounts stay, although on the principal their servers mean other clusters: a Go
    principal would put them back.
    """
    spec = dict(mapping(project, "spec"))
    spec["sourceNamespaces"] = [agent]
    if destinations := sequence(spec, "destinations"):
        spec["destinations"] = [
            {**mapping(destination), "name": agent, "server": "*"} for destination in destinations
        ]
    prefixed = text(project, "metadata", "name")
    bare = bare_name(agent, prefixed)
    if roles := sequence(spec, "roles"):
        spec["roles"] = [_settled_role(role, bare=bare, prefixed=prefixed, agent=agent) for role in roles]
    return {**project, "spec": spec}


def _settled_role(role: Any, *, bare: str, prefixed: str, agent: str) -> Any:
    if not isinstance(role, Mapping) or not texts(role, "policies"):
        return role
    name = text(role, "name")
    return {
        **role,
        "policies": [
            role_line(line, role=name, original=bare, prefixed=prefixed, namespace=agent)
            if isinstance(line, str)
            else line
            for line in sequence(role, "policies")
        ],
    }


def _without_repetitions(destinations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Destinations of one cluster, each namespace once, where it stands first."""
    first: dict[str, dict[str, Any]] = {}
    for destination in destinations:
        first.setdefault(repr(destination.get("namespace") or ""), destination)
    return list(first.values())


def role_line(line: str, *, role: str, original: str, prefixed: str, namespace: str) -> str:
    """One policy of a role as it must read once the project has its prefixed name.

    The subject gets the new name where it stands; an object of two parts gets the namespace that the
    applications live in. A line about another role, another project or no project stays as it is.
    """
    fields = line.split(",")
    if len(fields) != _POLICY_FIELDS or fields[0].strip() != "p":
        return line
    if fields[2].strip() not in _NAMESPACED_RESOURCES:
        return line
    written = fields[1].strip()
    subject = written.split(":")
    if not written.startswith("proj:"):
        return line
    if len(subject) == _SUBJECT_PARTS:
        if subject != ["proj", original, role]:
            return line
        fields[1] = fields[1].replace(written, f"proj:{prefixed}:{role}")
    target = fields[4].strip().split("/")
    if len(target) == _OBJECT_PARTS:
        if target[0] != original:
            return line
        fields[4] = f" {prefixed}/{namespace}/{target[1]}"
    settled = ",".join(fields)
    spend(1 + len(settled) // _WRITTEN)
    return settled
