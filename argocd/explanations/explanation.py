"""An explanation: one answer, the steps that lead to it, and perhaps a manifest."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from argocd.judging.case import Object, Surroundings
from argocd.judging.configuration import Configuration


class UnexplainedError(LookupError):
    """What was asked about is not there; the text says what, and where it was looked for."""


class Mark(StrEnum):
    YES = "✓"
    NO = "✗"
    NOTE = "·"

    @classmethod
    def of(cls, holds: bool) -> "Mark":  # noqa: FBT001 - the one thing it is about
        return cls.YES if holds else cls.NO


@dataclass(frozen=True, slots=True)
class ExplanationStep:
    mark: Mark
    what: str
    remark: str = ""


@dataclass(slots=True)
class ExplanationSection:
    title: str
    steps: list[ExplanationStep] = field(default_factory=list)
    manifest: Mapping[str, Any] | None = None
    example: str = ""


@dataclass(slots=True)
class Explanation:
    """`data` is what a program reads; the rest says the same to a person."""

    answer: str
    good: bool | None
    data: dict[str, Any]
    sections: list[ExplanationSection] = field(default_factory=list)


class Known(Protocol):
    """What is around that which is explained: files, a cluster that was listed, or a principal's caches."""

    @property
    def configuration(self) -> Configuration: ...

    @property
    def surroundings(self) -> Surroundings: ...

    @property
    def where(self) -> str:
        """In words, after "there is no project … "."""
        ...

    def project(self, name: str) -> Object | None: ...

    def application(self, text: str) -> Object:
        """By [NAMESPACE/]NAME; raises `UnexplainedError`."""
        ...


def plain(value: Any) -> Any:
    """Copies without sharing: YAML would write shared parts as anchors."""
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, list | tuple) else value
