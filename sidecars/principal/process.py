"""A principal as a process: elected by a Lease, listening with TLS, following its certificates and blocklist."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from certs import sources
from certs.folder import changes
from certs.key_pair import Material
from certs.sources import LoadedSource
from kube.guarded import GuardedStore
from kube.store import Store
from sidecars.delivery.timing import Budget
from sidecars.metrics.per_peer import principal_figures
from sidecars.mirroring.link import Link, Runtime
from sidecars.principal import agent_status
from sidecars.principal.fleet_page.page import FleetPage
from sidecars.principal.fleet_page.regions import RegionFacts, regions_of
from sidecars.principal.metrics import PrincipalMetrics
from sidecars.principal.principal import Principal, identity
from sidecars.principal.proxies.agent_clusters import AgentClusters
from sidecars.principal.proxies.redis_proxy import PrincipalRedis
from sidecars.principal.proxies.resource_port import ResourcePort, ResourcePortOptions
from sidecars.principal.registration import RegistrationGate
from sidecars.principal.roles.active import ActivePrincipal
from sidecars.principal.roles.paired import PairedPrincipal, PairSurroundings
from sidecars.principal.settings import QUEUE_BYTES, PrincipalSettings
from sidecars.principal.state import HubState
from sidecars.principal.watched_blocklist import WatchedBlocklist
from sidecars.process.leadership import Leadership, ReplicaOptions
from sidecars.process.page_access import PageAccess
from sidecars.process.serving_gate import OPEN, STARTING, STOPPING, ServingGate
from sidecars.proxies.logs.proxy import LogProxy
from sidecars.proxies.redis.listener import RedisProxyOptions
from sidecars.proxies.requests import Requests
from sidecars.proxies.terminal.proxy import TerminalProxy
from sidecars.replication.control.settings import HaSettings
from sidecars.replication.states import HaState
from sidecars.wire.auth.authenticator import Gate, Rules
from sidecars.wire.auth.blocklist import Blocklist
from sidecars.wire.auth.methods import Method
from sidecars.wire.auth.passwords import PasswordMethod, read_accounts
from sidecars.wire.auth.tokens import Tokens
from sidecars.wire.auth.trust import Trust
from sidecars.wire.data_streams import LOGS, TERMINAL
from sidecars.wire.events import fresh_id
from sidecars.wire.server import listener
from sidecars.wire.server.server import Server
from sidecars.wire.server.sessions import AuthenticatedAgent, Cut
from sidecars.wire.streams import DEFAULT_MAX_MESSAGE_BYTES, EventStream
from tiphys import logs
from tiphys.errors import CallError, TiphysError
from tiphys.http_server import HttpPage

HA_STATE_HEADER = "X-HA-State"
VERSION = "0.9.0"
"""argocd-agent's, whose protocol this is: a Go agent lets its version be decided by this."""

log = logs.get_logger()


def runtime(queue_bytes: int) -> Runtime:
    return Runtime(budget=Budget(limit=queue_bytes), arrived=Budget(limit=queue_bytes))


@dataclass(frozen=True, slots=True, kw_only=True)
class PrincipalOptions(ReplicaOptions):
    settings: PrincipalSettings
    method: Method
    tokens: Tokens
    source: LoadedSource | None
    """None: plaintext, for a mesh that does the rest."""
    host: str = ""
    port: int = 8443
    require_client_certificates: bool = True
    match_common_name: bool = False
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    keepalive_min_seconds: float = 0.0
    health_port: int | None = 8003
    metrics_port: int | None = 8000
    pages_port: int | None = 8004
    redis: RedisProxyOptions | None = None
    resources: ResourcePortOptions | None = None
    """None: argocd-server has the control plane's own Redis alone, or nobody asks for live objects."""
    passwords: Path | None = None
    """The file of a method with passwords, which is followed."""
    runtime: Runtime = field(default_factory=lambda: runtime(QUEUE_BYTES))
    ha: HaSettings | None = None
    """None: not one of a pair."""


