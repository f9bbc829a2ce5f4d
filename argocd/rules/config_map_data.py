"""What rules about Argo CD's three ConfigMaps share: the entries that an object brings, and how they are named."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from argocd import reading
from argocd.judging.case import Case, Finding, Kind

CONFIG_MAPS = frozenset({Kind.ARGOCD_CM, Kind.RBAC_CM, Kind.PARAMETERS_CM})
"""The values are the ConfigMaps' names."""

MOST_TOLD = 20
"""Findings of one rule in one ConfigMap, which may have ten thousands of keys: nobody reads on."""

_ABSENT = object()


def at(key: str) -> str:
    return f"data[{key}]"


def data_of(thing: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return reading.mapping(thing, "data")


def changed_entries(case: Case) -> Iterator[tuple[str, Any]]:
    """The entries that were not there before as they are now: an update answers for what it changes."""
    before = data_of(case.old)
    for key, value in data_of(case.object).items():
        if isinstance(key, str) and before.get(key, _ABSENT) != value:
            yield key, value


def changed_texts(case: Case) -> Iterator[tuple[str, str]]:
    for key, value in changed_entries(case):
        if isinstance(value, str):
            yield key, value


def first(findings: Iterator[Finding]) -> Iterator[Finding]:
    return islice(findings, MOST_TOLD)
