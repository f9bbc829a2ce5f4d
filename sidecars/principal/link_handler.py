"""What the principal does about one agent, as its link asks."""

from collections.abc import Iterable

from argocd.agents.vocabulary import Message, Mode, Target
from sidecars.delivery.comparison import ComparisonReport, Difference
from sidecars.delivery.outcomes import DeadLetter
from sidecars.mirroring import repeated_drift
from sidecars.mirroring.inventories import SPECS, STATUS
from sidecars.mirroring.kinds import BY_TARGET
from sidecars.mirroring.link import LinkHandler, SendAttempt
from sidecars.principal.agents import KnownAgent
from sidecars.principal.fleet_page.record import FleetRecord
from sidecars.principal.incoming import PrincipalIncoming
from sidecars.principal.resync import PrincipalResync
from sidecars.proxies.requests import Requests
from sidecars.wire import payloads
from sidecars.wire.events import Event
from sidecars.wire.proxy_payloads import ClusterCacheInfo
from tiphys import logs

log = logs.get_logger()


class PrincipalLinkHandler(LinkHandler):
    def __init__(
        self,
        agent: KnownAgent,
        *,
        incoming: PrincipalIncoming,
        resync: PrincipalResync,
        requests: Requests,
        record: FleetRecord,
    ) -> None:
        self._agent = agent
        self._incoming = incoming
        self._resync = resync
        self._requests = requests
        self._record = record

    async def handle(self, event: Event) -> None:
        if event.target == Target.RESOURCE_RESYNC:
            self._resync.resync(self._agent, event)
        elif event.target in BY_TARGET:
            await self._incoming.apply(self._agent, event)
        elif event.target == Target.CLUSTER_CACHE_INFO_UPDATE:
            self._take_counts(payloads.read(ClusterCacheInfo, event.payload))
        elif event.target == repeated_drift.TARGET:
            self._record.drift_reported(self._agent, repeated_drift.read_report(event.payload))
        else:
            # Heartbeats: acknowledged, no more.
            log.debug("nothing to do", **{logs.AGENT: self._agent.name, logs.KIND: event.type})

    def _take_counts(self, counted: ClusterCacheInfo) -> None:
        if counted != self._agent.cluster:
            self._agent.cluster = counted
            self._requests.changed(self._agent.name)

    def interact(self, event: Event) -> bool:
        return self._requests.receive(self._agent.name, event)

    def unsendable(self, event: Event) -> None:
        self._requests.unsendable(event)

    def done(self, event: Event) -> None:
        agent = self._agent
        if event.type == Message.REQUEST_RESOURCE_RESYNC:
            agent.round.heard()
        if event.type != Message.SET_OPERATION or not agent.operations.arrived(event):
            return
        # It is unclear how that operation stands by now.
        if agent.link.compares:
            agent.link.comparer.want(STATUS if agent.mode is Mode.MANAGED else SPECS)
        else:
            self._resync.ask_how_it_stands(agent, event)

    def acknowledged(self, event: Event, seconds: float) -> None:
        self._record.acknowledged(self._agent.name, event, seconds)

    def applied(self, event: Event) -> None:
        self._record.applied(self._agent.name, event)

    def repair(self, scope: str, differences: list[Difference]) -> None:
        if scope == SPECS and self._agent.mode is Mode.MANAGED:
            self._resync.repair(self._agent, differences)

    def compared(self, report: ComparisonReport) -> None:
        if report.complete:
            self._resync.give_operations(self._agent)

    def relieved(self) -> None:
        self._resync.relieved(self._agent)

    def everything(self) -> Iterable[SendAttempt]:
        return self._resync.everything(self._agent)

    async def report_unapplied(self, letter: DeadLetter) -> None:
        self._record.dead_letter(self._agent.name, letter)
        await self._incoming.report_unapplied(self._agent, letter)

    async def report_unsent(self, letter: DeadLetter) -> None:
        self._record.dead_letter(self._agent.name, letter)
        await self._incoming.report_unsent(self._agent, letter)
