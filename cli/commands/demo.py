"""`tiphys demo`: the webhook, two principals and two agents at work, on four clusters inside this process or real ones."""

import asyncio
import contextlib
from functools import partial
from typing import Any, TextIO

import click

from checks.files.content import FILE_LIMIT
from cli.options import format_option
from cli.output import JSON, LIST_FORMS, TEXT, YAML, ListColumns, ListRow, show_data, show_list
from demo.clusters import CONTROL_PLANE, KINDS, NAMESPACES_OF
from demo.control_socket import ask
from kube.store import Object
from tiphys import logs, safe_yaml
from tiphys.command_group import CommandGroup
from tiphys.errors import CallError
from tiphys.running import run

# A stream's farewell takes up to 5 s; nothing else here needs as long. Real API servers end after it.
LEAVE_SECONDS, LEAVE_CLUSTERS_SECONDS = 10.0, 25.0
FAREWELL = "The demonstration has ended; it leaves nothing behind."

COLUMNS = ListColumns(("NAME", "CREATED"), ("NAMESPACE", "UID"))
CLUSTER = click.option(
    "--cluster",
    type=click.Choice(list(NAMESPACES_OF)),
    default=CONTROL_PLANE,
    show_default=True,
    help="Which of the four.",
)


@click.group(cls=CommandGroup, invoke_without_command=True)
@click.option("--once", is_flag=True, help="End after the story instead of waiting for Ctrl-C.")
@click.option(
    "--cluster",
    is_flag=True,
    help="On real local API servers, with kubeconfigs for kubectl; needs a source checkout.",
)
@click.option(
    "--argocd",
    is_flag=True,
    help="With --cluster: a real Argo CD too, and an Application that it syncs; needs Go, Redis and Git.",
)
@click.pass_context
def command(ctx: click.Context, *, once: bool, cluster: bool, argocd: bool) -> None:
    """Tell a short story on clusters inside this process, then stay up."""
    if ctx.invoked_subcommand is not None:
        return
    if argocd and not cluster:
        raise CallError("--argocd starts Argo CD on real API servers: say --cluster too")
    # Whoever interrupts before the first line has seen as much as he wanted.
    with contextlib.suppress(KeyboardInterrupt):
        logs.configure(level="error")

        # Not at the top: apply and get need neither the webhook nor the sidecars.
        from demo.demonstration import Stage, demonstrate  # noqa: PLC0415
        from demo.local_clusters import check_source_checkout  # noqa: PLC0415

        stage = Stage.EMBEDDED
        if cluster:
            check_source_checkout()
            stage = Stage.LOCAL_WITH_ARGO_CD if argocd else Stage.LOCAL
        run(
            partial(demonstrate, once=once, stage=stage),
            grace=LEAVE_CLUSTERS_SECONDS if cluster else LEAVE_SECONDS,
        )
    click.echo(FAREWELL)


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
        read = [safe_yaml.build(node) for node in safe_yaml.compose(file.read(FILE_LIMIT))]
    except (safe_yaml.YamlError, UnicodeDecodeError) as error:
        raise CallError(f"{file.name}: is no YAML: {error}") from error
    things = [thing for thing in read if thing]
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
@format_option(LIST_FORMS)
def get_command(kind: str, name: str, namespace: str, cluster: str, form: str) -> None:
    """Show what a cluster of the demonstration that is running has: a list, or the one NAME."""
    objects = _ask({"cluster": cluster, "get": kind, "name": name, "namespace": namespace})
    if name and form in {TEXT, YAML, JSON}:
        show_data(objects[0], JSON if form == JSON else YAML)
        return
    show_list(
        COLUMNS,
        [_row(thing) for thing in objects],
        form=form,
        empty=f"no {kind} on {cluster}",
        told=objects,
    )


def _row(thing: Object) -> ListRow:
    metadata = thing["metadata"]
    cells = (metadata["name"], metadata.get("creationTimestamp", ""))
    return ListRow(metadata["name"], cells, (metadata.get("namespace", ""), metadata.get("uid", "")))


def _ask(request: dict[str, Any]) -> list[Object]:
    answer = asyncio.run(ask(request))
    for line in answer.lines:
        click.echo(line)
    if answer.failed:
        raise click.exceptions.Exit(1)
    return answer.objects
