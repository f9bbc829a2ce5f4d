"""An API server at which something happens when a principal records a step of a switchover; an operator's words, and what is
read of a principal.
"""

import asyncio
import json
from typing import TYPE_CHECKING, Any

from argocd import names
from kube.errors import UnavailableError
from kube.resources import CONFIG_MAPS, LEASES
from kube.store import Object, Resource
from sidecars.fleet.ha_client import HaClient
from sidecars.principal.roles.active import ActivePrincipal
from sidecars.principal.roles.held import HeldObjects
from sidecars.replication.record import HaRecord
from sidecars.wire.generated import hacontrol_pb2
from tests.sidecars.replication.hubs import until
from tests.sidecars.replication.paired_principals import FencedStore, Region

if TYPE_CHECKING:
    from collections.abc import Callable

WORD = hacontrol_pb2.Word(who="jo", reason="maintenance")


class StepStore(FencedStore):
    """An API server at which something happens when a principal records a step."""

    def __init__(self) -> None:
        super().__init__()
        self.loses: Callable[[str], bool] = lambda _what: False
        """Of which steps the answer gets lost, and so many looks whether it was written with it."""
        self.lost_looks = 1
        self.refuses: Callable[[str], bool] = lambda _what: False
        self.ends_at = ""
        """The step with which the process ends: it is written, and nothing after it."""
        self.ended = asyncio.Event()
        self._lost = 0

    async def replace(self, resource: Resource, body: Object, **more: Any) -> Object:
        if resource == LEASES:  # let go at once, so that nobody waits for its end
            return await super().replace(resource, body, **more)
        await self._living()
        if resource != CONFIG_MAPS or body["metadata"]["name"] != names.HA_RECORD:
            return await super().replace(resource, body, **more)
        what = read_what(body)
        if self.refuses(what):
            raise UnavailableError("etcdserver: mvcc: database space exceeded")
        done = await super().replace(resource, body, **more)
        if what == self.ends_at:
            self.ended.set()
            await self._living()
        if self.loses(what):
            self._lost = self.lost_looks
            raise UnavailableError("the answer was lost", outcome_unknown=True)
        return done

    async def get(self, resource: Resource, *, name: str, **more: Any) -> Object:
        if self._lost and name == names.HA_RECORD:
            self._lost -= 1
            raise UnavailableError("the answer was lost")
        return await super().get(resource, name=name, **more)

    async def _living(self) -> None:
        if self.ended.is_set():
            await asyncio.Event().wait()

    def revive(self) -> None:
        self.ends_at = ""
        self.ended.clear()


def read_what(body: Object) -> str:
    return str(json.loads(body["data"]["audit"])[-1]["what"])


def operator(region: Region) -> HaClient:
    assert region.process is not None
    assert region.process.pair is not None
    assert region.process.pair.admin is not None
    return HaClient(address=f"127.0.0.1:{region.process.pair.admin.port}")


async def switched(region: Region) -> list[str]:
    return [line async for line in operator(region).switchover(WORD, dry_run=False)]


def record(region: Region) -> HaRecord:
    return region.controller.role.held_record()


def audit(region: Region) -> list[str]:
    return [entry.what for entry in record(region).audit]


def held_objects(region: Region) -> HeldObjects:
    active = region.controller.role.active
    assert isinstance(active, ActivePrincipal)
    assert active.principal is not None
    return active.principal.held


async def compared(region: Region) -> None:
    await until(lambda: region.controller.role.replica.progress().is_complete)
