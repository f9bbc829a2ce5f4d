"""`tiphys webhook status`: is this cluster guarded, by whom, and where is protection weaker than it could be?"""

import socket
import ssl
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from argocd import names, reading
from argocd.globs import Verdict
from argocd.judging.configuration import Configuration, Enforcement, matches
from argocd.projects.pattern_lists import in_list
from argocd.settings.argocd_cm import read_settings
from certs.folder import BUNDLE, CERTIFICATE, KEY
from certs.key_pair import CertificateError, KeyPair, verifies
from kube import queries
from kube.errors import ApiError, ForbiddenError
from kube.resources import APP_PROJECTS, CONFIG_MAPS, LEASES, NAMESPACES, SECRETS
from kube.secrets import decoded_data
from kube.store import Object, Store
from tiphys.errors import SurroundingsError
from webhook.admission.configuration_map import find_configuration, noting
from webhook.admission.messages import REFUSAL
from webhook.registration.register import (
    CONFIGURATIONS,
    LEADER_LEASE,
    REPLICA_LEASE_PREFIX,
    SECRET_NAME,
    UNREGISTERED,
    bundles_of,
)
from webhook.registration.table import NAME, SYSTEM_NAMESPACES, Registration

PROBE_SECONDS = 5.0
NAMESPACES_SHOWN = 5

BAD_PROJECT: Object = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "AppProject",
    "metadata": {"name": "tiphys-status-probe"},
    "spec": {"sourceRepos": ["!*"]},
}
"""Refused by a rule that denies in every profile; only ever sent as a dry run."""


@dataclass(frozen=True, slots=True)
class Replica:
    name: str
    version: str
    alive: bool


@dataclass(slots=True)
class Status:
    """`guarded` is what the API server did with a project that must be refused."""

    guarded: bool = False
    probe: str = ""
    certificate: str = ""
    """Until when it is valid, and whether the API server will trust it."""
    leader: str = ""
    replicas: list[Replica] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """What is not guarded and why."""
    weaknesses: list[str] = field(default_factory=list)
    """What is guarded less well than it could be."""

    def lines(self) -> Iterator[str]:
        yield from self.lines_of_protection()
        yield f"leader: {self.leader or 'none'}"
        for replica in self.replicas:
            yield f"replica: {replica.name} {replica.version}{'' if replica.alive else ' (no sign of life)'}"
        yield from self.lines_of_trouble()

    def lines_of_protection(self) -> Iterator[str]:
        yield f"{'guarded' if self.guarded else 'NOT guarded'}: a bad project in a dry run was {self.probe}"
        yield f"certificate: {self.certificate}"

    def lines_of_trouble(self) -> Iterator[str]:
        yield from (f"problem: {line}" for line in self.problems)
        yield from (f"weaker: {line}" for line in self.weaknesses)


async def status(store: Store, registration: Registration, *, now: datetime) -> Status:
    found = Status()
    leaf = await find_leaf(store, registration)
    found.problems += [line async for line in registration_problems(store, registration)]
    found.problems += [line async for line in bundle_problems(store, leaf, now=now)]
    found.certificate = await _certificate(store, leaf, now=now)
    await find_replicas(store, registration, found, now=now)
    await probe(store, registration, found)
    found.weaknesses += [line async for line in _weaknesses(store, registration)]
    return found


async def find_leaf(store: Store, registration: Registration) -> KeyPair | None:
    secret = await queries.find(store, SECRETS, name=f"{SECRET_NAME}-tls", namespace=registration.home)
    data = decoded_data(secret)
    return _leaf(data)


async def _certificate(store: Store, leaf: KeyPair | None, *, now: datetime) -> str:
    if leaf is None:
        return f"none in Secret {SECRET_NAME}-tls; if it comes from files, the dry run alone shows whether it is trusted"
    ends = leaf.leaf.not_valid_after_utc
    validity = f"{'expired at' if now >= ends else 'valid until'} {ends:%Y-%m-%dT%H:%M:%SZ}"
    bundles = [
        bundle
        for resource, _ in CONFIGURATIONS
        if (held := await queries.find(store, resource, name=NAME)) is not None
        for bundle in bundles_of(held)
    ]
    if not bundles:
        return f"{validity}; nothing is registered that could trust it"
    agrees = all(verifies(bundle, leaf.leaf, now=now) for bundle in bundles)
    return f"{validity}; the caBundle {'agrees' if agrees else 'DOES NOT agree'}"


