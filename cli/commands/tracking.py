"""`tiphys tracking migrate`: all objects of all Applications to another tracking method, and back."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from argocd import names
from argocd.settings.argocd_cm import TrackingMethod
from cli.options.cluster import ask, cluster_options
from cli.options.namespaces import namespace_options, scope_of
from webhook.tracking.migration import MethodMigration, Move, Moved

METHODS = [method.value for method in TrackingMethod if method is not TrackingMethod.UNKNOWN]
TOLD_TROUBLES = 50


@click.group()
def command() -> None:
    """How Argo CD knows which objects are an Application's."""


@command.command("migrate")
@namespace_options
@cluster_options
@click.option("--to", type=click.Choice(METHODS), required=True, help="The method to move to.")
@click.option("--yes", is_flag=True, help="Do it; without this only tell what would be done.")
def migrate_command(*, to: str, yes: bool, **given: Any) -> None:
    """Mark every object that Applications list for the new method, then switch argocd-cm to it.

    Objects that would be lost or taken are named and argocd-cm stays as it is. A run that was interrupted is
    started again. Ends with 1 if an object is in the way.
    """
    scope = scope_of(given)
    with _progress() as told:
        move = ask(
            given,
            lambda store: MethodMigration(store, scope, to=TrackingMethod(to), really=yes, told=told).run(),
        )
    for trouble in move.troubles[:TOLD_TROUBLES]:
        click.echo(f"in the way: {trouble}", err=True)
    if hidden := move.troubles[TOLD_TROUBLES:]:
        click.echo(f"… and {len(hidden)} more", err=True)
    click.echo(_told(move, yes=yes))
    if move.troubles:
        raise click.exceptions.Exit(1)


def _told(move: Move, *, yes: bool) -> str:
    counts = f"{move.prepared} {'marked' if yes else 'to be marked'}, {move.ready} ready, {len(move.troubles)} in the way"
    route = f"{move.before.value} -> {move.after.value}"
    if move.switched:
        end = f"{names.ARGOCD_CM} says {move.after.value} now"
    elif move.before is move.after:
        end = f"{names.ARGOCD_CM} said so already"
    elif yes:
        end = f"{names.ARGOCD_CM} still says {move.before.value}: start again when nothing is in the way"
    else:
        end = "nothing was changed; --yes does it"
    return f"{route}: {counts}; {end}"


@contextmanager
def _progress() -> Iterator[Callable[[Moved], None]]:
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    # Only here: rich costs a tenth of a second that no pipeline needs.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress, SpinnerColumn, TextColumn  # noqa: PLC0415

    columns = (SpinnerColumn(), TextColumn("{task.completed:.0f} objects"), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("", total=None)
        yield lambda moved: progress.update(bar, advance=1, description=str(moved.listed))
