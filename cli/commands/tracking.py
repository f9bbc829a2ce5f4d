"""`tiphys tracking migrate`: all objects of all Applications to another tracking method, and back."""

from typing import Any

import click

from argocd import names
from argocd.settings.argocd_cm import TrackingMethod
from cli.options import format_option
from cli.options.cluster import ask, cluster_options, counted
from cli.options.namespaces import namespace_options, scope_of
from cli.output import is_data, show_data
from cli.progress import progress
from kube.live import LiveStore
from kube.resources import APPLICATIONS
from tiphys.command_group import CommandGroup
from webhook.tracking.migration import MethodMigration, Move, Moved

METHODS = [method.value for method in TrackingMethod if method is not TrackingMethod.UNKNOWN]
TOLD_TROUBLES = 50


@click.group(cls=CommandGroup)
def command() -> None:
    """How Argo CD knows which objects are an Application's."""


@command.command("migrate")
@namespace_options
@cluster_options
@click.option("--to", type=click.Choice(METHODS), required=True, help="The method to move to.")
@click.option("--yes", is_flag=True, help="Do it; without this only tell what would be done.")
@format_option()
def migrate_command(*, to: str, yes: bool, form: str, **given: Any) -> None:
    """Mark every object that Applications list for the new method, then switch argocd-cm to it.

    Objects that would be lost or taken are named and argocd-cm stays as it is. A run that was interrupted is
    started again. Ends with 1 if an object is in the way.
    """
    scope = scope_of(given)
    with progress("Applications", "{task.description}") as advance:

        async def migrate(store: LiveStore) -> Move:
            seen: set[str] = set()
            if advance.shown:
                places = (scope.argocd_namespace, *scope.application_namespaces)
                counts = [await counted(store, [APPLICATIONS], namespace=each) for each in places]
                advance.expect(sum(each or 0 for each in counts) or None)

            def told(moved: Moved) -> None:
                application = moved.listed.application
                advance(application not in seen, str(moved.listed))
                seen.add(application)

            return await MethodMigration(store, scope, to=TrackingMethod(to), really=yes, told=told).run()

        move = ask(given, migrate)
    if is_data(form):
        show_data(_data(move), form)
    else:
        _show(move, yes=yes)
    if move.troubles:
        raise click.exceptions.Exit(1)


def _data(move: Move) -> dict[str, Any]:
    return {
        "from": move.before.value,
        "to": move.after.value,
        "prepared": move.prepared,
        "ready": move.ready,
        "inTheWay": move.troubles,
        "switched": move.switched,
    }


def _show(move: Move, *, yes: bool) -> None:
    for trouble in move.troubles[:TOLD_TROUBLES]:
        click.echo(f"in the way: {trouble}", err=True)
    if hidden := move.troubles[TOLD_TROUBLES:]:
        click.echo(f"… and {len(hidden)} more", err=True)
    click.echo(_told(move, yes=yes))


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