async def registration_problems(store: Store, registration: Registration) -> AsyncIterator[str]:
    """What is registered otherwise than the table says."""
    for resource, made in CONFIGURATIONS:
        held = await queries.find(store, resource, name=NAME)
        if held is None:
            yield f"{resource.kind} {NAME} is not registered: `tiphys webhook register`"
            continue
        wanted = {entry["name"]: entry for entry in made(registration)["webhooks"]}
        for entry in held.get("webhooks") or ():
            expected = wanted.pop(entry["name"], None)
            if expected is not None and expected["failurePolicy"] != entry.get("failurePolicy"):
                yield f"{entry['name']} has failurePolicy {entry.get('failurePolicy')}, not {expected['failurePolicy']}"
        for name in wanted:
            yield f"{name} is missing in {resource.kind} {NAME}: `tiphys webhook register`"


async def bundle_problems(store: Store, leaf: KeyPair | None, *, now: datetime) -> AsyncIterator[str]:
    """Entries whose calls fail because the API server does not trust us."""
    for resource, _ in CONFIGURATIONS:
        held = await queries.find(store, resource, name=NAME)
        for entry, bundle in zip((held or {}).get("webhooks") or (), bundles_of(held or {}), strict=True):
            if not bundle:
                yield f"{entry['name']} has no caBundle: its calls fail"
            elif leaf is not None and not verifies(bundle, leaf.leaf, now=now):
                yield f"{entry['name']}: the caBundle does not verify the certificate in Secret {SECRET_NAME}-tls"


async def find_replicas(store: Store, registration: Registration, found: Status, *, now: datetime) -> None:
    page = await store.list(LEASES, namespace=registration.home)
    for lease in page.items:
        name, spec = lease["metadata"]["name"], lease.get("spec") or {}
        holder = reading.text(spec, "holderIdentity")
        if name == LEADER_LEASE:
            found.leader = holder if is_fresh(spec, now=now) else ""
            if UNREGISTERED in reading.mapping(lease, "metadata", "annotations"):
                found.weaknesses.append(
                    "unregistered: nobody repairs the caBundle until `tiphys webhook register`"
                )
        elif name.startswith(REPLICA_LEASE_PREFIX):
            replica, _, version = holder.partition(" ")
            found.replicas.append(Replica(replica, version, alive=is_fresh(spec, now=now)))
    alive = [replica for replica in found.replicas if replica.alive]
    if not alive:
        found.problems.append("no replica has shown a sign of life: is the Deployment running?")
    elif len(alive) == 1:
        found.weaknesses.append("one replica: writes that fail closed stop while it restarts")
    if len({replica.version for replica in alive}) > 1:
        found.weaknesses.append("replicas of different versions: wait for the roll-out to end")
    if alive and not found.leader:
        found.problems.append("no leader: certificates are not renewed")


def is_fresh(spec: Object, *, now: datetime) -> bool:
    try:
        renewed = datetime.fromisoformat(reading.text(spec, "renewTime"))
    except ValueError:
        return False
    lasts = timedelta(seconds=int(spec.get("leaseDurationSeconds") or 0) + 5)  # clocks differ a little
    return bool(reading.text(spec, "holderIdentity")) and now - renewed < lasts


async def probe(store: Store, registration: Registration, found: Status) -> None:
    try:
        await store.create(APP_PROJECTS, BAD_PROJECT, namespace=registration.argocd_namespace, dry_run=True)
    except ForbiddenError as error:
        found.guarded = REFUSAL in str(error)
        found.probe = "refused by Tiphys" if found.guarded else f"refused by somebody else: {error}"
    except ApiError as error:
        found.probe = f"not judged: {error}"
        found.problems.append(f"the dry run of a bad project failed: {error}")
    else:
        found.probe = "accepted"
        found.problems.append(
            "a bad project was accepted in a dry run: the API server does not ask Tiphys, or it only warns"
        )


