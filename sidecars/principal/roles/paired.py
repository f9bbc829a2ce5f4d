"""A principal that is one of a pair: its controller, its replication log, its copy of the other, joined together."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from secrets import token_hex
from typing import Any

from argocd import names
from certs.key_pair import Material, fingerprint, trusted
from kube.errors import ApiError
from kube.events import KubeEvent, write_event
from kube.store import Store
from sidecars.delivery.timing import Timing
from sidecars.principal.roles.active import ActivePrincipal
from sidecars.principal.roles.routing import HubRouting
from sidecars.principal.state import SYNC_SECONDS, HubState
from sidecars.process.serving_gate import ServingGate
from sidecars.replication.access import ReplicationAccess
from sidecars.replication.control.admin import AdminServer
from sidecars.replication.control.admin_access import AdminAccess
from sidecars.replication.control.controller import HaController
from sidecars.replication.control.fence import Fence
from sidecars.replication.control.handover import TAKE_OVER, HandoverService, HandoverToken
from sidecars.replication.control.parts import PrincipalFacts
from sidecars.replication.control.role import PairRole
from sidecars.replication.control.safeguards import PairSafeguards
from sidecars.replication.control.settings import HaSettings
from sidecars.replication.control.status import report
from sidecars.replication.control.switchover import TAKE_OVER_SECONDS, Switchover, SwitchoverParts
from sidecars.replication.kinds import (
    APPLICATION,
    CLUSTER,
    GPG_KEYS,
    PROJECT,
    REPOSITORY,
    ReplicationScope,
)
from sidecars.replication.objects import ReplicatedObjects, own_caches
from sidecars.replication.peer import PeerAnswer, PeerLink, PeerUnreachableError
from sidecars.replication.primary.go_replica import GoReplicas
from sidecars.replication.primary.service import ReplicationService
from sidecars.replication.primary.source import ReplicationSource
from sidecars.replication.record import RecordStore
from sidecars.replication.standby.apply import ApplySettings
from sidecars.replication.standby.connection import GrpcConnector, PeerConnector
from sidecars.replication.standby.follower import Follower
from sidecars.replication.standby.go_primary import GoConnector, health_page
from sidecars.wire.auth.methods import CallCredentials, IdentityError, Method
from sidecars.wire.auth.trust import Trust
from tiphys import logs
from tiphys.errors import SurroundingsError

COMPONENT = "tiphys-principal"

log = logs.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSurroundings:
    """What the process has already."""

    store: Store
    hub_state: HubState
    principal: str
    gate: ServingGate
    timing: Timing
    new_id: Callable[[], str]
    material: Material
    trust: Trust
    method: Method
    handed_over: Callable[[], bool]
    safeguards: PairSafeguards = field(default_factory=PairSafeguards)


class PairedPrincipal:
    """Make it before the listener, whose further `services` it has; `attach` what serves agents, then `run`."""

    def __init__(self, settings: HaSettings, there: PairSurroundings) -> None:
        settings.check()
        self._there = there
        hub, timing, namespace = there.hub_state, there.timing, there.hub_state.settings.namespace
        self._own_caches = own_caches(there.store, namespace=namespace, timing=timing)
        objects = ReplicatedObjects(
            {
                APPLICATION: hub.applications,
                PROJECT: hub.projects,
                REPOSITORY: hub.repositories,
                GPG_KEYS: hub.gpg_keys,
                CLUSTER: hub.clusters,
                **self._own_caches,
            },
            scope=ReplicationScope(
                namespace=namespace,
                allowed_namespaces=hub.settings.allowed_namespaces,
                mapped_by=hub.settings.mapped_by,
            ),
        )
        self._objects = objects
        role = PairRole(
            facts=PrincipalFacts(
                principal=there.principal,
                namespace=namespace,
                mapping=hub.settings.mapped_by.value,
                allowed_namespaces=hub.settings.allowed_namespaces,
                authorities=_authorities(there.material, timing),
                peer_address=settings.peer_address,
            ),
            records=RecordStore(
                there.store,
                namespace=namespace,
                compares_and_sets=there.safeguards.compares_and_sets,
            ),
            gate=there.gate,
            timing=timing,
            new_id=there.new_id,
            announce=self._announce,
        )
        self._peer_health = health_page(settings.peer_health_url)
        self._peer = (
            PeerLink(settings.peer_address, there.material, mine=lambda: role.handshake)
            if settings.peer_address
            else None
        )
        self.controller = HaController(
            role,
            settings=settings,
            fence=Fence(there.store, namespace=namespace, enabled=there.safeguards.proves_fence),
            ask=None if self._peer is None else self._ask_peer,
            handed_over=there.handed_over,
            safeguards=there.safeguards,
        )
        self._source = ReplicationSource(objects, timing=timing)
        self._follower = Follower(
            there.store,
            objects,
            controller=self.controller,
            connect=PeerConnector(
                self._ask_peer,
                ours=GrpcConnector(self._channel, controller=self.controller),
                go=GoConnector(self._channel, objects=objects, health=self._peer_health),
            ),
            timing=timing,
            applying=ApplySettings(may_create_namespace=hub.settings.may_create),
        )
        access = ReplicationAccess(
            method=there.method,
            trust=there.trust,
            allowed=settings.allowed_clients,
            is_agent=lambda name: bool(hub.clusters.find("agent", name)),
        )
        go_replicas = GoReplicas(
            objects,
            store=there.store,
            current_log=self._source.current_log,
            routing=HubRouting(hub),
            principal_uid=there.principal,
            now=timing.now,
            holding=lambda: role.record is not None and role.record.holding,
        )
        service = ReplicationService(
            self._source,
            controller=self.controller,
            access=access,
            monotonic=timing.monotonic,
            go_replicas=go_replicas,
            report=lambda: report(self.controller),
        )
        handover = HandoverService(
            check=access.check,
            mine=lambda: self.controller.handshake,
            is_peer=self.controller.is_peer,
            take_over=self.controller.take_over,
            refused=lambda who, why: self.controller.note_refusal(who=who, why=why),
        )
        self.services: list[Any] = [*service.handlers(), *handover.handlers()]
        self.switchover = Switchover(
            self.controller,
            SwitchoverParts(settled=self._settled, give=self._give, new_nonce=lambda: token_hex(16)),
        )
        self.admin: AdminServer | None = None
        if settings.admin_port is not None:
            self.admin = AdminServer(
                self.controller,
                switchover=self.switchover,
                port=settings.admin_port,
                access=AdminAccess(settings.admin_auth, trust=there.trust) if settings.admin_auth else None,
                material=there.material,
                go_replicas=lambda: len(go_replicas),
            )

    def attach(self, active: ActivePrincipal) -> None:
        self.controller.attach(active=active, source=self._source, replica=self._follower)

    async def run(self) -> None:
        """Once the listener answers: the peer asks back."""
        self.controller.peer_identity = await self._peer_identity()
        try:
            async with asyncio.TaskGroup() as group:
                for cache in self._own_caches.values():
                    group.create_task(cache.run(), name="cache")
                if self.admin is not None:
                    group.create_task(self.admin.run(), name="admin")
                await self._objects.synced()
                group.create_task(self._follower.ended(), name="follower")
                group.create_task(self.controller.run(), name="controller")
        finally:
            await self._follower.stop()
            await self._source.stop()
            if self._peer is not None:
                await self._peer.close()

    async def _peer_identity(self) -> str:
        """The only one on the list besides our own; of several the list does not say which is the peer's."""
        shown = self._there.material.pair
        try:
            own = await self._there.method.identify(
                CallCredentials(certificate=None if shown is None else shown.leaf)
            )
        except IdentityError:
            own = ""  # the list cannot have it
        others = self.controller.settings.allowed_clients - {own}
        return next(iter(others)) if len(others) == 1 else ""

    def measure(self) -> None:
        """For a scrape."""
        self._source.measure()
        self._follower.measure()

    def swap_material(self, material: Material) -> None:
        role = self.controller.role
        role.facts = replace(role.facts, authorities=_authorities(material, self._there.timing))
        if self._peer is not None:
            self._peer.swap(material)
        if self.admin is not None:
            self.admin.swap(material)

    async def _ask_peer(self) -> PeerAnswer:
        answer = await self._link().ask()
        if answer.handshake is None:
            with suppress(SurroundingsError):  # then nobody knows it, and nothing is decided by it
                answer = replace(answer, plain_state=await self._peer_health())
        return answer

    async def _settled(self) -> None:
        """The caches know all that the API server has: nobody writes any more when this is asked."""
        async with asyncio.timeout(SYNC_SECONDS):
            await self._objects.caught_up()

    async def _give(self, token: HandoverToken) -> int:
        raw, _ = await self._link().call(TAKE_OVER, token.encoded(), seconds=TAKE_OVER_SECONDS)
        try:
            return int(json.loads(raw)["epoch"])
        except (ValueError, TypeError, KeyError) as error:
            raise PeerUnreachableError("the peer answered the token with something else") from error

    def _channel(self) -> Any:
        return self._link().channel()

    def _link(self) -> PeerLink:
        if self._peer is None:
            raise PeerUnreachableError("no peer is named: --ha-peer-address")
        return self._peer

    async def _announce(self, reason: str, message: str) -> None:
        """That nobody can write it is no reason to stay what one was."""
        event = KubeEvent(
            reason=reason,
            message=message,
            kind="ConfigMap",
            namespace=self._there.hub_state.settings.namespace,
            name=names.HA_RECORD,
            api_version="v1",
            is_warning=False,
        )
        try:
            await write_event(self._there.store, event, component=COMPONENT, now=self._there.timing.now())
        except ApiError as error:
            log.warning("a change of role is not in the events", **{logs.ERROR: str(error)})


def _authorities(material: Material, timing: Timing) -> tuple[str, ...]:
    found = trusted(material.roots or b"", now=timing.now())
    return tuple(sorted(fingerprint(certificate) for certificate in found))
