"""What writing roles and bindings needs besides: Kubernetes asks whether the writer has what it gives away."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from argocd import reading
from argocd.tracking.ids import group_of
from checks.manifests import Object

RBAC = "rbac.authorization.k8s.io"
ROLES = {"Role": "roles", "ClusterRole": "clusterroles"}
BINDINGS = frozenset({"RoleBinding", "ClusterRoleBinding"})

RoleKey: TypeAlias = tuple[str, str, str]
"""Kind, namespace and name."""

PolicyRule: TypeAlias = Mapping[str, Any]


def is_written_by_reconciling(thing: Object) -> bool:
    """Argo CD applies these with `kubectl auth reconcile`, which reads the Namespace that they are in."""
    return group_of(thing) == RBAC and reading.text(thing, "kind") in {*ROLES, *BINDINGS}


def further_rules(
    written: Sequence[Object], *, place: str, held: Sequence[PolicyRule], roles: Mapping[RoleKey, Object]
) -> Iterator[dict[str, Any]]:
    """For the roles and bindings that go to one place; `held` is what their writer has there, `roles` all of them."""
    if place and written:
        yield {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"], "resourceNames": [place]}
    escalated = sorted({ROLES[kind] for kind in _giving_more(written, held)})
    if escalated:
        # Not by name: the API server asks before the new role has one.
        yield {"apiGroups": [RBAC], "resources": escalated, "verbs": ["escalate"]}
    bound: dict[str, set[str]] = {}
    for kind, name in _bound(written, place=place, held=held, roles=roles):
        bound.setdefault(ROLES[kind], set()).add(name)
    for plural, called in sorted(bound.items()):
        yield {"apiGroups": [RBAC], "resources": [plural], "verbs": ["bind"], "resourceNames": sorted(called)}


def _giving_more(written: Iterable[Object], held: Sequence[PolicyRule]) -> Iterator[str]:
    for thing in written:
        kind = reading.text(thing, "kind")
        if kind in ROLES and not _is_within(thing, held):
            yield kind


def _bound(
    written: Iterable[Object], *, place: str, held: Sequence[PolicyRule], roles: Mapping[RoleKey, Object]
) -> Iterator[tuple[str, str]]:
    for thing in written:
        kind, name = reading.text(thing, "roleRef", "kind"), reading.text(thing, "roleRef", "name")
        if reading.text(thing, "kind") not in BINDINGS or kind not in ROLES:
            continue
        role = roles.get((kind, place if kind == "Role" else "", name))
        if role is None or not _is_within(role, held):
            yield kind, name


def _is_within(role: Object, held: Sequence[PolicyRule]) -> bool:
    """Whether somebody with these rules has every right of the role; who aggregates must have all there are."""
    if reading.value(role, "aggregationRule") is not None:
        return False
    return all(_is_held(rule, held) for rule in reading.sequence(role, "rules"))


def _is_held(rule: Any, held: Sequence[PolicyRule]) -> bool:
    if reading.sequence(rule, "nonResourceURLs"):
        return False
    called = set(reading.texts(rule, "resourceNames"))
    return all(
        any(_covers(one, group=group, resource=resource, verb=verb) and _names(one, called) for one in held)
        for group in reading.texts(rule, "apiGroups")
        for resource in reading.texts(rule, "resources")
        for verb in reading.texts(rule, "verbs")
    )


def _covers(rule: PolicyRule, *, group: str, resource: str, verb: str) -> bool:
    return group in rule["apiGroups"] and resource in rule["resources"] and verb in rule["verbs"]


def _names(rule: PolicyRule, called: set[str]) -> bool:
    limited = set(rule.get("resourceNames", ()))
    return not limited or (bool(called) and called <= limited)
