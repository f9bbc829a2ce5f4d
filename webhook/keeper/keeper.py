"""The keeper's work beside its pages: certificates, leadership, registration, what the workers tell.

Runs in an event loop of its own; the pages read its state from other threads, so state is replaced whole.
"""

import asyncio
import contextlib
import hashlib
import os
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from certs.authority import LeafSubject
from certs.folder import BUNDLE, CERTIFICATE, KEY, publish
from certs.key_pair import Material, split_bundle
from certs.rotation import Rotation, RotationStep
from certs.sources import CertificateSource, LeafFolder, LeafSecret, secret_cache
from kube.cache import Cache
from kube.errors import ApiError
from kube.leases import Election, heartbeat
from kube.store import Object, Store
from tiphys import __version__, logs
from tiphys.errors import TiphysError
from webhook.admission.cluster_state import Scope
from webhook.keeper.kube_events import EventRecorder
from webhook.keeper.worker_reports import DATAGRAM_LIMIT, SOCKET, Reports
from webhook.registration.register import LEADER_LEASE, REPLICA_LEASE_PREFIX, SECRET_NAME, Upkeep
from webhook.tracking.installation_id import ensure_installation_id

STOPPING = "stopping"
"""A file in the shared folder: from now on this replica is not ready."""

PROBE_SECONDS = 5.0
"""Between two looks at our own port, and how long one may take."""

PROBE_FAILURES = 2
"""In a row, before this replica is not ready: one handshake may meet a worker that is about to be replaced."""

WORKER_SILENCE_SECONDS = 30.0
ERROR_PAUSE_SECONDS = 2.0
INSTALLATION_PAUSE_SECONDS = 20.0
"""Nothing waits for the installation id."""

log = logs.get_logger()


class CertificateOrigin(StrEnum):
    OWN = "own"
    FILES = "files"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperOptions:
    """What the keeper is told at its start."""

    scope: Scope
    folder: Path
    """Shared with the workers, memory-backed: holds the leaf, the metrics and the socket."""
    identity: str
    review_port: int
    certificates: CertificateOrigin = CertificateOrigin.OWN
    certificate_folder: Path | None = None
    dns_names: tuple[str, ...] = ()
    denial_events: bool = False
    """Whether denials become Kubernetes events."""

    @property
    def leaf_folder(self) -> Path:
        return self.folder / "leaf"


@dataclass(slots=True)
class KeeperStatus:
    """For the pages. `troubles` by what is in trouble."""

    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    leader: str = ""
    leads: bool = False
    expiry: datetime | None = None
    fingerprint: str = ""
    answers: bool = False
    """Whether our own port answered with the current certificate a moment ago."""
    troubles: dict[str, str] = field(default_factory=dict)