async def _weaknesses(store: Store, registration: Registration) -> AsyncIterator[str]:
    problems: list[str] = []
    configuration = await find_configuration(store, home=registration.home, broken=noting(problems))
    if problems:
        yield f"ConfigMap {registration.home}/{names.TIPHYS_CONFIG_MAP} is broken: {problems[0]}"
    if configuration.enforcement is Enforcement.WARN:
        yield "enforcement is warn: nothing is refused"
    for line in shared_accounts(configuration):
        yield line
    parameters = await queries.find(
        store, CONFIG_MAPS, name=names.ARGOCD_CMD_PARAMS_CM, namespace=registration.argocd_namespace
    )
    settings = read_settings(None, configuration=configuration, command_parameters=parameters)
    if weak := await open_namespaces(store, registration, settings.application_namespaces or ()):
        shown = ", ".join(weak[:NAMESPACES_SHOWN])
        more = f" and {len(weak) - NAMESPACES_SHOWN} others" if len(weak) > NAMESPACES_SHOWN else ""
        yield f"Argo CD takes Applications in {shown}{more}, where Tiphys fails open: --application-namespace"


async def open_namespaces(store: Store, registration: Registration, enabled: Sequence[str]) -> list[str]:
    """Those in which Argo CD takes Applications and no entry fails closed: agents' namespaces have one by their label."""
    never = {registration.home, *SYSTEM_NAMESPACES}
    closed = {registration.argocd_namespace, *registration.application_namespaces, *never}
    if not enabled:
        return []
    return sorted(
        [
            name
            async for page in queries.pages(store, NAMESPACES, metadata_only=True)
            for found in page
            if (name := reading.text(found, "metadata", "name")) not in closed
            and names.TIPHYS_AGENT not in reading.mapping(found, "metadata", "labels")
            and in_list(enabled, name) is not Verdict.NO
        ]
    )


def shared_accounts(configuration: Configuration) -> Iterator[str]:
    """A sidecar that uses its pod's account cannot be told from Argo CD."""
    agents = configuration.agents
    shared = (*agents.principal_identities, *agents.agent_identities, *agents.replica_identities)
    for account in names.ARGOCD_ACCOUNTS:
        user = f"{names.SERVICE_ACCOUNT_PREFIX}{configuration.argocd.namespace}:{account}"
        if matches(shared, user):
            yield f"{account} counts as a sidecar too: what Argo CD writes to mirrors cannot be told from it"


def _leaf(data: dict[str, bytes]) -> KeyPair | None:
    try:
        return KeyPair.checked(certificate=data.get(CERTIFICATE, b""), key=data.get(KEY, b""), origin="")
    except CertificateError:
        return None


async def bundle_to_register(store: Store, registration: Registration, *, now: datetime) -> bytes:
    """The authority's bundle, once a replica serves a certificate that it verifies."""
    secret = await queries.find(store, SECRETS, name=f"{SECRET_NAME}-tls", namespace=registration.home)
    if secret is None:
        raise SurroundingsError(
            f"Secret {registration.home}/{SECRET_NAME}-tls does not exist: no webhook has started yet"
            f" (`kubectl --namespace {registration.home} get pods`); with other certificates name --ca-file"
        )
    data = decoded_data(secret)
    leaf = _leaf(data)
    bundle = data.get(BUNDLE, b"")
    if leaf is None or not verifies(bundle, leaf.leaf, now=now):
        raise SurroundingsError(
            f"Secret {registration.home}/{SECRET_NAME}-tls: {BUNDLE} does not verify {CERTIFICATE}"
        )
    found = Status()
    await find_replicas(store, registration, found, now=now)
    if not any(replica.alive for replica in found.replicas):
        raise SurroundingsError(
            "no replica of the webhook has shown a sign of life: registering now would block writes to Argo CD's kinds"
        )
    return bundle


def check_url(url: str, *, bundle: bytes) -> None:
    """A handshake with the server itself, trusting the bundle alone."""
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname:
        raise SurroundingsError(f"{url}: must be an https URL")
    context = ssl.create_default_context(cadata=bundle.decode())
    try:
        address = (parts.hostname, parts.port or 443)
        with socket.create_connection(address, timeout=PROBE_SECONDS) as plain:
            context.wrap_socket(plain, server_hostname=parts.hostname).close()
    except (OSError, ssl.SSLError) as error:
        raise SurroundingsError(f"{url}: no answer that the bundle verifies: {error}") from error
