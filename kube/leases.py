"""Leases: electing a leader, and telling others that one is alive.

As in other clients, nobody trusts another's clock: a lease has run out when *we* have seen no renewal for its
duration, by our own monotonic clock. This elects; it does not fence. A leader that was paused may write for
a moment after it lost, so writes that must not come twice need a version, a uid or an epoch of their own.
"""

import asyncio
import random as randomness
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from kube import queries
from kube.errors import ApiError, ConflictError, NotFoundError
from kube.resources import LEASES
from kube.store import Object, PatchKind, Store, WatchEventKind
from tiphys import logs

log = logs.get_logger()
_JITTER = 1.2


def uptime() -> float:
    """A monotonic clock that goes on while the machine is suspended, where the system has one."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def _wall_clock() -> datetime:
    return datetime.now(UTC)


def _micro_time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """Kubernetes' own figures. The ratio of the first two is the skew of clock rates that is tolerated."""

    duration: float = 15.0
    """Others wait this long after the last renewal they saw."""
    renew_deadline: float = 10.0
    """A leader that could not renew for this long stops leading."""
    retry: float = 2.0
    """Between two renewals."""

    def __post_init__(self) -> None:
        if not self.duration > self.renew_deadline > self.retry * _JITTER > 0:
            raise ValueError("a lease needs duration > renew deadline > 1.2 * retry > 0")


