"""The API server: does it answer, is it new enough, do the clocks agree."""

import re
from datetime import datetime

from argocd import names, reading
from checks.doctor.diagnosis import Diagnosis, DoctorCheck, DoctorSection, error, ok, warning
from checks.doctor.examined import Examined
from kube import queries
from kube.resources import NAMESPACES, SELF_SUBJECT_REVIEWS

REACHABLE = "kubernetes/api"
NAMESPACE = "kubernetes/argocd-namespace"

# matchConditions and ValidatingAdmissionPolicy are there for good since then.
OLDEST = (1, 30)
# Kubernetes itself takes leases and tokens of clocks that differ by less.
SKEW_SECONDS = 30.0


async def _reachable(examined: Examined) -> Diagnosis:
    return ok(f"{await examined.store.server_version()} at {examined.store.url}")


async def _version(examined: Examined) -> Diagnosis:
    told = await examined.store.server_version()
    found = re.match(r"v?(\d+)\.(\d+)", told)
    if found is None:
        return warning(f"it calls itself {told!r}", remedy="look up which Kubernetes that is")
    version = (int(found[1]), int(found[2]))
    oldest = ".".join(map(str, OLDEST))
    if version < OLDEST:
        return error(
            f"it is {told}, and matchConditions and ValidatingAdmissionPolicies need {oldest}",
            remedy="upgrade the cluster first",
        )
    return ok(f"{told}, needed is {oldest}")


async def _clock(examined: Examined) -> Diagnosis:
    """Told by an object that is answered and not stored."""
    before = examined.now()
    answer = await examined.store.create(SELF_SUBJECT_REVIEWS, {})
    after = examined.now()
    try:
        there = datetime.fromisoformat(reading.text(answer, "metadata", "creationTimestamp"))
    except ValueError:
        return warning("the API server does not tell its time", remedy="compare the clocks by hand")
    return clock_diagnosis(
        max((before - there).total_seconds(), (there - after).total_seconds(), 0.0),
        behind=there > after,
        whose="the API server's",
    )


def clock_diagnosis(skew: float, *, behind: bool, whose: str) -> Diagnosis:
    """`skew` in seconds, between this machine's clock and another's."""
    if skew <= SKEW_SECONDS:
        return ok()
    return error(
        f"this machine is {skew:.0f} s {'behind' if behind else 'ahead of'} {whose} clock",
        remedy="let NTP set both: certificates, tokens and Leases go by it",
    )


async def _argocd_namespace(examined: Examined) -> Diagnosis:
    namespace = examined.options.argocd_namespace
    if await queries.find(examined.store, NAMESPACES, name=namespace) is None:
        return error(
            f"there is no namespace {namespace}",
            remedy="install Argo CD, or say where it is: --argocd-namespace",
        )
    return ok(namespace)


async def _own_namespace(examined: Examined) -> Diagnosis:
    home, argocd = examined.options.namespace, examined.options.argocd_namespace
    if home == argocd:
        return error(
            f"both are in {home}: what guards it would guard itself",
            remedy=f"give Tiphys a namespace of its own, such as {names.TIPHYS_NAMESPACE}: --namespace",
        )
    return ok(home)


SECTION = DoctorSection(
    title="kubernetes",
    checks=(
        DoctorCheck(id=REACHABLE, title="the API server answers", look=_reachable),
        DoctorCheck(
            id="kubernetes/version",
            title="the API server is new enough",
            look=_version,
            needs=(REACHABLE,),
        ),
        DoctorCheck(
            id="kubernetes/clock",
            title="the clocks of this machine and the API server agree",
            look=_clock,
            needs=(REACHABLE,),
        ),
        DoctorCheck(
            id=NAMESPACE, title="Argo CD's namespace exists", look=_argocd_namespace, needs=(REACHABLE,)
        ),
        DoctorCheck(
            id="kubernetes/own-namespace",
            title="Tiphys has a namespace of its own",
            look=_own_namespace,
            needs=(REACHABLE,),
        ),
    ),
)
