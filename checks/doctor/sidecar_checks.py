"""What the checks of principal and agent share: Leases, and certificates that an operator renews."""

from functools import partial

from argocd import reading
from certs.folder import BUNDLE, CERTIFICATE, KEY
from certs.key_pair import CertificateError, KeyPair, verifies
from certs.sources import secret_data
from checks.doctor.diagnosis import CheckHealth, Diagnosis, DoctorCheck, error, ok
from checks.doctor.examined import Examined, InstalledPart
from checks.doctor.webhook_checks import until
from kube import queries
from kube.resources import LEASES
from sidecars.fleet.pki import described
from tiphys.errors import TiphysError
from webhook.registration.status import is_fresh


async def _lease(examined: Examined, part: InstalledPart) -> Diagnosis:
    name, namespace = part.object_name, examined.options.argocd_namespace
    lease = await queries.find(examined.store, LEASES, name=name, namespace=namespace)
    if lease is None or not is_fresh(lease.get("spec") or {}, now=examined.now()):
        return error(
            f"nobody holds Lease {namespace}/{name}: none is running, or none reaches the API server",
            remedy=f"kubectl --namespace {namespace} logs deployment/{name}",
        )
    return ok(reading.text(lease, "spec", "holderIdentity"))


def lease_check(part: InstalledPart) -> DoctorCheck:
    return DoctorCheck(
        id=f"{part.value}/lease",
        title="one shows signs of life",
        look=partial(_lease, part=part),
    )


async def authorities(examined: Examined, secret: str) -> bytes:
    """Where argocd-agentctl leaves the authority's own pair, its certificate."""
    data = await secret_data(examined.store, namespace=examined.options.argocd_namespace, name=secret)
    return data.get(BUNDLE) or data.get(CERTIFICATE, b"")


async def key_pair(examined: Examined, secret: str) -> KeyPair:
    namespace = examined.options.argocd_namespace
    data = await secret_data(examined.store, namespace=namespace, name=secret)
    return KeyPair.checked(
        certificate=data.get(CERTIFICATE, b""),
        key=data.get(KEY, b""),
        origin=f"Secret {namespace}/{secret}",
    )


async def certificate_diagnosis(examined: Examined, *, secret: str, authority: str, remedy: str) -> Diagnosis:
    """Whether a certificate can be read, comes from the authority and is good for a while."""
    now = examined.now()
    try:
        pair = await key_pair(examined, secret)
        roots = await authorities(examined, authority)
    except CertificateError as problem:
        return error(str(problem), remedy=remedy)
    except TiphysError as problem:
        return error(str(problem).partition(": create it")[0], remedy=remedy)
    where = f"Secret {examined.options.argocd_namespace}/{secret}"
    told = described(pair.leaf, where=where)
    if now < told.begins:
        return error(
            f"{where} is not valid before {told.begins:%Y-%m-%d %H:%M} UTC", remedy="check the clocks"
        )
    lasting = until(told.ends, told.renew, where=where, now=now, remedy=f"{remedy} --replace")
    if lasting.health is CheckHealth.ERROR:
        return lasting
    if not verifies(roots, pair.leaf, now=now):
        return error(
            f"{where} was not issued by the authority in Secret {authority}, or that has ended",
            remedy=f"{remedy} --replace",
        )
    return lasting
