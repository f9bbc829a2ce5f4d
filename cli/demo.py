"""`tiphys demo`: the webhook, a principal and two agents at work, on three clusters inside this process."""

import asyncio
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TextIO

import click
import yaml

from argocd.routing import Mode
from cli.demonstration.fleet import Fleet
from cli.demonstration.guarding import guarding
from cli.demonstration.story import Story, prepare
from cli.demonstration.trying import ask, listening
from cli.demonstration.world import AUTONOMOUS, KINDS, MANAGED, World
from tiphys import logs
from tiphys.errors import CallError
from tiphys.running import Running, run

# A stream's farewell takes up to 5 s; nothing else here needs as long.
LEAVE_SECONDS = 10.0

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


CLUSTER = click.option(
    "--cluster",
    type=click.Choice(["control-plane", MANAGED, AUTONOMOUS]),
    default="control-plane",
    show_default=True,
    help="Which of the three.",
)


@click.group(invoke_without_command=True)
@click.option("--once", is_flag=True, help="End after the story instead of waiting for Ctrl-C.")
@click.pass_context
def command(ctx: click.Context, *, once: bool) -> None:
    """Tell a short story on clusters inside this process, then stay up."""
    if ctx.invoked_subcommand is not None:
        return
    logs.configure(level="error")

    async def demonstrating(running: Running) -> None:
        with tempfile.TemporaryDirectory(prefix="tiphys-demo-") as folder:
            await _until_stopped(running, _tell(running, Path(folder), once=once))

    run(demonstrating, grace=LEAVE_SECONDS)
    click.echo("The demonstration has ended; it leaves nothing behind.")


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


@command.command("apply")
@click.option(
    "--file",
    "-f",
    "file",
    type=click.File(),
    required=True,
    help="A file with objects; - reads standard input.",
)
@CLUSTER
def apply_command(file: TextIO, cluster: str) -> None:
    """Write objects to a cluster of the demonstration that is running."""
    try:
        things = [thing for thing in yaml.safe_load_all(file) if thing]
    except yaml.YAMLError as error:
        raise CallError(f"{file.name}: is no YAML: {' '.join(str(error).split())}") from error
    for thing in things:
        kind = thing.get("kind") if isinstance(thing, dict) else None
        named = isinstance(thing, dict) and (thing.get("metadata") or {}).get("name")
        if str(kind).lower() not in KINDS or not named:
            known = ", ".join(resource.kind for resource in KINDS.values())
            raise CallError(f"{file.name}: needs kind and metadata.name; the demonstration knows {known}")
    _ask({"cluster": cluster, "apply": things})


@command.command("get")
@click.argument("kind", type=click.Choice(sorted(KINDS), case_sensitive=False))
@click.argument("name", default="")
@click.option("--namespace", "-n", default="", help="Instead of argocd.")
@CLUSTER
def get_command(kind: str, name: str, namespace: str, cluster: str) -> None:
    """Show what a cluster of the demonstration that is running has."""
    _ask({"cluster": cluster, "get": kind, "name": name, "namespace": namespace})


def _ask(request: dict[str, Any]) -> None:
    lines, failed = asyncio.run(ask(request))
    for line in lines:
        click.echo(line)
    if failed:
        raise click.exceptions.Exit(1)
