"""The seams of the embedded store: who asks, what admission may say, where faults can strike."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

from kube.store import Identity, Object, Resource


class AdmissionOperation(StrEnum):
    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """`old` is None on a creation, `new` on a deletion; both are the receiver's own copies."""

    operation: AdmissionOperation
    resource: Resource
    subresource: str
    namespace: str
    name: str
    old: Object | None
    new: Object | None
    user: Identity
    dry_run: bool


@dataclass(frozen=True, slots=True)
class Admitted:
    """`body` replaces the object; None leaves it as it is. To refuse, raise an `ApiError`."""

    body: Object | None = None
    warnings: tuple[str, ...] = ()


Admission = Callable[[AdmissionRequest], Awaitable[Admitted]]


class Phase(StrEnum):
    BEFORE = "before"
    """Nothing has happened yet."""
    AFTER = "after"
    """The write is done, the answer is not: an error raised here is an outcome that the caller cannot know."""


@dataclass(frozen=True, slots=True)
class Call:
    """`verb` is get, list, watch, create, replace, patch or delete."""

    verb: str
    resource: Resource
    namespace: str | None
    name: str
    phase: Phase = Phase.BEFORE


Faults = Callable[[Call], Awaitable[None]]
"""Raises an `ApiError` or takes its time, to play an API server in trouble."""


@dataclass(slots=True)
class Hooks:
    """What can be changed while the store lives; all its faces share them."""

    admission: Admission | None = None
    faults: Faults | None = None
    on_warning: Callable[[str], None] | None = None
    access: Callable[[Object], bool] | None = None
    """Answers SubjectAccessReviews from their spec; without it nobody may do anything."""
    tokens: Callable[[Object], Object] | None = None
    """Answers TokenReviews by their status, from their spec; without it no token is known."""
