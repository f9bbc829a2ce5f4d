"""`tiphys installation-id`: which installation of Argo CD the objects of this cluster belong to."""

from typing import Any

import click

from argocd import names
from cli.options.cluster import ask, cluster_options
from cli.options.namespaces import namespace_options, scope_of
from kube.live import LiveStore
from kube.store import Object
from tiphys.errors import SurroundingsError
from webhook.tracking.installation_id import InstallationId, read_installation_id, write_installation_id


@click.group()
def command() -> None:
    """The id that tells objects of two Argo CDs on one cluster apart: installationID of argocd-cm."""


@command.command("show")
@namespace_options
@cluster_options
def show_command(**given: Any) -> None:
    """Print the id, and what there is to know about it."""
    found, held = ask(given, lambda store: read_installation_id(store, scope_of(given)))
    _check(held, given)
    click.echo(_told(found))


@command.command("ensure")
@namespace_options
@cluster_options
@click.option("--yes", is_flag=True, help="Do it; without this only tell what it means.")
@click.option(
    "--renew",
    is_flag=True,
    help=f"Replace the id that is there; argocd-cm keeps it as {names.TIPHYS_FORMER_INSTALLATION_IDS}.",
)
def ensure_command(*, yes: bool, renew: bool, **given: Any) -> None:
    """Generate an id where there is none, and tell how many Applications that concerns."""

    async def ensure(store: LiveStore) -> str:
        scope = scope_of(given)
        found, held = await read_installation_id(store, scope)
        _check(held, given)
        assert held is not None
        if found.value is not None and not (renew and found.value):
            return _told(found)
        if not yes:
            return f"{_told(found)}\n{_meaning(found)}\nnothing was changed; --yes does it"
        fresh = await write_installation_id(store, scope, held)
        return f"generated the installation id {fresh}\n{_meaning(found)}"

    click.echo(ask(given, ensure))


def _told(found: InstallationId) -> str:
    if found.value is None:
        return f"no installation id: {names.ARGOCD_CM} has no {names.INSTALLATION_ID_KEY}"
    if not found.value:
        return f"no installation id: {names.INSTALLATION_ID_KEY} is empty, which opts out"
    return found.value


def _meaning(found: InstallationId) -> str:
    if not found.applications:
        return "no Application exists yet, so this changes nothing that is there"
    count = "1 Application" if found.applications == 1 else f"{found.applications} Applications"
    return f"the objects of {count} count as untracked until they are synced again: sync them soon"


def _check(held: Object | None, given: dict[str, Any]) -> None:
    if held is None:
        raise SurroundingsError(
            f"there is no ConfigMap {names.ARGOCD_CM} in {given['argocd_namespace']}:"
            " is that Argo CD's namespace (--argocd-namespace)?"
        )
