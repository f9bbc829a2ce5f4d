"""The part of the story with two regions: one principal dies, an operator promotes the other, and all comes home again."""

import re
from collections.abc import Awaitable, Callable
from typing import Any

import click

from demo.clusters import (
    AUTONOMOUS,
    CONTROL_PLANE,
    MANAGED,
    SECOND_REGION,
    DemoClusters,
    arrived,
    project,
    tell,
    tell_stored,
)
from demo.regions import DemoRegion
from demo.sidecars import DemoFleet
from kube.resources import APP_PROJECTS
from kube.store import Object
from sidecars.wire.generated import hacontrol_pb2

_PEER = re.compile(r"localhost:\d+")
"""A port on loopback says nothing to who reads the story."""
OUTAGE, HOME = "region 1 is down", "back home"


class PairStory:
    """`web` makes the project that the story has told of, with something changed."""

    def __init__(
        self,
        clusters: DemoClusters,
        fleet: DemoFleet,
        *,
        title: Callable[[str], None],
        web: Callable[..., Object],
    ) -> None:
        self._clusters = clusters
        self._fleet = fleet
        self._title = title
        self._web = web

    @property
    def steps(self) -> list[Callable[[], Awaitable[None]]]:
        return [self._a_second_region, self._a_failover, self._a_return, self._a_switchover]

    async def _a_second_region(self) -> None:
        self._title(
            f"A second region, {SECOND_REGION}, has a copy of everything, and nobody else may write there."
        )
        await self._has(SECOND_REGION, "web", description="second")
        await self._write(SECOND_REGION, self._web(description="mine"))

    async def _a_failover(self) -> None:
        self._title(
            f"The principal of {CONTROL_PLANE} is killed; an operator promotes the other, and agents follow."
        )
        _, second = self._regions
        await self._fleet.kill_principal(CONTROL_PLANE)
        await second.until("disconnected")
        click.echo(f"   While nobody is active, {AUTONOMOUS} goes on:")
        await self._write(AUTONOMOUS, _shop(description="in the dark"))
        await self._operator(second, "promote", reason=OUTAGE)
        click.echo(f"   {AUTONOMOUS} has followed:")
        await self._has(SECOND_REGION, f"{AUTONOMOUS}-shop", description="in the dark")
        click.echo(f"   A change made here reaches {MANAGED}:")
        await self._write(SECOND_REGION, self._web(description="third"))
        await self._has(MANAGED, "web", description="third")

    async def _a_return(self) -> None:
        self._title(f"The principal of {CONTROL_PLANE} returns, hears of the higher epoch, and steps back.")
        first, _ = self._regions
        await first.start()
        await first.until("replicating")
        told = await first.operator.status()
        tell([f"$ tiphys ha status  # {CONTROL_PLANE}"])
        tell([f"{told['state']}; its peer is {told['peer']['state']} under epoch {told['peer']['epoch']}"])
        click.echo("   It has what was changed meanwhile, and takes nothing from others:")
        await self._has(CONTROL_PLANE, "web", description="third")
        await self._write(CONTROL_PLANE, self._web(description="mine"))

    async def _a_switchover(self) -> None:
        self._title("A switchover brings it home: nothing is lost, and agents follow again.")
        first, second = self._regions
        await second.until("active", peer="replicating")
        await self._operator(second, "switchover", reason=HOME)
        await first.until("active")
        await second.until("replicating")
        await self._write(CONTROL_PLANE, self._web(description="fourth"))
        for cluster in (MANAGED, SECOND_REGION):
            await self._has(cluster, "web", description="fourth")

    @property
    def _regions(self) -> tuple[DemoRegion, DemoRegion]:
        return self._fleet.regions[CONTROL_PLANE], self._fleet.regions[SECOND_REGION]

    async def _operator(self, region: DemoRegion, command: str, *, reason: str) -> None:
        """Told as `tiphys ha` does, whose client it is."""
        tell([f'$ tiphys ha {command} --reason "{reason}"  # {region.cluster}'])
        word = hacontrol_pb2.Word(who="ada", reason=reason)
        if command == "promote":
            state, epoch = await region.operator.change_role("Promote", word)
            tell([f"{state}, epoch {epoch}"])
            return
        async for line in region.operator.switchover(word, dry_run=False):
            tell([_named(line)])

    async def _write(self, cluster: str, thing: Object) -> None:
        stored, said = await self._clusters.write(cluster, thing)
        tell([_named(line) for line in said])
        if stored is not None:
            tell_stored(thing, cluster)

    async def _has(self, cluster: str, name: str, **spec: Any) -> None:
        """Told once it is there."""
        found = await arrived(
            self._clusters.stores[cluster],
            APP_PROJECTS,
            name,
            holds=lambda it: all(it["spec"].get(key) == value for key, value in spec.items()),
        )
        told = ", ".join(f"{key}: {found['spec'][key]}" for key in spec)
        tell([f"{cluster} has appproject {name}, {told}"])


def _shop(**more: Any) -> Object:
    destination = {"server": "https://kubernetes.default.svc", "namespace": "shop"}
    return project("shop", sourceRepos=["*"], destinations=[destination], **more)


def _named(line: str) -> str:
    return _PEER.sub("the other region", line)
