"""Roles for syncing as an account: who may impersonate it, and what it must be able to do itself."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from argocd import names, reading
from argocd.impersonation.accounts import Grant
from argocd.tracking.ids import group_of
from checks.manifests import Object
from cli.roles.kind_names import Kinds, named
from cli.roles.references import reference_rules, refers, unknown_policies
from cli.roles.role_writing import RBAC, further_rules, is_written_by_reconciling

VERBS = ("get", "create", "patch", "update")
PRUNING = "delete"


@dataclass(slots=True)
class Needs:
    """What an account needs: namespace (empty: the whole cluster) -> (group, plural) -> names."""

    kinds: Kinds = field(default_factory=dict)
    places: dict[str, dict[tuple[str, str], set[str]]] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    written: dict[str, list[Object]] = field(default_factory=dict)
    """Roles and bindings, by the place that they go to."""
    referring: list[Object] = field(default_factory=list)

    def add(self, thing: Object, *, destination_namespace: str) -> None:
        group, kind = group_of(thing), reading.text(thing, "kind")
        called = named(group, kind, self.kinds)
        if called.guessed:
            self.notes[
                f"guessed: that {kind}.{group} is called {called.plural} and has a namespace; its definition "
                "among the manifests, or a cluster, would tell"
            ] = None
        namespace = reading.text(thing, "metadata", "namespace") or destination_namespace
        place = namespace if called.namespaced else ""
        if called.namespaced and not namespace:
            name = reading.text(thing, "metadata", "name")
            self.notes[
                f"left out: {kind} {name} has no namespace and neither has the destination: Argo CD cannot apply it"
            ] = None
            return
        if is_written_by_reconciling(thing):
            self.written.setdefault(place, []).append(thing)
        if refers(thing):
            self.referring.append(thing)
        objects = self.places.setdefault(place, {}).setdefault((group, called.plural), set())
        objects.add(reading.text(thing, "metadata", "name"))


def impersonation(project: str, grants: Iterable[Grant], *, user: str) -> Iterator[Object]:
    """Role or ClusterRole and its binding, for each namespace whose accounts may be impersonated."""
    for grant in grants:
        name = f"{project}-impersonate"
        rules = [grant.rule]
        yield _role(name, grant.namespace, rules)
        yield _binding(name, grant.namespace, _subject(user))


def rights(
    project: str, account: tuple[str, str], needs: Needs, *, pruning: bool, by_name: bool
) -> Iterator[Object]:
    """What the account itself must be allowed, where the manifests go."""
    namespace, name = account
    rules = {
        place: list(_rules(kinds, pruning=pruning, by_name=by_name)) for place, kinds in needs.places.items()
    }
    referred: dict[str, list[dict[str, Any]]] = {}
    for place, rule in reference_rules(needs.referring, kinds=needs.kinds):
        referred.setdefault(place, []).append(rule)
        rules.setdefault(place, [])
    for binding in unknown_policies(needs.referring, kinds=needs.kinds):
        needs.notes[
            f"{binding} has parameters, and its policy is not among the manifests: {name} must be able to read them"
        ] = None
    roles = {
        (reading.text(thing, "kind"), place, reading.text(thing, "metadata", "name")): thing
        for place, written in needs.written.items()
        for thing in written
    }
    for place, own in sorted(rules.items()):
        called = f"{project}-{name}-sync"
        further = list(
            further_rules(
                needs.written.get(place, []), place=place, held=[*own, *rules.get("", [])], roles=roles
            )
        )
        for verb in ("escalate", "bind"):
            if any(verb in rule["verbs"] for rule in further):
                where = f" in {place}" if place else ""
                needs.notes[
                    f"the manifests give away{where} more than {name} has itself, so it needs the verb {verb}; with the"
                    " rights themselves it would not"
                ] = None
        yield _role(called, place, [*own, *further, *referred.get(place, ())])
        yield _binding(called, place, {"kind": "ServiceAccount", "name": name, "namespace": namespace})


def _rules(
    kinds: Mapping[tuple[str, str], set[str]], *, pruning: bool, by_name: bool
) -> Iterator[dict[str, Any]]:
    verbs = [*VERBS, PRUNING] if pruning else [*VERBS]
    if by_name:
        for (group, plural), called in sorted(kinds.items()):
            # Nobody knows the name of an object that is created, so that verb cannot be bound to names.
            yield {"apiGroups": [group], "resources": [plural], "verbs": ["create"]}
            yield {
                "apiGroups": [group],
                "resources": [plural],
                "verbs": [verb for verb in verbs if verb != "create"],
                "resourceNames": sorted(called),
            }
        return
    groups: dict[str, list[str]] = {}
    for group, plural in sorted(kinds):
        groups.setdefault(group, []).append(plural)
    for group, plurals in groups.items():
        yield {"apiGroups": [group], "resources": plurals, "verbs": verbs}


def _role(name: str, namespace: str, rules: list[dict[str, Any]]) -> Object:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    kind = "Role" if namespace else "ClusterRole"
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, "rules": rules}


def _binding(name: str, namespace: str, subject: dict[str, str]) -> Object:
    kind = "Role" if namespace else "ClusterRole"
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": {"name": name, "namespace": namespace} if namespace else {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
        "subjects": [subject],
    }


def _subject(user: str) -> dict[str, str]:
    if user.startswith(names.SERVICE_ACCOUNT_PREFIX):
        namespace, _, name = user.removeprefix(names.SERVICE_ACCOUNT_PREFIX).partition(":")
        return {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    return {"apiGroup": RBAC, "kind": "User", "name": user}
