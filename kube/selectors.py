"""Label and field selectors in the API's own syntax."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from kube.errors import BadRequestError

_TOKEN = re.compile(r"\s*(==|!=|[=!(),<>]|[^\s=!(),<>]+)")
_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
LABEL_VALUE = re.compile(rf"(?:{_NAME})?\Z")
LABEL_KEY = re.compile(rf"(?:(?=.{{1,253}}/)[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/)?{_NAME}\Z")
_END = ""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label; `negated` ones also hold where the label is absent."""

    key: str
    values: frozenset[str] | None = None
    """One of these; None where only presence counts."""
    negated: bool = False
    above: int | None = None
    below: int | None = None

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        if self.above is not None or self.below is not None:
            return value is not None and self._in_bounds(value)
        held = value is not None and (self.values is None or value in self.values)
        return held is not self.negated

    def _in_bounds(self, value: str) -> bool:
        try:
            number = int(value)
        except ValueError:
            return False
        return number > self.above if self.above is not None else number < (self.below or 0)


@dataclass(frozen=True, slots=True)
class LabelSelector:
    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.matches(labels) for requirement in self.requirements)

    @property
    def equality(self) -> tuple[str, str] | None:
        """One label that a matching object has for certain: what a watch can be found by."""
        for requirement in self.requirements:
            if requirement.values is not None and len(requirement.values) == 1 and not requirement.negated:
                return requirement.key, next(iter(requirement.values))
        return None


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """On metadata.name and metadata.namespace, the two that every kind has."""

    name: str | None = None
    namespace: str | None = None
    other_names: frozenset[str] = frozenset()
    other_namespaces: frozenset[str] = frozenset()

    def matches(self, *, name: str, namespace: str) -> bool:
        return (
            self.name in {None, name}
            and self.namespace in {None, namespace}
            and name not in self.other_names
            and namespace not in self.other_namespaces
        )


class _Tokens:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _TOKEN.findall(text)
        self._next = 0

    def peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else _END

    def take(self) -> str:
        token = self.peek()
        self._next += 1
        return token

    def expect(self, token: str) -> None:
        if self.take() != token:
            self.refuse(f"{token!r} is missing")

    def refuse(self, why: str) -> None:
        raise BadRequestError(f"label selector {self._text[:200]!r}: {why}")


@lru_cache(maxsize=1024)
def parse_labels(text: str) -> LabelSelector:
    tokens = _Tokens(text)
    requirements: list[Requirement] = []
    while tokens.peek() != _END:
        requirements.append(_requirement(tokens))
        if tokens.peek() != _END:
            tokens.expect(",")
            if tokens.peek() == _END:
                tokens.refuse("it ends with a comma")
    return LabelSelector(tuple(requirements))


def _requirement(tokens: _Tokens) -> Requirement:
    absent = tokens.peek() == "!"
    if absent:
        tokens.take()
    key = tokens.take()
    if not LABEL_KEY.match(key):
        tokens.refuse(f"{key!r} is no label key")
    if absent or tokens.peek() in {_END, ","}:
        return Requirement(key, negated=absent)
    operator = tokens.take()
    if operator in {"=", "==", "!="}:
        return Requirement(key, frozenset({_value(tokens)}), negated=operator == "!=")
    if operator in {"in", "notin"}:
        return Requirement(key, _values(tokens), negated=operator == "notin")
    if operator in {">", "<"}:
        bound = _bound(tokens)
        return Requirement(key, above=bound) if operator == ">" else Requirement(key, below=bound)
    tokens.refuse(f"{operator!r} is no operator")
    raise AssertionError


def _value(tokens: _Tokens) -> str:
    if tokens.peek() in {_END, ",", ")"}:
        return ""
    value = tokens.take()
    if not LABEL_VALUE.match(value):
        tokens.refuse(f"{value!r} is no label value")
    return value


def _values(tokens: _Tokens) -> frozenset[str]:
    tokens.expect("(")
    values = {_value(tokens)}
    while tokens.peek() == ",":
        tokens.take()
        values.add(_value(tokens))
    tokens.expect(")")
    return frozenset(values)


def _bound(tokens: _Tokens) -> int:
    value = tokens.take()
    if not re.match(r"[-+]?\d{1,18}\Z", value):
        tokens.refuse(f"{value!r} is no integer")
    return int(value)


@lru_cache(maxsize=1024)
def parse_fields(text: str) -> FieldSelector:
    wanted: dict[str, str] = {}
    others: dict[str, set[str]] = {"metadata.name": set(), "metadata.namespace": set()}
    for term in filter(None, (part.strip() for part in text.split(","))):
        field, operator, value = re.match(r"([^=!]*)(!=|==|=)?(.*)\Z", term, re.DOTALL).groups()  # type: ignore[union-attr]  # matches anything
        if operator is None:
            raise BadRequestError(f"field selector {text[:200]!r}: {term!r} compares nothing")
        if field not in others:
            raise BadRequestError(f"field selector {text[:200]!r}: field label not supported: {field}")
        if operator == "!=":
            others[field].add(value)
        elif wanted.setdefault(field, value) != value:
            others[field].add(value)  # two different wishes for one field: nothing can match
            others[field].add(wanted[field])
    return FieldSelector(
        name=wanted.get("metadata.name"),
        namespace=wanted.get("metadata.namespace"),
        other_names=frozenset(others["metadata.name"]),
        other_namespaces=frozenset(others["metadata.namespace"]),
    )
