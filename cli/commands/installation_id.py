"""`tiphys installation-id`: which installation of Argo CD the objects of this cluster belong to."""

from typing import Any

import click

from argocd import names
from argocd.settings.argocd_cm import TrackingMethod
from cli.options import format_option
from cli.options.cluster import ask, cluster_options
from cli.options.namespaces import namespace_options, scope_of
from cli.output import is_data, show_data
from kube.live import LiveStore
from kube.store import Object
from tiphys.command_group import CommandGroup
from tiphys.errors import SurroundingsError
from webhook.tracking.installation_id import (
    InstallationId,
    read_installation_id,
    read_tracking_method,
    write_installation_id,
)


@click.group(cls=CommandGroup)
def command() -> None:
    """The id that tells objects of two Argo CDs on one cluster apart: installationID of argocd-cm."""


@command.command("show")
@namespace_options
@cluster_options
@format_option()
def show_command(*, form: str, **given: Any) -> None:
    """Print the id, and what there is to know about it."""
    found, held = ask(given, lambda store: read_installation_id(store, scope_of(given)))
    _check(held, given)
    _show(found.value, found, form=form, words=_told(found))


@command.command("ensure")
@namespace_options
@cluster_options
@click.option("--yes", is_flag=True, help="Do it; without this only tell what it means.")
@click.option(
    "--renew",
    is_flag=True,
    help=f"Replace the id that is there; argocd-cm keeps it as {names.TIPHYS_FORMER_INSTALLATION_IDS}.",
)
@format_option()
def ensure_command(*, yes: bool, renew: bool, form: str, **given: Any) -> None:
    """Generate an id where there is none, and tell how many Applications that concerns."""

    async def ensure(store: LiveStore) -> tuple[str | None, InstallationId, str]:
        scope = scope_of(given)
        found, held = await read_installation_id(store, scope)
        _check(held, given)
        assert held is not None
        if found.value is not None and not (renew and found.value):
            return found.value, found, _told(found)
        meaning = _meaning(found, await read_tracking_method(store, scope, held))
        if not yes:
            return found.value, found, f"{_told(found)}\n{meaning}\nnothing was changed; --yes does it"
        fresh = await write_installation_id(store, scope, held)
        return fresh, found, f"generated the installation id {fresh}\n{meaning}"

    value, found, words = ask(given, ensure)
    _show(value, found, form=form, words=words)


def _show(value: str | None, found: InstallationId, *, form: str, words: str) -> None:
    """`value` is the one that counts now, `found` what was there."""
    if is_data(form):
        generated = value != found.value
        told = {"installationId": value, "generated": generated, "applications": found.applications}
        show_data(told, form)
    else:
        click.echo(words)


def _told(found: InstallationId) -> str:
    if found.value is None:
        return f"no installation id: {names.ARGOCD_CM} has no {names.INSTALLATION_ID_KEY}"
    if not found.value:
        return f"no installation id: {names.INSTALLATION_ID_KEY} is empty, which opts out"
    return found.value


def _meaning(found: InstallationId, method: TrackingMethod) -> str:
    if not found.applications:
        return "no Application exists yet, so this changes nothing that is there"
    if method is TrackingMethod.LABEL:
        return "Argo CD tracks by label and reads no installation id, so this changes nothing that is there"
    count = "1 Application" if found.applications == 1 else f"{found.applications} Applications"
    return f"the objects of {count} count as untracked until they are synced again: sync them soon"


def _check(held: Object | None, given: dict[str, Any]) -> None:
    if held is None:
        raise SurroundingsError(
            f"there is no ConfigMap {names.ARGOCD_CM} in {given['argocd_namespace']}:"
            " is that Argo CD's namespace (--argocd-namespace)?"
        )
