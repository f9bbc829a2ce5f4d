"""The demonstration from its first line to its last."""

import asyncio
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import click

from argocd.routing import Mode
from cli.demonstration.fleet import Fleet
from cli.demonstration.guarding import guarding
from cli.demonstration.story import Story, prepare
from cli.demonstration.trying import listening
from cli.demonstration.world import AUTONOMOUS, MANAGED, World
from tiphys.running import Running

BEGINNING = f"""\
Three clusters run inside this process: a control plane, a managed workload cluster ({MANAGED}) and an autonomous
one ({AUTONOMOUS}). Their API servers are embedded stores: no Argo CD and no controllers run on them.
The webhook answers the control plane's reviews over HTTPS; the principal and the agents speak gRPC with mutual
TLS. All listen on loopback only."""

TRY = """\
In another terminal:
  tiphys demo apply -f project.yaml
  tiphys demo get appproject web --cluster prod"""
TAKEN = "Another demonstration of yours is running: `tiphys demo apply` and `get` talk to that one."


async def demonstrate(running: Running, *, once: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="tiphys-demo-") as folder:
        await _until_stopped(running, _tell(running, Path(folder), once=once))


async def _until_stopped(running: Running, telling: Coroutine[Any, Any, None]) -> None:
    """Whatever the story waits for, Ctrl-C does not."""
    story = asyncio.ensure_future(telling)
    stopping = asyncio.ensure_future(running.stopping.wait())
    try:
        await asyncio.wait({story, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (story, stopping):
            if not task.done():
                task.cancel()
        await asyncio.wait({story, stopping})
    if not story.cancelled():
        story.result()


async def _tell(running: Running, folder: Path, *, once: bool) -> None:
    world = World()
    click.echo(BEGINNING)
    await prepare(world)
    async with guarding(running, world.control_plane, folder=folder) as guard:
        fleet = Fleet(running, world.control_plane, folder=folder)
        await fleet.start_principal(agents=(MANAGED, AUTONOMOUS))
        await fleet.start_agent(MANAGED, world.managed, mode=Mode.MANAGED)
        await fleet.start_agent(AUTONOMOUS, world.autonomous, mode=Mode.AUTONOMOUS)
        await Story(world, guard=guard, fleet=fleet).tell()
        if once:
            return
        click.echo(f"\nThe webhook's status page: {guard.page}")
        async with listening(world) as reachable:
            click.echo(TRY if reachable else TAKEN)
            click.echo("It stays up until Ctrl-C.")
            await running.stopping.wait()
