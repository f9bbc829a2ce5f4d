"""Argo CD's objects as somebody wrote them, compared with the fields of its definitions.

Only files need this: an API server refuses wrong types and drops unknown fields before anybody else sees them. The table
is read when the first object of Argo CD's is compared.
"""

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from argocd.applications.templates import below
from argocd.spelling import nearest

MOST = 50
"""Problems of one object that are told: whoever has more has one cause for them."""

_FIELD = re.compile(r"([^!@:]+)(!?)(?:@([0-9.]+))?(?:@-([0-9.]+))?:(.+)")
_METADATA = (
    "Meta annotations:{s} creationTimestamp:* deletionGracePeriodSeconds:* deletionTimestamp:* finalizers:[s] "
    "generateName:s generation:* labels:{s} managedFields:* name:s namespace:s ownerReferences:* "
    "resourceVersion:* selfLink:* uid:*"
)
"""Kubernetes' own, which no definition spells out."""
_NAMES = {
    "s": "a text",
    "b": "true or false",
    "i": "a whole number",
    "n": "a number",
    "x": "a number or a text",
    "[": "a list",
    "{": "a mapping",
}
_QUOTED_SWITCHES = frozenset({"true", "false", "yes", "no", "on", "off"})
_COMMON = frozenset(
    {
        "name",
        "namespace",
        "path",
        "kind",
        "group",
        "values",
        "version",
        "labels",
        "annotations",
        "spec",
        "metadata",
    }
)
"""Names that stand in so many places that none is the one that was meant."""
_CLOSE = 0.75

Version = tuple[int, ...]


class FieldFault(StrEnum):
    UNKNOWN = "unknown"
    MISPLACED = "misplaced"
    RELEASE = "release"
    TYPE = "type"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class FieldProblem:
    fault: FieldFault
    path: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class KnownField:
    type: str
    required: bool
    since: Version
    until: Version

    def is_in(self, release: Version) -> bool:
        return self.since <= release <= self.until


Types = Mapping[str, Mapping[str, KnownField]]


@lru_cache(maxsize=1)
def types() -> Types:
    """Every type of the table with its fields."""
    # Only here: a run without an object of Argo CD's does not read it.
    from argocd.applications import field_table  # noqa: PLC0415

    first, last = field_table.RELEASES[0], field_table.RELEASES[-1]
    found: dict[str, dict[str, KnownField]] = {}
    for line in [_METADATA, *field_table.TYPES.splitlines()]:
        name, *parts = line.split(" ")
        found[name] = {}
        for part in parts:
            match = _FIELD.fullmatch(part)
            assert match
            key, required, since, until, kind = match.groups()
            found[name][key] = KnownField(
                kind, bool(required), _version(since) or first, _version(until) or last
            )
    for kind in ("Application", "ApplicationSet", "AppProject"):
        found[kind]["metadata"] = KnownField("Meta", required=True, since=first, until=last)
    return found


def _version(text: str | None) -> Version:
    return tuple(int(part) for part in text.split(".")) if text else ()


@lru_cache(maxsize=64)
def release_for(version: Version) -> Version:
    """The newest release of the table that is not newer; the oldest for what is older than all."""
    from argocd.applications import field_table  # noqa: PLC0415 - as above

    older = [release for release in field_table.RELEASES if release <= version[:2]]
    return older[-1] if older else field_table.RELEASES[0]


@lru_cache(maxsize=8)
def _places(kind: str) -> Mapping[str, list[str]]:
    """Where each name is a field, the shortest path of each type first."""
    table = types()
    found: dict[str, list[str]] = {}
    seen = {kind}
    waiting = deque([(kind, "")])
    while waiting:
        name, path = waiting.popleft()
        for key, known in table[name].items():
            at = f"{path}.{key}" if path else key
            found.setdefault(key, []).append(at)
            inner = known.type.strip("[]{}")
            if inner in table and inner not in seen and key != "operation":
                seen.add(inner)
                waiting.append((inner, f"{at}[]" if known.type.startswith("[") else at))
    return found


def problems(thing: Mapping[str, Any], *, kind: str, version: Version) -> Iterator[FieldProblem]:
    """What is wrong with the fields of an Application, ApplicationSet or AppProject."""
    release = release_for(version)
    waiting: list[tuple[Any, str, str]] = [(thing, kind, "")]
    told = 0
    while waiting and told < MOST:
        value, expected, path = waiting.pop()
        for found in _look(value, expected, path, kind=kind, release=release, waiting=waiting):
            told += 1
            yield found
            if told == MOST:
                return