class Keeper:
    def __init__(self, store: Store, options: KeeperOptions) -> None:
        self._store = store
        self._options = options
        self.state = KeeperStatus()
        self.events = EventRecorder(store, home=options.scope.home, denials=options.denial_events)
        self.reports = Reports(denied=self.events.denied)
        self._look_again = asyncio.Event()
        self._watches: dict[str, Cache[Object]] = {}
        self._authority: Cache[Object] | None = None
        self._source = self._leaf_source()
        self._file_bundles: tuple[bytes, ...] = (b"",)
        self._upkeep = Upkeep(store, home=options.scope.home, written=self._look_again.set)
        self._election = Election(
            store, name=LEADER_LEASE, namespace=options.scope.home, identity=options.identity
        )

    async def run(self) -> None:
        """Until cancelled; an error of our own ends it, errors of the API server are waited out."""
        self._options.leaf_folder.mkdir(parents=True, exist_ok=True)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._receive_reports(), name="reports of workers")
            group.create_task(self.events.run(), name="events")
            group.create_task(self._election.run(self._lead), name="election")
            group.create_task(self._beat(), name="replica lease")
            group.create_task(self._probe(), name="probe of our own port")
            group.create_task(self._source.follow(self._serve, refuse=self._refuse), name="leaf")
            if self._authority is not None:
                group.create_task(self._authority.run(), name="watch of the authority's Secret")

    @property
    def reasons_not_ready(self) -> list[str]:
        """Empty when a review sent now would be answered as it should."""
        state, reasons = self.state, []
        if (self._options.folder / STOPPING).exists():
            reasons.append("stopping")
        if not state.fingerprint:
            reasons.append("no certificate yet")
        if not state.answers:
            reasons.append("the review port does not answer with the current certificate")
        now = datetime.now(UTC)
        if state.expiry is not None and now >= state.expiry:
            reasons.append(f"the certificate expired at {state.expiry:%Y-%m-%dT%H:%M:%SZ}")
        alive = [
            worker
            for worker in list(self.reports.workers.values())
            if (now - worker.heard).total_seconds() < WORKER_SILENCE_SECONDS
        ]
        if not any(worker.caches for worker in alive):
            reasons.append("no worker has reported its caches")
        reasons += sorted(
            {
                f"the cache of {name} has no first list: {cache['error'] or 'wait'}"
                for worker in alive
                for name, cache in worker.caches.items()
                if not cache["synced"]
            }
        )
        return reasons

    # Leading

    async def _lead(self) -> None:
        log.info("leading", **{logs.NAME: self._options.identity})
        async with asyncio.TaskGroup() as group:
            group.create_task(self._upkeep.run(), name="caBundle")
            group.create_task(self._ensure_installation_id(), name="installation id")
            if self._options.certificates is CertificateOrigin.OWN:
                group.create_task(self._rotate(), name="rotation")

    async def _rotate(self) -> None:
        options = self._options
        rotation = Rotation(
            self._store,
            namespace=options.scope.home,
            name=SECRET_NAME,
            subject=LeafSubject(SECRET_NAME, dns_names=options.dns_names),
            published=self._upkeep.published,
        )
        while True:
            try:
                outcome = await rotation.step()
            except ApiError as error:
                self._trouble("certificates", f"cannot be renewed: {error}")
                await asyncio.sleep(ERROR_PAUSE_SECONDS)
                continue
            self._trouble("certificates", "")
            self._rotated(outcome)
            pause = max((outcome.again - datetime.now(UTC)).total_seconds(), 0)
            # Not wait_for: before Python 3.12 it can swallow a cancellation that comes with the event.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._look_again.wait()
            self._look_again.clear()

    def _rotated(self, outcome: RotationStep) -> None:
        self._upkeep.want(outcome.bundle)
        for step in outcome.did:
            log.info(step)

    async def _ensure_installation_id(self) -> None:
        while True:
            try:
                told = await ensure_installation_id(self._store, self._options.scope)
            except ApiError as error:
                self._trouble("installation id", str(error))
                await asyncio.sleep(INSTALLATION_PAUSE_SECONDS)
                continue
            self._trouble("installation id", "")
            if told:
                log.info(told)
            return

    # The leaf

    def _leaf_source(self) -> CertificateSource:
        options = self._options
        if options.certificates is CertificateOrigin.FILES:
            assert options.certificate_folder is not None
            return LeafFolder(options.certificate_folder)
        home, authority, leaf = options.scope.home, f"{SECRET_NAME}-ca", f"{SECRET_NAME}-tls"
        source = LeafSecret(self._store, namespace=home, name=leaf)
        self._authority = secret_cache(self._store, namespace=home, name=authority, projection=_only_version)
        self._heed(self._authority, name=authority)
        self._heed(source.cache, name=leaf)
        return source

    def _heed(self, cache: Cache[Object], *, name: str) -> None:
        """A change of either Secret, also its disappearance, is for rotation to look at."""
        cache.subscribe(lambda _old, _new: self._look_again.set())
        self._watches[f"watch of Secret {name}"] = cache

    def _refuse(self, error: TiphysError) -> None:
        kept = "the last good one stays" if self.state.fingerprint else "nothing is served"
        self._trouble("certificate", f"{error}; {kept}")

    def _with_previous(self, bundle: bytes) -> bytes:
        """Other replicas see new files up to a minute later: until the next change their authority stays."""
        if bundle != self._file_bundles[-1]:
            self._file_bundles = (self._file_bundles[-1], bundle)
        joined = b"".join(
            dict.fromkeys(pem for each in reversed(self._file_bundles) for pem in split_bundle(each))
        )
        return joined or bundle

    async def _serve(self, material: Material) -> None:
        pair, bundle = material.pair, material.roots
        assert pair is not None, "a leaf source has a leaf"
        self._trouble("certificate", "")
        if pair.fingerprint != self.state.fingerprint:
            publish(self._options.leaf_folder, {CERTIFICATE: pair.certificate, KEY: pair.key, BUNDLE: bundle})
        self.state.fingerprint = pair.fingerprint
        self.state.expiry = pair.leaf.not_valid_after_utc
        if bundle and self._options.certificates is CertificateOrigin.FILES:
            self._upkeep.want(self._with_previous(bundle))

    # Looking after ourselves

    async def _beat(self) -> None:
        """A Lease of our own, by which `tiphys webhook status` knows the replicas and their versions."""
        await heartbeat(
            self._store,
            name=f"{REPLICA_LEASE_PREFIX}{self._options.identity}",
            namespace=self._options.scope.home,
            identity=f"{self._options.identity} {__version__}",
            told=lambda error: self._trouble("replica lease", error),
        )

    async def _probe(self) -> None:
        """A handshake with our own port: the one thing that every failure of serving has in common."""
        failures = PROBE_FAILURES
        while True:
            self._look_around()
            served = await _served_fingerprint(self._options.review_port)
            failures = 0 if served and served == self.state.fingerprint else failures + 1
            self.state.answers = failures < PROBE_FAILURES
            await asyncio.sleep(PROBE_SECONDS / 10 if failures else PROBE_SECONDS)

    def _look_around(self) -> None:
        """What waits for an API server says why; a right that is missing is found here."""
        self.state.leader, self.state.leads = self._election.leader, self._election.is_leading
        self._trouble("election", self._election.error)
        for what, error in self._upkeep.errors.items():
            self._trouble(what, error if self.state.leads else "")
        for what, cache in self._watches.items():
            self._trouble(what, cache.health.error)

    async def _receive_reports(self) -> None:
        path = self._options.folder / SOCKET
        path.unlink(missing_ok=True)
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
            receiver.setblocking(False)  # noqa: FBT003 - the standard library's signature
            receiver.bind(str(path))
            path.chmod(0o600)
            async for datagram in _datagrams(loop, receiver):
                self.reports.take(datagram)

    def _trouble(self, what: str, text: str) -> None:
        if self.state.troubles.get(what, "") != text:
            self.state.troubles = {**self.state.troubles, what: text}
            if text:
                log.error("trouble", **{logs.NAME: what, logs.REASON: text})


async def _datagrams(loop: asyncio.AbstractEventLoop, receiver: socket.socket) -> AsyncIterator[bytes]:
    while True:
        yield await loop.sock_recv(receiver, DATAGRAM_LIMIT)


async def _served_fingerprint(port: int) -> str:
    """Of the certificate that the port answers with; empty where it does not answer."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the fingerprint is compared instead
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            writer.close()
            await writer.wait_closed()
    except (OSError, TimeoutError, ssl.SSLError):
        return ""
    return hashlib.sha256(certificate).hexdigest().upper()


def _only_version(body: Object) -> Object:
    """The authority's Secret is watched for its disappearance; its key is not held."""
    metadata = body["metadata"]
    return {"metadata": {key: metadata[key] for key in ("name", "namespace", "resourceVersion")}}


def replica_identity() -> str:
    """The pod's name, told apart from an earlier life of a pod of the same name."""
    return f"{socket.gethostname().lower()}-{os.getpid()}"
