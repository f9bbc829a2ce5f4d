"""Mirrors of objects that live elsewhere: who may change and delete them, and what is no mirror.

The rules that protect them belong to both profiles: argocd-agent itself undoes such changes.
"""

from collections.abc import Iterator

from argocd import names, reading
from argocd.agents import autonomous_projects, ignore_sync
from argocd.agents.autonomous_projects import may_change_mirror, owner_of
from argocd.judging.case import Action, Case, Finding, Kind, Operation, Profile, Rule, path_of
from argocd.judging.configuration import Role
from argocd.judging.ratchet import differs
from argocd.judging.writers import is_agent, is_argocd, is_argocd_server
from argocd.rules import examples
from argocd.rules.agent_projects import SETTLED, example_project

_MARKS = (f"metadata.annotations[{names.SOURCE_UID}]", f"metadata.annotations[{names.TIPHYS_AGENT}]")
_PROTECTED = ("spec", "data", "metadata.ownerReferences", *_MARKS)
_EDITED = ("metadata.labels", "metadata.annotations")
"""By users of argocd-server, who would be told success; others' own marks on a mirror are nobody's business."""
_ESCAPE = "where the source is gone for good, an exemption in tiphys.yaml lets you pass."


def _mirror_changed(case: Case) -> Iterator[Finding]:
    if not _is_foreign(case):
        return
    edited = _EDITED if is_argocd_server(case.writer, case.surroundings.configuration) else ()
    changed = next(
        (
            read
            for read in (*_PROTECTED, *edited)
            if case.old is None or differs(case.old, case.object, path_of(read))
        ),
        "",
    )
    if changed:
        yield Finding(
            "agent/mirror-changed",
            changed,
            f"this is the mirror of {_source(case)}: only {_keeper(case)} may change it",
            f"Change it at its source; a change here would be undone; {_ESCAPE}",
        )


def _mirror_deleted(case: Case) -> Iterator[Finding]:
    if _is_foreign(case):
        yield Finding(
            "agent/mirror-deleted",
            "metadata",
            f"this is the mirror of {_source(case)}: only {_keeper(case)} may delete it",
            f"Delete it at its source; deleted here it would be created again; {_ESCAPE}",
        )


def _is_foreign(case: Case) -> bool:
    """Whether somebody writes to a mirror who may not. Without a writer nobody has written yet."""
    configuration = case.surroundings.configuration
    if configuration.role is Role.STANDBY:
        return False  # where everything is one: `agent/standby`
    if not case.writer.user or (
        case.operation is Operation.CREATE and configuration.role is not Role.CONTROL_PLANE
    ):
        return False
    if not (
        autonomous_projects.is_mirror(case.object, case.kind, configuration)
        or (case.old is not None and autonomous_projects.is_mirror(case.old, case.kind, configuration))
    ):
        return False
    return not may_change_mirror(case.writer, owner=_owner(case), surroundings=case.surroundings)


def _owner(case: Case) -> str:
    """Whose an existing object is counts before what its new version says."""
    configuration = case.surroundings.configuration
    if case.kind is Kind.APPLICATION:
        return reading.text(case.object, "metadata", "namespace")
    return owner_of(case.old, configuration) or owner_of(case.object, configuration)


def _source(case: Case) -> str:
    if case.surroundings.configuration.role is Role.CONTROL_PLANE:
        return f"what the autonomous agent {_owner(case)} has"
    return "what the principal has"


def _keeper(case: Case) -> str:
    on_control_plane = case.surroundings.configuration.role is Role.CONTROL_PLANE
    return "the principal and that agent" if on_control_plane else "the agent"


def _standby(case: Case) -> Iterator[Finding]:
    writer, surroundings = case.writer, case.surroundings
    if not writer.user or may_change_mirror(writer, owner="", surroundings=surroundings):
        return
    active = surroundings.configuration.active_peer or "its peer in the other region"
    yield Finding(
        "agent/standby",
        "metadata",
        f"this cluster is a standby of {active}: only the principal here writes, what is written there",
        f"Make the change there; in an emergency write as a member of the group {names.HA_BREAK_GLASS}.",
    )


def _local_project(case: Case) -> Iterator[Finding]:
    configuration = case.surroundings.configuration
    if configuration.agents.autonomous or ignore_sync.is_ignored(case.object):
        return
    if autonomous_projects.is_mirror(case.object, case.kind, configuration):
        return
    if is_agent(case.writer, configuration) or is_argocd(case.writer, case.surroundings):
        return
    yield Finding(
        "agent/local-project",
        "metadata.labels",
        "the principal does not know this project, so nobody can see it there",
        f'Create it on the principal, or label it {names.IGNORE_SYNC}: "true" to keep it local on purpose.',
    )


