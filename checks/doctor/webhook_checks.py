"""The webhook: who runs, whether the API server asks it, trusts it and hears what it says."""

from datetime import datetime

from argocd import names
from argocd.judging.configuration import Enforcement
from certs.key_pair import due
from checks.doctor.diagnosis import Diagnosis, DoctorCheck, DoctorSection, error, ok, some, warning
from checks.doctor.examined import Examined, InstalledPart
from checks.doctor.rights import rights_check
from webhook.registration.register import SECRET_NAME
from webhook.registration.status import (
    Status,
    bundle_problems,
    find_leaf,
    find_replicas,
    probe,
    registration_problems,
    shared_accounts,
)

PART = InstalledPart.WEBHOOK
REGISTER = "tiphys webhook register"
REGISTERED = "webhook/registration"


async def _lives(examined: Examined) -> Status:
    found = Status()
    await find_replicas(examined.store, examined.registration, found, now=examined.now())
    return found


async def _replicas(examined: Examined) -> Diagnosis:
    alive = [replica for replica in (await _lives(examined)).replicas if replica.alive]
    if not alive:
        return error(
            f"none has renewed its Lease in {examined.options.namespace}",
            remedy=f"kubectl --namespace {examined.options.namespace} get pods,events",
        )
    versions = sorted({replica.version for replica in alive})
    if len(versions) > 1:
        return warning(
            f"they are of different versions: {', '.join(versions)}", remedy="wait for the roll-out to end"
        )
    if len(alive) == 1:
        return warning(
            f"{alive[0].name} is alone: writes that fail closed stop while it restarts",
            remedy=f"kubectl --namespace {examined.options.namespace} scale deployment {PART.object_name} --replicas=2",
        )
    return ok(f"{len(alive)} of {versions[0]}")


async def _leader(examined: Examined) -> Diagnosis:
    leader = (await _lives(examined)).leader
    if not leader:
        return error(
            f"nobody holds Lease {examined.options.namespace}/{PART.object_name}: certificates are not renewed",
            remedy="look into the pods' logs for what keeps them from the Lease",
        )
    return ok(leader)


async def _certificate(examined: Examined) -> Diagnosis:
    leaf = await find_leaf(examined.store, examined.registration)
    where = f"Secret {examined.options.namespace}/{SECRET_NAME}-tls"
    if leaf is None:
        return warning(
            f"none that can be read in {where}",
            remedy="none is needed with --certificates files; else restart the webhook, which makes it",
        )
    return until(leaf.leaf.not_valid_after_utc, due(leaf.leaf), where=where, now=examined.now())


def until(ends: datetime, renew: datetime, *, where: str, now: datetime, remedy: str = "") -> Diagnosis:
    """How long a certificate is good for; one that is renewed by itself should never come near its end."""
    told = f"{where} {'ended' if now >= ends else 'ends'} {ends:%Y-%m-%d %H:%M} UTC"
    remedy = remedy or "look into the leader's log: it renews when two thirds of its life are over"
    if now >= ends:
        return error(told, remedy=remedy)
    return warning(f"{told} and should have been renewed", remedy=remedy) if now >= renew else ok(told)


async def _registration(examined: Examined) -> Diagnosis:
    problems = [line async for line in registration_problems(examined.store, examined.registration)]
    if problems:
        return error(some([problem.partition(": `")[0] for problem in problems]), remedy=REGISTER)
    return ok()


async def _bundle(examined: Examined) -> Diagnosis:
    leaf = await find_leaf(examined.store, examined.registration)
    problems = [line async for line in bundle_problems(examined.store, leaf, now=examined.now())]
    if problems:
        return error(some(problems), remedy=f"{REGISTER}; a leader that runs repairs it within seconds")
    return ok()


async def _dry_run(examined: Examined) -> Diagnosis:
    found = Status()
    await probe(examined.store, examined.registration, found)
    if found.guarded:
        return ok("refused, as it must be")
    return error(
        f"it was {found.probe}",
        remedy="see the lines above; where all are well, whether the API server reaches the Service"
        f" {examined.options.namespace}/{PART.object_name} (network policies, firewalls), and `enforcement`",
    )


async def _configuration(examined: Examined) -> Diagnosis:
    found, problems = await examined.configuration()
    where = f"ConfigMap {examined.options.namespace}/{names.TIPHYS_CONFIG_MAP}"
    if problems:
        return error(
            f"{where}: {some(problems)}",
            remedy="correct it: until then the last good one is used, or defaults",
        )
    if found.enforcement is Enforcement.WARN:
        return warning(
            "enforcement is warn: nothing is refused", remedy=f"write `enforcement: enforce` in {where}"
        )
    if shared := list(shared_accounts(found)):
        return warning(some(shared), remedy="give sidecars accounts of their own (agents.*-identities)")
    return ok()


SECTION = DoctorSection(
    title="webhook",
    applies=lambda examined: examined.has(PART),
    checks=(
        rights_check(PART),
        DoctorCheck(id="webhook/replicas", title="at least two replicas show signs of life", look=_replicas),
        DoctorCheck(id="webhook/leader", title="one of them leads", look=_leader),
        DoctorCheck(id="webhook/configuration", title="its configuration is good", look=_configuration),
        DoctorCheck(id="webhook/certificate", title="its certificate is good for a while", look=_certificate),
        DoctorCheck(id=REGISTERED, title="the API server is told to ask it", look=_registration),
        DoctorCheck(
            id="webhook/ca-bundle",
            title="the API server is told to trust it",
            look=_bundle,
            needs=(REGISTERED,),
        ),
        DoctorCheck(
            id="webhook/dry-run",
            title="a bad project is refused in a dry run",
            look=_dry_run,
            needs=(REGISTERED,),
        ),
    ),
)
