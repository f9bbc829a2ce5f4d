"""Is the object that arrives the one that is here? Identity of mirrored objects at a managed agent.

An object is known by its uid at the source, which its copy carries as an annotation; a principal is known
by its own uid, so that a failover (another principal, other uids, the same objects) deletes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from argocd import names
from argocd.reading import mapping, sequence, text


class Mismatch(StrEnum):
    """What to do with a local copy of an object that the source has made anew."""

    RECREATE = "recreate"
    UPSERT = "upsert"


class Adoption(StrEnum):
    """Whether an Application that nobody manages may be taken over."""

    ALWAYS = "always"
    NEVER = "never"


class IdentityAction(StrEnum):
    CREATE = "create"
    UPDATE = "update"
    STAMP = "update and stamp the uid"
    TRANSITION = "transition"
    ADOPT = "adopt"
    RECREATE = "recreate"
    UPSERT = "upsert"
    DELETE = "delete"
    REPORT_GONE = "report gone"
    """It is being deleted at the source and is not here: say so, else the source waits for ever."""
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A local object, if any, beside the one that arrives; false where the question does not arise."""

    exists: bool = False
    managed: bool = True
    """The local object has a source uid."""
    source_matches: bool = False
    principal_matches: bool = False
    principal_changed: bool = False
    source_unknown: bool = False
    """What arrives has no uid: a controller at the source wiped the annotation."""
    principal_unknown: bool = False
    """What arrives does not say which principal sent it: an old one."""
    principal_adopted: bool = False
    """The local object predates principals that say who they are."""


def source_uid(item: Mapping[str, Any]) -> str:
    """Under which identity an object is mirrored: it may be a mirror itself."""
    return text(item, "metadata", "annotations", names.SOURCE_UID) or text(item, "metadata", "uid")


def under_first_identity(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """An object as its source first sent it: after a failover it has another uid and is still the same."""
    uid = source_uid(item)
    if uid == text(item, "metadata", "uid"):
        return item
    return {**item, "metadata": {**mapping(item, "metadata"), "uid": uid}}


def compare_application(
    local: Mapping[str, Any] | None, incoming: Mapping[str, Any], *, principal_uid: str
) -> Comparison:
    if local is None:
        return Comparison(principal_unknown=not principal_uid)
    if not has_source(local):
        return Comparison(exists=True, managed=False, principal_unknown=not principal_uid)
    uid = source_uid(incoming)
    annotations = mapping(local, "metadata", "annotations")
    known_principal = text(annotations, names.PRINCIPAL_UID)
    changed = bool(principal_uid and known_principal) and principal_uid != known_principal
    return Comparison(
        exists=True,
        source_matches=bool(uid) and uid == annotations[names.SOURCE_UID],
        source_unknown=not uid,
        principal_matches=not changed,
        principal_changed=changed,
        principal_unknown=not principal_uid,
        principal_adopted=bool(principal_uid) and not known_principal,
    )


def application_action(
    found: Comparison,
    *,
    creating: bool = True,
    deleting: bool = False,
    mismatch: Mismatch = Mismatch.RECREATE,
    adoption: Adoption = Adoption.ALWAYS,
) -> IdentityAction:
    """What a managed agent does with an Application that was created or updated at its principal.

    `creating`: the event is a create (only that may adopt). `deleting`: it has a deletion timestamp.
    """
    if not found.exists:
        return IdentityAction.REPORT_GONE if deleting else IdentityAction.CREATE
    if found.principal_changed:
        return IdentityAction.TRANSITION
    if found.source_unknown and found.principal_matches:
        return IdentityAction.STAMP
    if found.source_matches:
        return IdentityAction.UPDATE
    if found.principal_adopted:
        return IdentityAction.TRANSITION
    if not found.managed:
        adopt = creating and adoption is Adoption.ALWAYS
        return IdentityAction.ADOPT if adopt else IdentityAction.REFUSE
    return _on_mismatch(mismatch)


def project_action(
    *,
    exists: bool,
    managed: bool,
    source_matches: bool,
    mismatch: Mismatch = Mismatch.RECREATE,
) -> IdentityAction:
    """The same for an AppProject: one that is here and nobody's (`default`) is taken over."""
    if not exists:
        return IdentityAction.CREATE
    if not managed:
        return IdentityAction.ADOPT
    return IdentityAction.UPDATE if source_matches else _on_mismatch(mismatch)


def repository_action(
    *,
    exists: bool,
    managed: bool,
    source_matches: bool,
    mismatch: Mismatch = Mismatch.RECREATE,
) -> IdentityAction:
    """The same for a repository Secret: credentials that somebody put here are never overwritten."""
    if exists and not managed:
        return IdentityAction.REFUSE
    return project_action(exists=exists, managed=managed, source_matches=source_matches, mismatch=mismatch)


def mirror_action(existing: Mapping[str, Any] | None, mirror: Mapping[str, Any]) -> IdentityAction:
    """What a principal does with the mirror of an autonomous agent's project or Application.

    Its name may be taken: by a native object, or by the mirror of another agent (`a` + `b-c`, `a-b` + `c`). The uid
    proves nothing there: it is the sender's word, and every reader of the mirror knows it.
    """
    if existing is None:
        return IdentityAction.CREATE
    if not is_managed(existing):
        return IdentityAction.REFUSE
    same_agent = _agent_of(existing) == _agent_of(mirror)
    return IdentityAction.UPDATE if same_agent else IdentityAction.REFUSE


def _agent_of(mirror: Mapping[str, Any]) -> Any:
    """Of a project's mirror; an Application's lives in the agent's namespace, which nobody else writes to."""
    return next(iter(sequence(mirror, "spec", "sourceNamespaces")), None)


def deletion_action(*, exists: bool, managed: bool) -> IdentityAction | None:
    """What a managed agent does when its source deleted an object, whatever the uid; None: it is gone."""
    if not exists:
        return None
    return IdentityAction.DELETE if managed else IdentityAction.REFUSE


def matches_source(local: Mapping[str, Any], incoming: Mapping[str, Any]) -> bool:
    """Whether a local project, repository or key ring is the copy of the one that arrives."""
    uid = source_uid(incoming)
    return bool(uid) and text(local, "metadata", "annotations", names.SOURCE_UID) == uid


def has_source(item: Mapping[str, Any] | None) -> bool:
    """Whether the object is marked as a copy, even by an empty uid: whoever may write a copy may empty that."""
    return names.SOURCE_UID in mapping(item, "metadata", "annotations")


def is_managed(local: Mapping[str, Any]) -> bool:
    """Whether the copy says which object it is a copy of."""
    return bool(text(local, "metadata", "annotations", names.SOURCE_UID))


def mismatch_policy(incoming: Mapping[str, Any], default: Mismatch) -> Mismatch:
    """The source may say per object what a mismatch means."""
    word = text(incoming, "metadata", "annotations", names.SOURCE_UID_MISMATCH_POLICY)
    return Mismatch(word) if word in set(Mismatch) else default


def adoption_policy(local: Mapping[str, Any], default: Adoption) -> Adoption:
    """The local object may say whether it wants to be taken over."""
    word = text(local, "metadata", "annotations", names.ADOPTION_POLICY)
    return Adoption(word) if word in set(Adoption) else default


def _on_mismatch(mismatch: Mismatch) -> IdentityAction:
    return IdentityAction.UPSERT if mismatch is Mismatch.UPSERT else IdentityAction.RECREATE
