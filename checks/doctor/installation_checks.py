"""Before an installation: may this be installed, by whoever asks, and is nothing left of an earlier one?"""

from checks.doctor.cluster_checks import REACHABLE
from checks.doctor.diagnosis import Diagnosis, DoctorCheck, DoctorSection, error, ok, some
from checks.doctor.examined import Examined, InstalledPart
from checks.doctor.rights import missing, needed_to_install
from kube import queries
from webhook.registration.register import CONFIGURATIONS
from webhook.registration.status import Status, find_replicas
from webhook.registration.table import NAME


async def _rights(examined: Examined) -> Diagnosis:
    needed = needed_to_install(examined.options)
    if lacking := await missing(examined.store, needed):
        return error(
            f"you lack {some([str(right) for right in lacking])}",
            remedy="install as a cluster admin, or have these granted",
        )
    return ok(f"{len(needed)} rights")


async def _leftovers(examined: Examined) -> Diagnosis:
    held = [
        resource.kind
        for resource, _ in CONFIGURATIONS
        if await queries.find(examined.store, resource, name=NAME) is not None
    ]
    found = Status()
    await find_replicas(examined.store, examined.registration, found, now=examined.now())
    if held and not any(replica.alive for replica in found.replicas):
        return error(
            f"{' and '.join(held)} {NAME} is registered and nobody answers: writes to Argo CD's kinds fail",
            remedy="tiphys webhook unregister",
        )
    return ok()


async def _nothing_yet(examined: Examined) -> bool:
    return not any([await examined.has(part) for part in InstalledPart])


async def _nothing(_: Examined) -> Diagnosis:
    return error(
        "neither a webhook, a principal nor an agent: no Deployment, Lease or ServiceAccount",
        remedy="`tiphys doctor --pre` tells whether it can be installed; else --namespace, --argocd-namespace",
    )


NOTHING_INSTALLED = DoctorSection(
    title="tiphys",
    applies=_nothing_yet,
    checks=(DoctorCheck(id="tiphys/installed", title="Tiphys is here", look=_nothing, needs=(REACHABLE,)),),
)

SECTION = DoctorSection(
    title="installation",
    checks=(
        DoctorCheck(
            id="installation/rights",
            title="you may make all that the manifests hold",
            look=_rights,
            needs=(REACHABLE,),
        ),
        DoctorCheck(
            id="installation/leftovers",
            title="nothing is registered that nobody answers",
            look=_leftovers,
            needs=(REACHABLE,),
        ),
    ),
)
