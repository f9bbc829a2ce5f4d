"""The fence at the API server: a ValidatingAdmissionPolicy whose parameter is the record.

That it stands, and for which role, is proven by writes that are never stored: a ConfigMap that names the record's
epoch and role must pass, and one that names others must not.
"""

import asyncio
from dataclasses import dataclass

from argocd import names
from kube.errors import AlreadyExistsError, ApiError, ForbiddenError, InvalidError
from kube.resources import CONFIG_MAPS
from kube.store import Object, Store
from sidecars.replication.metrics import FENCED
from sidecars.replication.record import HaRecord

# An API server hears of a changed parameter by a watch: tens of milliseconds, more where it is busy.
PROOF_SECONDS = 10.0
_PAUSE_SECONDS = 0.02
_MAX_PAUSE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class FenceReport:
    """`problem` is empty where the fence stands as the record says."""

    problem: str

    @property
    def stands(self) -> bool:
        return not self.problem


class Fence:
    def __init__(self, store: Store, *, namespace: str, enabled: bool = True) -> None:
        self._store = store
        self._namespace = namespace
        self._enabled = enabled

    async def prove(self, record: HaRecord, *, seconds: float | None = None) -> FenceReport:
        """Within `PROOF_SECONDS`, unless told. Returns as soon as it stands as the record says, or why it does not after all that time. A slow answer is
        waited for: an API server under load is no cluster without a fence.
        """
        seconds = PROOF_SECONDS if seconds is None else seconds
        report = FenceReport(await self._proved(record, seconds=seconds) if self._enabled else "")
        FENCED.set(report.stands)
        return report

    async def _proved(self, record: HaRecord, *, seconds: float) -> str:
        loop = asyncio.get_running_loop()
        end, pause = loop.time() + seconds, _PAUSE_SECONDS
        while True:
            try:
                async with asyncio.timeout(PROOF_SECONDS):
                    problem = await self._problem(record)
            except TimeoutError:
                return f"the fence could not be tried: no answer for {PROOF_SECONDS:.0f} s"
            if not problem or loop.time() >= end:
                return problem
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE_SECONDS)

    async def _problem(self, record: HaRecord) -> str:
        try:
            if await self._passes(epoch=-1, role="canary"):
                return f"ValidatingAdmissionPolicy {names.HA_FENCE} and its binding are not there, or not in force"
            if not await self._passes(epoch=record.epoch, role=record.role.value):
                return f"the fence does not know of epoch {record.epoch} and role {record.role} yet"
        except ApiError as error:
            return f"the fence could not be tried: {error}"
        return ""

    async def _passes(self, *, epoch: int, role: str) -> bool:
        body: Object = {
            "metadata": {"name": names.HA_CANARY},
            "data": {"epoch": str(epoch), "role": role},
        }
        try:
            await self._store.create(CONFIG_MAPS, body, namespace=self._namespace, dry_run=True)
        except (ForbiddenError, InvalidError) as error:
            if names.HA_FENCE not in str(error):
                raise
            return False
        except AlreadyExistsError:  # somebody has left one there, and admission comes first
            return True
        return True
