"""The rule model: what a rule is, what it may look at, and what it answers.

A rule is written once and asked by the webhook, the pipeline check, the scan and the explain commands.
It never raises, whatever the object looks like: objects come from users, and a CRD's schema guarantees
less than one hopes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from argocd import names, reading
from argocd.judging.entries import Entry, added
from argocd.shortening import LONGEST, told

if TYPE_CHECKING:
    from argocd.judging.configuration import Configuration, Role
    from argocd.judging.neighbours import Neighbours
    from argocd.settings.argocd_cm import Settings

Object = Mapping[str, Any]
Path = tuple[str, ...]
"""Keys to follow, one after another."""


class Operation(StrEnum):
    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


class Action(StrEnum):
    DENY = "deny"
    WARN = "warn"
    AUDIT = "audit"
    OFF = "off"


class Profile(StrEnum):
    """From the fewest rules to the most: each profile has those of the ones before it too."""

    PARITY = "parity"
    RECOMMENDED = "recommended"
    STRICT = "strict"

    def includes(self, other: "Profile") -> bool:
        return _PROFILES.index(other) <= _PROFILES.index(self)


_PROFILES = tuple(Profile)


class Kind(StrEnum):
    """What a rule judges; secrets are told apart by their label, `ANY` is every object there is."""

    PROJECT = "AppProject"
    APPLICATION = "Application"
    APPLICATION_SET = "ApplicationSet"
    REPOSITORY = "repository secret"
    CLUSTER = "cluster secret"
    ARGOCD_CM = "argocd-cm"
    RBAC_CM = "argocd-rbac-cm"
    PARAMETERS_CM = "argocd-cmd-params-cm"
    ANY = "any object"


_CONFIG_MAPS = {kind.value: kind for kind in (Kind.ARGOCD_CM, Kind.RBAC_CM, Kind.PARAMETERS_CM)}
_OWN_GROUP = f"{names.GROUP}/"
_OWN = {kind.value: kind for kind in (Kind.PROJECT, Kind.APPLICATION, Kind.APPLICATION_SET)}


def kind_of(thing: Object) -> Kind:
    """By which kind of rules an object is judged. A Secret is told by its label: any type but `cluster`, unknown ones too, is judged as a repository."""
    api_version, kind = reading.text(thing, "apiVersion"), reading.text(thing, "kind")
    if api_version.startswith(_OWN_GROUP):
        return _OWN.get(kind, Kind.ANY)
    if api_version != "v1":
        return Kind.ANY
    if kind == "ConfigMap":
        return _CONFIG_MAPS.get(reading.text(thing, "metadata", "name"), Kind.ANY)
    if kind == "Secret" and names.SECRET_TYPE in reading.mapping(thing, "metadata", "labels"):
        secret_type = reading.text(thing, "metadata", "labels", names.SECRET_TYPE)
        return Kind.CLUSTER if secret_type == names.SECRET_TYPE_CLUSTER else Kind.REPOSITORY
    return Kind.ANY


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: `path` is the field in kubectl's notation, `hint` says what to do.

    Whatever quotes a URL quotes it without its credentials, and what is long is cut: here, so that no way to a reader can
    forget it, and no list of findings is larger than their number allows.
    """

    rule: str
    path: str
    message: str
    hint: str = ""

    def __post_init__(self) -> None:
        for name in ("path", "message", "hint"):
            text = getattr(self, name)
            if "@" in text or len(text) > LONGEST:
                object.__setattr__(self, name, told(text))


class User(NamedTuple):
    """Who asks; empty in a pipeline, where nobody has asked yet."""

    user: str = ""
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is known besides the object: Argo CD's settings, Tiphys's configuration, other objects."""

    settings: "Settings"
    configuration: "Configuration"
    neighbours: "Neighbours"


Fact = TypeVar("Fact")
_UNKNOWN: Any = object()


@dataclass(slots=True)
class Case:
    """One object to judge. On a deletion `object` is the one that goes and `old` is None.

    Nobody changes one; it is not frozen because making it would take three times as long.
    """

    kind: Kind
    object: Object
    surroundings: Surroundings
    old: Object | None = None
    operation: Operation = Operation.CREATE
    writer: User = field(default_factory=User)
    written: bool = False
    """Whether it stands in a file as somebody wrote it: no API server has refused or dropped anything yet."""
    facts: dict[Callable[["Case"], Any], Any] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def once(self, find: Callable[["Case"], Fact]) -> Fact:
        """What the function finds in this case, worked out for the first rule that asks."""
        fact: Fact = self.facts.get(find, _UNKNOWN)
        if fact is _UNKNOWN:  # an exception would cost more than most facts do
            fact = self.facts[find] = find(self)
        return fact

    def changed_entries(self, *path: str) -> Sequence[Entry]:
        """Of the list at that path: those that an update brings, and all where there is no older version."""
        listed = reading.sequence(self.object, *path)
        return (
            list(enumerate(listed)) if self.old is None else added(listed, reading.sequence(self.old, *path))
        )


Check = Callable[[Case], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class SharedLook:
    """The check of a rule that shares one look at the case with others: where that finds nothing, none is asked."""

    notice: Callable[[Case], Any]
    tell: Callable[[Case, Any], Iterable[Finding]]
    """What this rule says of all that was noticed."""

    def __call__(self, case: Case) -> Iterable[Finding]:
        noticed = case.once(self.notice)
        return self.tell(case, noticed) if noticed else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A stable id and what the docs, the denial, the metric and the SARIF file say about it.

    `reads` names the fields that decide: dotted, with a key that has dots itself in brackets
    (`spec.roles`, `metadata.annotations[argocd.argoproj.io/hook]`). An update that leaves all of them as
    they were is not judged, nor is a new object without any of the keys where a rule reads only such keys;
    a rule that names no fields is asked every time. `needs` names fields without any of which a rule that reads
    more is silent too. `refused_by_argocd` marks a rule beyond the parity profile of what Argo CD will not take, in a
    condition, at a sync or at argocd-server: it is said before others. `neighbours` marks a rule that looks at other objects, which speaks in every profile, by
    default warns, and is silent where they are unknown. `opinion` says why a rule is one of the strict profile:
    what works, and is common, although the rule speaks of it. `bad` and `good` are YAML whose last document is judged;
    those before it are in the cluster already, and an older version of the judged object makes it an update.
    Where `mild_when` is true of a case the rule warns instead of denying. `files_only` marks a rule that is asked of
    files alone: an API server has refused or dropped already what it speaks of. `roles` names those of a cluster in which
    it has something to say, and none where that is all of them.
    """

    id: str
    kinds: frozenset[Kind]
    profile: Profile
    action: Action
    reads: tuple[str, ...]
    title: str
    explanation: str
    bad: str
    good: str
    check: Check
    needs: tuple[str, ...] = ()
    refused_by_argocd: bool = False
    neighbours: bool = False
    files_only: bool = False
    roles: frozenset["Role"] = frozenset()
    mild_when: Callable[[Case], bool] | None = None
    opinion: str = ""
    operations: frozenset[Operation] = frozenset({Operation.CREATE, Operation.UPDATE})


def path_of(read: str) -> Path:
    """One of `Rule.reads` as the keys to follow."""
    return tuple(map(str, reading.steps_of(read)))
