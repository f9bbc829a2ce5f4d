"""One line of the doctor: what was looked at, how it is, what to do."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from checks.doctor.examined import Examined


class CheckHealth(StrEnum):
    OK = "ok"
    WARNING = "warning"
    """It works, though not as well as it could, or could not be looked at."""
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`message` is what was found; `remedy` what to do about it, empty where all is well."""

    health: CheckHealth
    message: str = ""
    remedy: str = ""


def ok(message: str = "") -> Diagnosis:
    return Diagnosis(CheckHealth.OK, message)


def warning(message: str, *, remedy: str) -> Diagnosis:
    return Diagnosis(CheckHealth.WARNING, message, remedy)


def error(message: str, *, remedy: str) -> Diagnosis:
    return Diagnosis(CheckHealth.ERROR, message, remedy)


Look = Callable[[Examined], Awaitable[Diagnosis]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorCheck:
    """`id` is `section/name`, as JSON and the docs have it. `needs` are ids without which it makes no sense to look."""

    id: str
    title: str
    look: Look
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorSection:
    title: str
    checks: tuple[DoctorCheck, ...]
    applies: Callable[[Examined], Awaitable[bool]] | None = None
    """Asked before it is looked at; without it always."""


TOLD = 3


def some(things: Sequence[str]) -> str:
    """The first few, and how many more."""
    more = f" and {len(things) - TOLD} more" if len(things) > TOLD else ""
    return ", ".join(things[:TOLD]) + more


def counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