_EVERY_KIND = frozenset({Kind.PROJECT, Kind.APPLICATION, Kind.APPLICATION_SET, Kind.REPOSITORY, Kind.CLUSTER})
_MIRROR = example_project(SETTLED)
_CHANGED = example_project(SETTLED.replace("namespace: shop", 'namespace: "*"'))
_LOCAL_ON_PURPOSE = example_project(
    "sourceRepos: ['*']", name="shop", metadata=f'labels: {{{names.IGNORE_SYNC}: "true"}}'
)
_WORKLOAD = (
    "apiVersion: v1\n"
    "kind: ConfigMap\n"
    f"metadata: {{name: {names.TIPHYS_CONFIG_MAP}, namespace: {names.TIPHYS_NAMESPACE}}}\n"
    "data:\n"
    f"  {names.TIPHYS_CONFIG_KEY}: 'role: workload'\n"
)
_STANDBY = _WORKLOAD.replace("role: workload", "role: standby")
_NATIVE = example_project("sourceRepos: ['*']", name="shop", metadata="labels: {team: shop}")

RULES: tuple[Rule, ...] = (
    Rule(
        id="agent/mirror-changed",
        check=_mirror_changed,
        kinds=_EVERY_KIND,
        profile=Profile.PARITY,
        action=Action.DENY,
        reads=(*_PROTECTED, *_EDITED),
        needs=_MARKS,
        title="A mirror is changed only by who keeps it",
        explanation=(
            "An object with argocd.argoproj.io/source-uid, or a project that is marked as an agent's, is a copy. "
            "What it says is decided at its source, and a change here is undone. Argo CD's own accounts, status, "
            "operations, refresh requests, labels and other annotations pass. On a "
            "control plane argocd-server may not, nor may it change labels and annotations: its user would be told "
            "success, and see the change undone. An owner that does not exist would have the garbage collector delete "
            "it, so owner references are protected too."
        ),
        bad=f"{_MIRROR}{examples.BEFORE}{_CHANGED}",
        good=_NATIVE,
    ),
    Rule(
        id="agent/mirror-deleted",
        check=_mirror_deleted,
        kinds=_EVERY_KIND,
        profile=Profile.PARITY,
        action=Action.DENY,
        reads=(),
        operations=frozenset({Operation.DELETE}),
        title="A mirror is deleted only by who keeps it",
        explanation="A copy that is deleted by hand is created again; what deletes it is a deletion at its source.",
        bad=_MIRROR,
        good=_NATIVE,
    ),
    Rule(
        id="agent/standby",
        check=_standby,
        kinds=_EVERY_KIND,
        profile=Profile.PARITY,
        action=Action.DENY,
        reads=("spec", "data", "metadata.labels", "metadata.annotations", "metadata.ownerReferences"),
        operations=frozenset(Operation),
        roles=frozenset({Role.STANDBY}),
        title="On a standby nobody writes but its principal",
        explanation=(
            "Of a pair of principals one is active; what the other's cluster has is a copy. What is written there is "
            "lost, or wins over the active side after a promotion. The webhook knows by ConfigMap tiphys-ha that it "
            "guards a standby, or by role: standby in tiphys.yaml where argocd-agent's replica has no such record. "
            "A ValidatingAdmissionPolicy refuses the same without the webhook."
        ),
        bad=f"{_STANDBY}{examples.BEFORE}{_NATIVE}",
        good=_NATIVE,
    ),
    Rule(
        id="agent/local-project",
        check=_local_project,
        kinds=frozenset({Kind.PROJECT}),
        profile=Profile.RECOMMENDED,
        action=Action.WARN,
        reads=("metadata.labels",),
        operations=frozenset({Operation.CREATE}),
        roles=frozenset({Role.WORKLOAD}),
        title="A project on a managed agent's cluster comes from the principal",
        explanation=(
            "On a workload cluster with a managed agent (role: workload, and no agents.autonomous) the principal "
            "decides which projects there are. One that was created here is unknown to it."
        ),
        bad=f"{_WORKLOAD}{examples.BEFORE}{_NATIVE}",
        good=f"{_WORKLOAD}{examples.BEFORE}{_LOCAL_ON_PURPOSE}",
    ),
)
