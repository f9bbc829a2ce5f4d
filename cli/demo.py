"""`tiphys demo`: the webhook, a principal and two agents at work, on three clusters inside this process."""

import asyncio
from functools import partial
from typing import Any, TextIO

import click
import yaml

from cli.demonstration.trying import ask
from cli.demonstration.world import AUTONOMOUS, KINDS, MANAGED
from tiphys import logs
from tiphys.errors import CallError
from tiphys.running import run

# A stream's farewell takes up to 5 s; nothing else here needs as long.
LEAVE_SECONDS = 10.0

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

    # Not at the top: apply and get need neither the webhook nor the sidecars.
    from cli.demonstration.telling import demonstrate  # noqa: PLC0415

    run(partial(demonstrate, once=once), grace=LEAVE_SECONDS)
    click.echo("The demonstration has ended; it leaves nothing behind.")


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
