"""All checks in order, each as soon as it is known; with patience until it is well."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from checks.doctor import (
    agent_checks,
    argocd_checks,
    clash_checks,
    cluster_checks,
    installation_checks,
    pair_checks,
    principal_checks,
    webhook_checks,
)
from checks.doctor.diagnosis import CheckHealth, Diagnosis, DoctorCheck, DoctorSection, error, warning
from checks.doctor.examined import Examined
from kube.errors import ForbiddenError
from tiphys.errors import TiphysError

BEFORE_INSTALLATION = (
    cluster_checks.SECTION,
    installation_checks.SECTION,
    argocd_checks.SECTION,
    clash_checks.SECTION,
)
INSTALLED = (
    cluster_checks.SECTION,
    argocd_checks.SECTION,
    installation_checks.NOTHING_INSTALLED,
    webhook_checks.SECTION,
    principal_checks.SECTION,
    pair_checks.SECTION,
    agent_checks.SECTION,
    clash_checks.SECTION,
)

# Long enough for a Lease or a caBundle to be renewed, short enough for somebody who looks on.
PAUSE_SECONDS = 1.0
# No check has more to ask than that; the API server and the principal have bounds of their own below it.
CHECK_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Examination:
    section: DoctorSection
    check: DoctorCheck
    diagnosis: Diagnosis


async def examine(
    examined: Examined, *, before_installation: bool = False, wait_seconds: float = 0.0
) -> AsyncIterator[Examination]:
    """What needs another check that is red is left out: its reason is that one's."""
    deadline = time.monotonic() + wait_seconds
    failed: set[str] = set()
    for section in BEFORE_INSTALLATION if before_installation else INSTALLED:
        if cluster_checks.REACHABLE in failed:
            return
        if section is argocd_checks.SECTION:
            with contextlib.suppress(
                TiphysError
            ):  # whoever may not read Deployments is told so where that matters
                await examined.learn()
        there = await _whether_there(examined, section, deadline=deadline)
        if there is False:
            continue
        for check in section.checks:
            if not failed.isdisjoint(check.needs):
                failed.add(check.id)
                continue
            diagnosis = (
                there if isinstance(there, Diagnosis) else await _looked(examined, check, deadline=deadline)
            )
            if diagnosis.health is CheckHealth.ERROR:
                failed.add(check.id)
            yield Examination(section, check, diagnosis)


async def _whether_there(examined: Examined, section: DoctorSection, *, deadline: float) -> bool | Diagnosis:
    """Or why that is not known, which is then said of every line of the section."""
    applies = section.applies
    return True if applies is None else await _patiently(lambda: applies(examined), deadline=deadline)


async def _looked(examined: Examined, check: DoctorCheck, *, deadline: float) -> Diagnosis:
    return await _patiently(lambda: check.look(examined), deadline=deadline)


Answer = TypeVar("Answer")


async def _patiently(question: Callable[[], Awaitable[Answer]], *, deadline: float) -> Answer | Diagnosis:
    while True:
        answer = await _answered(question)
        red = isinstance(answer, Diagnosis) and answer.health is CheckHealth.ERROR
        if not red or time.monotonic() >= deadline:
            return answer
        await asyncio.sleep(min(PAUSE_SECONDS, max(deadline - time.monotonic(), 0.0)))


async def look(examined: Examined, check: DoctorCheck) -> Diagnosis:
    return await _answered(lambda: check.look(examined))


async def _answered(question: Callable[[], Awaitable[Answer]]) -> Answer | Diagnosis:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return await question()
    except ForbiddenError as refusal:
        return warning(f"not looked at: {refusal}", remedy="ask as a cluster admin")
    except TiphysError as problem:
        return error(str(problem), remedy="see whether the API server is well, then look again")
    except TimeoutError:
        return error(f"no answer within {CHECK_SECONDS:.0f} s", remedy="look again")
