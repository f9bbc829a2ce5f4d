"""A pair of principals: this one's record and fence, the way to the other, the health that DNS asks, what differs."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import aiohttp

from argocd import names
from argocd.reading import mapping, sequence, text, value
from checks.doctor.agent_checks import address_diagnosis
from checks.doctor.diagnosis import Diagnosis, DoctorCheck, DoctorSection, error, ok, some, warning
from checks.doctor.examined import Examined, InstalledPart, flag, is_paired
from kube import queries
from kube.resources import ADMISSION_POLICIES, ADMISSION_POLICY_BINDINGS, CONFIG_MAPS
from sidecars.fleet.ha_client import HaClient
from sidecars.replication.record import HaRecord, HaRole, RecordStore
from tiphys.errors import SurroundingsError

PART = InstalledPart.PRINCIPAL
RECORD = "pair/record"
ADMIN = "pair/peer"
HEALTH_SERVICE = "argocd-agent-principal-healthz:8003"
HEALTH_SECONDS = 10.0
HEALTH_BYTES = 4096
LATE_SECONDS = 60.0


async def _is_paired(examined: Examined) -> bool:
    namespace = examined.options.argocd_namespace
    held = await queries.find(examined.store, CONFIG_MAPS, name=names.HA_RECORD, namespace=namespace)
    return held is not None or is_paired(await examined.deployment(PART))


async def _held(examined: Examined) -> HaRecord | None:
    return await RecordStore(examined.store, namespace=examined.options.argocd_namespace).read()


async def _record(examined: Examined) -> Diagnosis:
    where = f"ConfigMap {examined.options.argocd_namespace}/{names.HA_RECORD}"
    try:
        record = await _held(examined)
    except SurroundingsError as problem:
        return error(str(problem), remedy="tiphys ha status, on both sides, before anything is changed")
    if record is None:
        return error(
            f"there is no {where}: this principal has never been active nor followed one",
            remedy="tiphys ha status tells what it waits for; a new pair begins with `tiphys ha resume --bootstrap`",
        )
    if record.role is HaRole.PROMOTING:
        return error(
            f"a promotion to epoch {record.epoch} has not ended: nobody is served",
            remedy="tiphys ha status, then `tiphys ha promote`, or `tiphys ha demote` to take it back",
        )
    return ok(f"{record.role.value}, epoch {record.epoch}, the peer's is {record.peer_epoch}")


async def _fence(examined: Examined) -> Diagnosis:
    namespace, remedy = examined.options.argocd_namespace, "apply the component high-availability again"
    policy = await queries.find(examined.store, ADMISSION_POLICIES, name=names.HA_FENCE)
    binding = await queries.find(examined.store, ADMISSION_POLICY_BINDINGS, name=names.HA_FENCE)
    lacking = [
        kind
        for kind, found in (
            ("ValidatingAdmissionPolicy", policy),
            ("ValidatingAdmissionPolicyBinding", binding),
        )
        if found is None
    ]
    if lacking:
        return error(
            f"there is no {' and no '.join(lacking)} {names.HA_FENCE}: on a standby anybody may write what is replicated",
            remedy=remedy,
        )
    asked = text(binding, "spec", "paramRef", "namespace")
    if asked != namespace:
        return error(
            f"its parameter is looked for in {asked or 'no namespace'}, not in {namespace}", remedy=remedy
        )
    return ok()


async def _address(examined: Examined) -> Diagnosis:
    told = flag(await examined.deployment(PART), "--ha-peer-address")
    host, _, port = told.rpartition(":")
    if not host:
        return warning(
            "its Deployment does not say where the peer is (--ha-peer-address)",
            remedy="a primary may be alone for a while; a replica needs it",
        )
    return await address_diagnosis(
        host.strip("[]"), int(port) if port.isdigit() else 443, remedy="correct --ha-peer-address, or the DNS"
    )


async def _health(examined: Examined) -> Diagnosis:
    """What a load balancer or a DNS service goes by: 200 of the active one alone."""
    record = await _held(examined)
    try:
        status, said = await _asked_health(examined)
    except (SurroundingsError, aiohttp.ClientError, TimeoutError, OSError) as problem:
        return warning(
            f"it could not be asked: {problem or type(problem).__name__}",
            remedy="kubectl port-forward deployment/tiphys-principal 8003, then --health-url http://localhost:8003/healthz",
        )
    active = record is not None and record.role is HaRole.ACTIVE
    if (status == HTTPStatus.OK) != active:
        is_what = "active" if active else "a standby"
        return error(
            f"it is {is_what} and /healthz says {status}: {said.strip() or 'nothing more'}",
            remedy="tiphys ha status tells why; agents are led by this answer",
        )
    return ok(f"{status}, as it must be of {'the active one' if active else 'a standby'}")


async def _asked_health(examined: Examined) -> tuple[int, str]:
    url = examined.options.health_url
    if not url:
        proxied = (
            f"/api/v1/namespaces/{examined.options.argocd_namespace}/services/{HEALTH_SERVICE}/proxy/healthz"
        )
        answer = await examined.store.raw.request("GET", proxied, accept="*/*", max_bytes=HEALTH_BYTES)
        return answer.status, answer.body.decode(errors="replace")
    limit = aiohttp.ClientTimeout(total=HEALTH_SECONDS)
    async with aiohttp.ClientSession(timeout=limit) as session, session.get(url) as response:
        return response.status, (await response.content.read(HEALTH_BYTES)).decode(errors="replace")


async def _status(examined: Examined) -> dict[str, Any] | Diagnosis:
    try:
        return await HaClient(address=examined.options.ha_address).status()
    except SurroundingsError as problem:
        return warning(
            f"not asked: {problem}",
            remedy=f"kubectl --namespace {examined.options.argocd_namespace} port-forward deployment/tiphys-principal 8405",
        )


async def _peer(examined: Examined) -> Diagnosis:
    told = await _status(examined)
    if isinstance(told, Diagnosis):
        return told
    peer = mapping(told, "peer")
    address = text(peer, "address")
    if not address:
        return warning("none is configured: nothing is replicated", remedy="--ha-peer-address, on both sides")
    if value(peer, "reachable") is not True:
        return error(
            f"{address} does not answer: {text(peer, 'problem')}",
            remedy="is it running, is its port open from here, does it list this principal's certificate?",
        )
    if differences := [each for each in sequence(peer, "differences") if isinstance(each, str)]:
        return error(
            f"the two differ: {some(differences)}", remedy="make these settings the same on both sides"
        )
    if text(told, "state") == text(peer, "state") == HaRole.ACTIVE:
        return error("both are active", remedy="demote one, now: tiphys ha demote --reason …")
    return ok(f"{address} is {text(peer, 'state') or 'there'}, epoch {value(peer, 'epoch')}")


async def _replication(examined: Examined) -> Diagnosis:
    told = await _status(examined)
    if isinstance(told, Diagnosis):
        return told
    sides = [*sequence(told, "replicas"), *([told["replication"]] if told.get("replication") else [])]
    problems = [line for side in sides for line in _differences(side)]
    if problems:
        return error(
            some(problems),
            remedy="tiphys ha status tells more; do not promote before it is equal, unless you must",
        )
    if not sides:
        return warning(
            "nobody follows",
            remedy="start the other principal; `tiphys ha status` there tells what it waits for",
        )
    compared = [each for each in (value(side, "compared_seconds") for side in sides) if each is not None]
    return ok(f"equal {max(compared):.0f} s ago" if compared else "not compared yet")


def _differences(side: Any) -> Iterator[str]:
    if differing := [kind for kind, same in mapping(side, "digests_equal").items() if not same]:
        yield f"{', '.join(differing)} differ"
    for kind, count in mapping(side, "held_deletions").items():
        yield f"{count} deletions of {kind} wait for `tiphys ha accept-deletions {kind}`"
    if letters := sequence(side, "dead_letters"):
        named = [" ".join(str(part) for part in mapping(letter).values())[:120] for letter in letters]
        yield f"{len(letters)} could not be written on the replica: {some(named)}"
    late = value(side, "lag_seconds")
    if isinstance(late, int | float) and late > LATE_SECONDS:
        yield f"{text(side, 'identity')} is {late:.0f} s behind"


SECTION = DoctorSection(
    title="pair",
    applies=_is_paired,
    checks=(
        DoctorCheck(id=RECORD, title="this principal knows its role", look=_record),
        DoctorCheck(id="pair/fence", title="the fence of a standby is there", look=_fence),
        DoctorCheck(id="pair/address", title="the peer's name has an address", look=_address),
        DoctorCheck(
            id="pair/health",
            title="/healthz says what DNS and load balancers must hear",
            look=_health,
            needs=(RECORD,),
        ),
        DoctorCheck(id=ADMIN, title="the peer answers, and fits", look=_peer),
        DoctorCheck(
            id="pair/replication", title="what is replicated is equal", look=_replication, needs=(ADMIN,)
        ),
    ),
)