def _look(
    value: Any,
    expected: str,
    path: str,
    *,
    kind: str,
    release: Version,
    waiting: list[tuple[Any, str, str]],
) -> Iterator[FieldProblem]:
    """One value; those inside it are put with those that wait."""
    if value is None or expected == "*":
        return
    words = expected[2:-1].split("|") if expected.startswith("s(") else []
    shape = "s" if words else expected if expected in _NAMES else expected[0] if expected[0] in "[{" else "{"
    if not _fits(value, shape):
        yield FieldProblem(FieldFault.TYPE, path, *_type_message(value, shape, path))
    elif words and value not in words:
        message = f"must be one of {', '.join(words)}"
        yield FieldProblem(FieldFault.TYPE, path, message, "Choose one of them, spelt exactly so.")
    elif shape == "[":
        waiting.extend((inner, expected[1:-1], f"{path}[{index}]") for index, inner in enumerate(value))
    elif expected[0] == "{":
        waiting.extend((inner, expected[1:-1], below(path, key)) for key, inner in value.items())
    elif shape == "{":
        yield from _look_inside(value, expected, path, kind=kind, release=release, waiting=waiting)


def _look_inside(
    value: Mapping[Any, Any],
    name: str,
    path: str,
    *,
    kind: str,
    release: Version,
    waiting: list[tuple[Any, str, str]],
) -> Iterator[FieldProblem]:
    known = types()[name]
    for key, inner in value.items():
        field = known.get(key)
        at = below(path, key)
        if field is None:
            yield _unknown(str(key), at, known, kind=kind, release=release)
        elif not field.is_in(release):
            yield FieldProblem(FieldFault.RELEASE, at, *_release_message(key, field, release))
        else:
            waiting.append((inner, field.type, at))
    for key, field in known.items():
        if field.required and value.get(key) is None and field.is_in(release):
            yield FieldProblem(
                FieldFault.REQUIRED,
                below(path, key),
                f"{key} is required, and the API server refuses an object without it",
                f"Set {below(path, key)}.",
            )


def _fits(value: Any, shape: str) -> bool:
    if shape == "b" or isinstance(value, bool):
        return shape == "b" and isinstance(value, bool)
    if shape == "i":
        return isinstance(value, int)
    if shape == "n":
        return isinstance(value, int | float)
    if shape == "x":
        return isinstance(value, int | str)
    if shape == "[":
        return isinstance(value, list)
    return isinstance(value, str if shape == "s" else Mapping)


def _type_message(value: Any, shape: str, path: str) -> tuple[str, str]:
    message = f"must be {_NAMES[shape]}, not {_described(value)}"
    if shape == "b" and isinstance(value, str):
        plain = value.lower() in _QUOTED_SWITCHES
        return message, "Remove the quotation marks." if plain else "Write true or false."
    if shape == "s" and isinstance(value, bool | int | float):
        return message, "Put it in quotation marks."
    if path.endswith("helm.values") and isinstance(value, Mapping):
        return message, "Write it as a block of text (values: |), or use valuesObject for a mapping."
    if shape == "[" and isinstance(value, Mapping):
        return message, "Begin each entry with a dash."
    if shape in {"i", "n"} and isinstance(value, str):
        return message, "Remove the quotation marks." if value.isdecimal() else "Write a number."
    return message, f"Write {_NAMES[shape]}."


def _described(value: Any) -> str:
    if isinstance(value, bool):
        return "a switch"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a text"
    return "a list" if isinstance(value, list) else "a mapping"


def _release_message(key: str, field: KnownField, release: Version) -> tuple[str, str]:
    now = ".".join(map(str, release))
    if release < field.since:
        when = f"has {key} since {'.'.join(map(str, field.since))}"
    else:
        when = f"had {key} until {'.'.join(map(str, field.until))}"
    return (
        f"Argo CD {when}; {now} drops it without a word",
        "Remove it, or set argocd.version in Tiphys's configuration to the release that runs.",
    )


def _unknown(
    key: str, path: str, known: Mapping[str, KnownField], *, kind: str, release: Version
) -> FieldProblem:
    message = f"Argo CD has no field {key[:60]} here, and the API server drops it without a word"
    here = [name for name, field in known.items() if field.is_in(release)]
    spelt = next((name for name in here if name.lower() == key.lower()), "")
    if not spelt and (elsewhere := _elsewhere(key, path, kind=kind)):
        return FieldProblem(FieldFault.MISPLACED, path, message, elsewhere)
    if not spelt:
        spelt = nearest(key, here, close=_CLOSE)
    hint = f"Did you mean {spelt}?" if spelt else f"Known here: {', '.join(sorted(here)[:12])}."
    return FieldProblem(FieldFault.UNKNOWN, path, message, hint)


def _elsewhere(key: str, path: str, *, kind: str) -> str:
    """Where the field belongs: the place that has most in common with where it stands."""
    if key in _COMMON:
        return ""
    if kind == "Application" and path == "spec.template":
        return "An ApplicationSet has a template; an Application has its fields directly in spec."
    around = path.split(".")
    places = [place for place in _places(kind).get(key, ()) if not place.startswith("operation")]
    if not places:
        return ""
    best = max(places, key=lambda place: (_in_common(place.split("."), around), -place.count(".")))
    return f"It belongs to {best}."


def _in_common(one: list[str], other: list[str]) -> int:
    return next((index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))
