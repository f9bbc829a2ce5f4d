"""Of several replicas of a sidecar one leads, by a Lease; the others wait and say so. All answer probes."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from kube.leases import Election
from kube.store import Store
from sidecars.mirroring.link import Runtime
from sidecars.wire.events import fresh_id
from tiphys import logs, metrics
from tiphys.http_server import HttpPage, HttpPages, HttpRefusal, HttpRoute

# Whoever is alone has the Lease at once.
PATIENCE_SECONDS = 5.0

log = logs.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaOptions:
    """What a replica of either sidecar is told besides its settings."""

    health_host: str = ""
    health_port: int | None
    metrics_port: int | None
    """0: one that the system chooses; None: no such page."""
    pages_port: int | None = None
    identity: str = field(default_factory=fresh_id)
    runtime: Runtime = field(default_factory=Runtime)


class Leadership:
    """`run` until cancelled; `work` is done only while no other replica does."""

    def __init__(
        self,
        store: Store,
        options: ReplicaOptions,
        *,
        role: str,
        namespace: str,
        probes: Mapping[str, Callable[[], HttpPage]],
        figures: Callable[[], bytes],
        pages: Mapping[str, Callable[[], HttpPage]] | None = None,
        routes: Mapping[str, HttpRoute] | None = None,
        access: HttpRefusal | None = None,
    ) -> None:
        """`figures` adds to the metrics. `pages` and `routes` are not for everybody: they have a port of their own, and
        `access`.
        """
        self._role = role
        self._options = options
        self._election = Election(
            store, name=f"tiphys-{role}", namespace=namespace, identity=options.identity
        )
        self.health = HttpPages(probes, host=options.health_host, port=options.health_port or 0)
        self.metrics = HttpPages(
            {"/metrics": partial(_metrics_page, figures)},
            host=options.health_host,
            port=options.metrics_port or 0,
        )
        self.pages = HttpPages(
            pages or {},
            host=options.health_host,
            port=options.pages_port or 0,
            access=access,
            routes=routes,
        )

    @property
    def waits(self) -> str:
        """For which other replica, in words; empty where there is none."""
        leader = "" if self._election.is_leading else self._election.leader
        return f"waiting for the Lease that {leader} holds" if leader else ""

    @property
    def was_handed_over(self) -> bool:
        """Another replica was at work a moment ago."""
        return self._election.was_handed_over

    def may_write(self) -> str:
        """Why not; by the clock, whatever this process believed before it was paused."""
        return "" if self._election.is_leading else "this replica does not hold the Lease any more"

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        async with asyncio.TaskGroup() as group:
            listeners = {
                "health": (self.health, self._options.health_port),
                "metrics": (self.metrics, self._options.metrics_port),
                "pages": (self.pages, self._options.pages_port),
            }
            wanted = {name: pages for name, (pages, port) in listeners.items() if port is not None}
            for name, pages in wanted.items():
                group.create_task(pages.run(), name=name)
            for pages in wanted.values():  # a port that is taken ends this before anything else begins
                await pages.listening.wait()
            group.create_task(self._say_who_works(), name="election")
            group.create_task(self._election.run(work), name=self._role)

    async def _say_who_works(self) -> None:
        """Once, not for ever."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._election.leading()
        except TimeoutError:
            log.warning(
                "another replica holds the Lease: this one waits",
                **{logs.KIND: self._role, logs.PEER: self._election.leader},
            )


def _metrics_page(more: Callable[[], bytes]) -> HttpPage:
    return HttpPage(metrics.exposition() + more(), content_type=metrics.CONTENT_TYPE)
