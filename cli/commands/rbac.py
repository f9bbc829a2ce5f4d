"""`tiphys rbac`: the least that syncing a project needs."""

import json
from collections.abc import Iterable
from typing import Any

import click

from argocd import globs, names, reading
from argocd.impersonation.accounts import grants_for
from argocd.impersonation.derivation import derive, entries_of
from checks.manifests import Object
from checks.reports import remark
from cli.completion import complete_projects
from cli.explanations.explanation import as_yaml
from cli.options.explained_objects import (
    ExplainedObjects,
    configuration_of,
    explained_object_options,
    gather,
    read_objects,
)
from cli.roles.kind_names import Kinds, Named, defined, discovered
from cli.roles.sync_roles import Needs, impersonation, rights
from tiphys.errors import CallError, ObjectError

CONTROLLER = "argocd-application-controller"


@click.command()
@click.argument("project", shell_complete=complete_projects)
@click.option(
    "--user",
    help=f"Who syncs.  [default: the service account {CONTROLLER} in Argo CD's namespace]",
)
@click.option(
    "--manifests",
    multiple=True,
    help="A file or folder of rendered manifests: also print what the account needs for them.",
)
@click.option(
    "--server", default=names.IN_CLUSTER_SERVER, show_default=True, help="The destination's server."
)
@click.option(
    "--namespace",
    "-n",
    help="The destination's namespace; '' for none.  [default: the manifests' only one]",
)
@click.option("--no-prune", is_flag=True, help="Without the right to delete.")
@click.option(
    "--by-name", is_flag=True, help="Only the objects that the manifests name; creating is for all."
)
@explained_object_options
def command(*, project: str, user: str | None, manifests: tuple[str, ...], **given: Any) -> None:
    """Print the roles that let Argo CD sync as the accounts of a project, and no others.

    A Role where the account's namespace is known, a ClusterRole where the Application decides it; both name
    the accounts. With --manifests also the Roles that the account itself needs for these.
    """
    things = read_objects(manifests, configuration_of(given))
    kinds: dict[tuple[str, str], Named] = {}

    async def fetch(store: Any, _: Any) -> None:
        kinds.update(await discovered(store, things))

    known = gather(given, fetch=fetch)
    kinds = {**defined([*things, *known.objects]), **kinds}
    found = known.project(project)
    if found is None:
        raise CallError(f"there is no project {project} {known.where}")
    grants = grants_for(
        _on_server(found, given["server"]), behaviour=known.configuration.impersonation.behaviour
    )
    if not grants:
        raise ObjectError(
            f"project {project} names no account for {given['server']}: see spec.destinationServiceAccounts, --server"
        )
    user = user or f"{names.SERVICE_ACCOUNT_PREFIX}{known.configuration.argocd.namespace}:{CONTROLLER}"
    roles = list(impersonation(project, grants, user=user))
    if manifests:
        roles += _rights(known, found, things, kinds, given)
    _print(roles, form=given["form"])


def _on_server(project: Object, server: str) -> Object:
    """The project with the entries that are about one cluster: roles are applied to one."""
    entries = [
        entry
        for entry in reading.sequence(project, "spec", "destinationServiceAccounts")
        if globs.match(reading.text(entry, "server"), server) is globs.Verdict.YES
    ]
    return {**project, "spec": {**reading.mapping(project, "spec"), "destinationServiceAccounts": entries}}


def _rights(
    known: ExplainedObjects, project: Object, things: list[Object], kinds: Kinds, given: dict[str, Any]
) -> list[Object]:
    namespace = _only_namespace(things) if given["namespace"] is None else given["namespace"]
    found = derive(
        entries_of(project),
        server=given["server"],
        destination_namespace=namespace,
        application_namespace=known.configuration.argocd.namespace,
    )
    name = reading.text(project, "metadata", "name")
    if not found.user:
        said = found.error or "no entry matches"
        raise ObjectError(
            f"project {name} has no account for {given['server']} and namespace {namespace}: {said}"
        )
    home, _, account = found.user.removeprefix(names.SERVICE_ACCOUNT_PREFIX).partition(":")
    needs = Needs(kinds)
    for thing in things:
        needs.add(thing, destination_namespace=namespace)
    roles = list(
        rights(name, (home, account), needs, pruning=not given["no_prune"], by_name=given["by_name"])
    )
    for note in needs.notes:
        remark(note)
    return roles


def _only_namespace(things: Iterable[Object]) -> str:
    found = {reading.text(thing, "metadata", "namespace") for thing in things} - {""}
    if len(found) != 1:
        told = f"{len(found)} namespaces" if found else "no namespace"
        raise CallError(
            f"the manifests name {told}: say with --namespace which one the Application has, '' for none"
        )
    return found.pop()


def _print(roles: list[Object], *, form: str) -> None:
    if form == "json":
        click.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": roles}, indent=2))
        return
    click.echo("---\n".join(as_yaml(role) for role in roles), nl=False)