class PrincipalProcess:
    """`run` until cancelled. `port` is known once `listening` is set."""

    def __init__(self, store: Store, serving: PrincipalOptions) -> None:
        self._store = store
        self._serving = serving
        self.server: Server | None = None
        self.gate = ServingGate(STARTING if serving.ha is None else HaState.RECOVERING.value)
        self.pair: PairedPrincipal | None = None
        self._active: ActivePrincipal | None = None
        self._app_info: Callable[[], bytes] = bytes  # none yet
        self.redis: PrincipalRedis | None = None
        self.listening = asyncio.Event()
        self.port = 0
        self._reading = ""
        """What has to be known before anybody is let in."""
        page = FleetPage(
            store,
            lambda: self.principal if self.listening.is_set() else None,
            waits=self._waits,
            regions=self._regions,
        )
        self._leadership = Leadership(
            store,
            serving,
            role="principal",
            namespace=serving.settings.namespace,
            probes={"/healthz": self._alive, "/readyz": self._ready},
            figures=self._figures,
            pages={agent_status.PATH: self._agents},
            routes=page.routes,
            access=PageAccess(store, namespace=serving.settings.namespace),
        )
        self.health, self.metrics = self._leadership.health, self._leadership.metrics
        self.pages = self._leadership.pages
        self._requests = Requests(self._link_of)
        self._log_proxy = LogProxy(self._requests)
        self._terminal_proxy = TerminalProxy(self._requests)
        self.resources: ResourcePort | None = None
        if serving.resources is not None:
            self.resources = ResourcePort(
                serving.resources,
                requests=self._requests,
                tokens=serving.tokens,
                gate=self.gate,
                subresources={"log": self._log_proxy, "exec": self._terminal_proxy},
            )

    async def run(self) -> None:
        await self._leadership.run(self._work)

    async def _work(self) -> None:
        serving = self._serving
        namespace = serving.settings.namespace
        store: Store = (
            self._store if serving.ha is None else GuardedStore(self._store, self._leadership.may_write)
        )
        uid = await identity(store, namespace=namespace, new_id=fresh_id)
        hub_state = HubState(store, settings=serving.settings, timing=serving.runtime.timing)
        material = (
            await sources.first(serving.source, certificate="principal")
            if serving.source is not None
            else None
        )
        reserved = serving.ha.allowed_clients if serving.ha is not None else frozenset()
        self._requests.arrivals = [] if self.resources is None else [self.resources.came]
        clusters = AgentClusters(
            store,
            hub_state,
            tokens=serving.tokens,
            gate=self.gate,
            requests=self._requests,
            principal=lambda: self.principal,
            resources=self.resources,
            roots=b"" if material is None else material.roots,
            redis=serving.redis,
        )
        gate = RegistrationGate(
            store, hub_state, serving=self.gate, reserved=reserved, config=clusters.config
        )
        rules = self._rules(gate, material)
        pair = self.pair = self._paired(store, hub_state, uid, rules, material)
        server = self.server = Server(
            self._listening(material),
            rules,
            self._serve_stream,
            services=() if pair is None else pair.services,
            serve_data={LOGS: self._log_proxy.carry, TERMINAL: self._terminal_proxy.carry},
        )
        if serving.redis is not None:
            self.redis = PrincipalRedis(
                serving.redis, hub_state, gate=self.gate, trust=rules.trust, requests=self._requests
            )
            self._requests.arrivals.append(self.redis.came)
        active = self._active = ActivePrincipal(
            partial(self._principal, store, hub_state, uid),
            sessions=server.sessions,
            announce=lambda epoch, name: server.announce(epoch=epoch, pair=name),
        )
        self._app_info = PrincipalMetrics(hub_state).begin()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(hub_state.run(), name="caches")
                group.create_task(active.run(), name="principal")
                await self._begin_blocklist(group, server)
                if self.resources is not None:
                    group.create_task(self.resources.run(), name="resource proxy")
                await hub_state.synced()
                if pair is None:
                    await active.start()
                    self.gate.state = OPEN
                self.port = await server.start()
                self.listening.set()
                log.info("listening for agents", **{logs.COUNT: self.port})
                if self.redis is not None:
                    group.create_task(self.redis.run(), name="Redis proxy")
                group.create_task(clusters.run(), name="clusters")
                if pair is not None:
                    pair.attach(active)
                    group.create_task(pair.run(), name="pair")
                if serving.passwords is not None:
                    group.create_task(self._follow_passwords(serving.passwords, server), name="passwords")
                if serving.source is not None and material is not None:
                    following = sources.follow(
                        serving.source, self._swap_material, held=material, certificate="principal"
                    )
                    group.create_task(following, name="certificates")
        finally:
            self.listening.clear()
            self.gate.state = STOPPING if pair is None else HaState.RECOVERING.value
            self._active = self.redis = self.pair = None
            await server.stop()

    def _paired(
        self, store: Store, hub_state: HubState, uid: str, rules: Rules, material: Material | None
    ) -> PairedPrincipal | None:
        serving = self._serving
        if serving.ha is None:
            return None
        if material is None or rules.trust is None or serving.method.name != "mtls":
            raise CallError("--ha-enabled: replication requires mTLS: use --auth mtls:<pattern>")
        there = PairSurroundings(
            store=store,
            hub_state=hub_state,
            principal=uid,
            gate=self.gate,
            timing=serving.runtime.timing,
            new_id=serving.runtime.new_id,
            material=material,
            trust=rules.trust,
            method=serving.method,
            handed_over=lambda: self._leadership.was_handed_over,
        )
        return PairedPrincipal(serving.ha, there)

    async def _swap_material(self, material: Material) -> None:
        if self.server is not None:
            await self.server.swap_material(material)
        if self.pair is not None:
            self.pair.swap_material(material)

    def _principal(self, store: Store, hub_state: HubState, uid: str, promoted: bool) -> Principal:  # noqa: FBT001
        return Principal(
            store,
            settings=self._serving.settings,
            principal_uid=uid,
            runtime=self._serving.runtime,
            cut=self._cut,
            hub_state=hub_state,
            requests=self._requests,
            promoted=promoted,
            heard_of=self._heard_of,
        )

    def _heard_of(self, principal: str) -> None:
        if self.pair is not None:
            self.pair.controller.heard_of(principal)

    def _link_of(self, agent: str) -> Link | None:
        return None if self.principal is None else self.principal.link_of(agent)

    @property
    def principal(self) -> Principal | None:
        """None while this process does not serve agents."""
        return None if self._active is None else self._active.principal

    async def _serve_stream(self, peer: AuthenticatedAgent, stream: EventStream) -> None:
        if self._active is not None:
            chain = peer.chain
            await self._active.serve(
                peer.name,
                peer.mode,
                stream,
                extensions=peer.announced.extensions,
                certificate_end=chain[0].not_valid_after_utc if chain else None,
            )

    def _listening(self, material: Material | None) -> listener.ListenOptions:
        serving = self._serving
        return listener.ListenOptions(
            host=serving.host,
            port=serving.port,
            material=material,
            require_client_certificates=serving.require_client_certificates,
            max_message_bytes=serving.max_message_bytes,
            keepalive_min_seconds=serving.keepalive_min_seconds,
        )

    def _rules(self, gate: Gate, material: Material | None) -> Rules:
        serving = self._serving
        trust = None
        if material is not None and serving.require_client_certificates:
            if not material.roots:
                raise CallError(
                    "--root-ca-path or --tls-ca-secret-name: client certificates need authorities"
                )
            trust = Trust(material.roots, now=_now)
        return Rules(
            method=serving.method,
            tokens=serving.tokens,
            trust=trust,
            namespace=serving.settings.namespace,
            version=VERSION,
            gate=gate,
            match_common_name=serving.match_common_name,
        )

    def _links(self) -> list[tuple[str, Link]]:
        agents = () if self.principal is None else self.principal.known_agents
        return [(agent.name, agent.link) for agent in agents]

    def _figures(self) -> bytes:
        if self.pair is not None:
            self.pair.measure()
        return principal_figures(self._links()) + self._app_info()

    def _cut(self, agent: str, reason: str) -> None:
        if self.server is not None:
            for session in self.server.sessions.of(agent):
                session.cut(Cut.distrusted(reason))

    async def _begin_blocklist(self, group: asyncio.TaskGroup, server: Server) -> None:
        async def swap(blocklist: Blocklist) -> None:
            if self.resources is not None:
                self.resources.swap_blocklist(blocklist)
            await server.swap_blocklist(blocklist)
            if self.redis is not None:
                self.redis.recheck()

        watched = WatchedBlocklist(self._store, namespace=self._serving.settings.namespace, swap=swap)
        group.create_task(watched.run(), name="blocklist's watch")
        if self._serving.require_client_certificates or self.resources is not None:
            self._reading = watched.name
            await watched.read()
            self._reading = ""
        group.create_task(watched.follow(), name="blocklist")

    async def _follow_passwords(self, path: Path, server: Server) -> None:
        """A password that is changed or gone ends what it has earned."""
        method = self._serving.method
        assert isinstance(method, PasswordMethod), "only passwords have a file"
        async for _ in changes(path.parent):
            try:
                accounts = read_accounts(path)
            except TiphysError as error:
                log.warning("passwords cannot be read: the old ones stay", **{logs.ERROR: str(error)})
            else:
                method.swap(accounts)
                await server.recheck()

    def _alive(self) -> HttpPage:
        if self._serving.ha is None:
            return HttpPage(b"ok\n")
        state = {HA_STATE_HEADER: self.gate.state}
        if self.gate.is_open:
            return HttpPage(b"", headers=state)
        words = f"HA state: {self.gate.state} - not accepting traffic\n"
        return HttpPage(words.encode(), status=503, headers=state)

    def _agents(self) -> HttpPage:
        """What `tiphys agents list` asks; only the one that works knows, and a standby who does."""
        regions = self._regions()
        if self.principal is None and not regions:
            return self._ready()
        known = None if self.principal is None else self.principal.known_agents
        return agent_status.page(known, regions=regions)

    def _regions(self) -> Sequence[RegionFacts]:
        return () if self.pair is None else regions_of(self.pair.controller)

    def _ready(self) -> HttpPage:
        if self.listening.is_set():
            words = "serving agents" if self.gate.is_open else self._waits()
            return HttpPage(f"{words}\n".encode())
        return HttpPage(f"{self._waits()}\n".encode(), status=503)

    def _waits(self) -> str:
        if self.listening.is_set() and not self.gate.is_open:
            return f"standing by: {self.gate.state}"
        reading = f"reading {self._reading}" if self._reading else "starting"
        return self._leadership.waits or reading


def _now() -> datetime:
    return datetime.now(UTC)