class Election:
    """One candidate for one Lease."""

    def __init__(
        self,
        store: Store,
        *,
        name: str,
        namespace: str,
        identity: str,
        timing: LeaseTiming | None = None,
        clock: Callable[[], float] = uptime,
        wall_clock: Callable[[], datetime] = _wall_clock,
        random: randomness.Random | None = None,
    ) -> None:
        """`identity` must differ between replicas and between two lives of one of them."""
        self._store = store
        self._name = name
        self._namespace = namespace
        self._identity = identity
        self._timing = timing or LeaseTiming()
        self._clock = clock
        self._wall_clock = wall_clock
        self._random = random or randomness.Random()  # noqa: S311  spreads retries, keeps no secret
        self._lease: Object | None = None
        self._observed = clock()
        self._seen_alive: float | None = None
        self._leads_until: float | None = None
        self._leading = asyncio.Event()
        self._context = {logs.KIND: "Lease", logs.NAMESPACE: namespace, logs.NAME: name, "identity": identity}
        self.error = ""
        """The last failure of the store, empty after a success."""

    @property
    def is_leading(self) -> bool:
        """Asks the clock, so that a process that was paused does not believe its own past."""
        return self._leads_until is not None and self._clock() < self._leads_until

    @property
    def leader(self) -> str:
        """Whoever holds the lease as far as we have seen."""
        return str(self._spec.get("holderIdentity") or "")

    @property
    def was_handed_over(self) -> bool:
        """Another candidate was seen to renew the lease, or to give it back, not much more than a lease ago."""
        return self._seen_alive is not None and self._clock() - self._seen_alive < 2 * self._timing.duration

    async def leading(self) -> None:
        """Returns when this candidate leads; bound it."""
        await self._leading.wait()

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Campaigns, leads, and campaigns again; ends when `lead` does, with its error if it has one.

        `lead` is cancelled when the lease is lost and awaited before anything else happens: it has until the
        lease ends for others to stop. On the way out, however that is, a lease still held is given back.
        """
        while True:
            await self._acquire()
            try:
                if await self._lead(lead):
                    return
            finally:
                self._stop_leading()
                await self._release()

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> bool:
        """Whether `lead` came to its own end."""
        self._leading.set()
        log.info("leading", **self._context)
        work = asyncio.ensure_future(lead())
        renewal = asyncio.ensure_future(self._renew_while_possible())
        try:
            await asyncio.wait({work, renewal}, return_when=asyncio.FIRST_COMPLETED)
            ended = work.done()
        finally:
            self._leading.clear()
            for task in (work, renewal):
                task.cancel()
            results = await asyncio.gather(work, renewal, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
                raise result
        return ended

    # Becoming the leader.

    async def _acquire(self) -> None:
        while not await self._attempt():
            await self._wait_for_a_chance()

    async def _attempt(self) -> bool:
        """Takes a lease that is free, ours or run out. False where somebody else has it or was faster."""
        began = self._clock()
        try:
            async with asyncio.timeout(self._timing.renew_deadline):
                await self._look()
                if self._is_somebody_elses:
                    return False
                self._see(await self._write())
        except (ApiError, TimeoutError) as error:
            self.error = str(error) or "no answer in time"
            return False
        self.error = ""
        # From before the write was sent: others may have seen it at once.
        self._leads_until = began + self._timing.renew_deadline
        return True

    async def _look(self) -> None:
        lease = await queries.find(self._store, LEASES, name=self._name, namespace=self._namespace)
        if lease is None:
            self._lease = None
        else:
            self._see(lease)

    def _see(self, lease: Object) -> None:
        """Only a change of the record starts its time again."""
        if self._lease is None or lease["spec"] != self._spec:
            self._observed = self._clock()
            # Not by our own write over a lease that had run out: of its holder nothing was seen.
            is_ours = lease["spec"].get("holderIdentity") == self._identity
            if self._lease is not None and self.leader not in {"", self._identity} and not is_ours:
                self._seen_alive = self._observed
        self._lease = lease

    @property
    def _spec(self) -> Object:
        return (self._lease or {}).get("spec") or {}

    @property
    def _is_somebody_elses(self) -> bool:
        return self.leader not in {"", self._identity} and self._clock() < self._runs_out

    @property
    def _runs_out(self) -> float:
        return self._observed + float(self._spec.get("leaseDurationSeconds") or self._timing.duration)

    async def _write(self) -> Object:
        now = _micro_time(self._wall_clock())
        spec = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, round(self._timing.duration)),
            "acquireTime": self._spec.get("acquireTime") or now,
            "renewTime": now,
            "leaseTransitions": int(self._spec.get("leaseTransitions") or 0),
        }
        if self._lease is None:
            metadata = {"name": self._name, "namespace": self._namespace}
            return await self._store.create(LEASES, {"metadata": metadata, "spec": spec})
        if self.leader != self._identity:
            spec |= {"acquireTime": now, "leaseTransitions": int(spec["leaseTransitions"]) + 1}
        return await self._store.replace(LEASES, {**self._lease, "spec": spec})

    async def _wait_for_a_chance(self) -> None:
        """Until the lease is given back or runs out: watched, not polled. After an error, one pause."""
        if self.error or not self._is_somebody_elses:
            await asyncio.sleep(self._pause())
            return
        with suppress(TimeoutError, ApiError):
            await self._watch_the_holder()
        # Those who waited together shall not all write together.
        await asyncio.sleep(self._random.uniform(0, self._timing.retry * (_JITTER - 1)))

    async def _watch_the_holder(self) -> None:
        assert self._lease is not None
        loop = asyncio.get_running_loop()
        watch = self._store.watch(
            LEASES,
            namespace=self._namespace,
            field_selector=f"metadata.name={self._name}",
            resource_version=self._lease["metadata"]["resourceVersion"],
        )
        async with asyncio.timeout(self._runs_out - self._clock()) as bound, aclosing(watch) as events:
            async for event in events:
                if event.kind is WatchEventKind.BOOKMARK:
                    continue
                self._see(event.object)
                if event.kind is WatchEventKind.DELETED or not self._is_somebody_elses:
                    return
                bound.reschedule(loop.time() + self._runs_out - self._clock())

    # Staying it.

    async def _renew_while_possible(self) -> None:
        """Returns when the lease is lost: to somebody else, or because time ran out."""
        while self._leads_until is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._leads_until - self._clock()):
                    await asyncio.sleep(self._pause())
                    await self._renew()
            if self._is_somebody_elses or not self.is_leading:
                return

    async def _renew(self) -> None:
        began = self._clock()
        try:
            try:
                self._see(await self._write())
            except (ConflictError, NotFoundError):
                # Changed by somebody, deleted, or our own write whose answer was lost: look, and write again.
                await self._look()
                if self._is_somebody_elses:
                    return
                self._see(await self._write())
        except ApiError as error:
            self.error = str(error)
        else:
            self.error = ""
            self._leads_until = began + self._timing.renew_deadline

    def _pause(self) -> float:
        return self._timing.retry * self._random.uniform(1, _JITTER)

    def _stop_leading(self) -> None:
        self._leading.clear()
        self._leads_until = None
        log.info("no longer leading", **self._context, **{logs.ERROR: self.error})

    async def _release(self) -> None:
        """Whoever waits need not wait for the time to run out."""
        if self.leader != self._identity or self._lease is None:
            return
        now = _micro_time(self._wall_clock())
        spec = {
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": int(self._spec.get("leaseTransitions") or 0),
        }
        with suppress(ApiError, TimeoutError):
            async with asyncio.timeout(self._timing.retry):
                self._see(await self._store.replace(LEASES, {**self._lease, "spec": spec}))


async def heartbeat(
    store: Store,
    *,
    name: str,
    namespace: str,
    identity: str,
    duration: float = 30.0,
    wall_clock: Callable[[], datetime] = _wall_clock,
    told: Callable[[str], None] = lambda _: None,
) -> None:
    """Renews a Lease of one's own three times in its duration, until cancelled; then deletes it.

    Errors of the store are waited out: that the lease runs out is what they mean. `told` hears each outcome,
    an empty text for a success.
    """
    try:
        while True:
            spec = {
                "holderIdentity": identity,
                "leaseDurationSeconds": max(1, round(duration)),
                "renewTime": _micro_time(wall_clock()),
            }
            try:
                await store.patch(
                    LEASES, {"spec": spec}, name=name, namespace=namespace, kind=PatchKind.APPLY, force=True
                )
                told("")
            except ApiError as error:
                told(str(error))
            await asyncio.sleep(duration / 3)
    finally:
        with suppress(ApiError, TimeoutError):
            async with asyncio.timeout(duration / 3):
                await store.delete(LEASES, name=name, namespace=namespace)
