"""`tiphys ha`: who of a pair of principals is active."""

import asyncio
import getpass
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import sidecars.wire  # noqa: F401  isort: skip - grpc reads its ciphers when it is first imported

import click

from certs.key_pair import KeyPair, Material
from cli.explanations.ha_status import status_lines
from cli.options import combined, format_option
from cli.options.fleet import show
from sidecars.fleet.ha_client import HaClient
from sidecars.wire.generated import hacontrol_pb2
from tiphys.errors import CallError, SurroundingsError

T = TypeVar("T")
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

ha_options = combined(
    click.option(
        "--address",
        "-a",
        envvar="TIPHYS_HA_ADDRESS",
        default="127.0.0.1:8405",
        show_default=True,
        help="The principal's admin port: in its pod, or through kubectl port-forward.",
    ),
    click.option("--tls-cert", type=FILE, help="A certificate that --ha-admin-auth lets in."),
    click.option("--tls-key", type=FILE, help="Its key."),
    click.option("--tls-ca", type=FILE, help="The authority of the principal's certificate."),
    format_option(text="For people or for programs."),
)
REASON = click.option("--reason", default="", help="Why; it is kept in the audit trail.")


@click.group()
def command() -> None:
    """A pair of principals: one active, one that follows. Nobody promotes itself; you do.

    Exit code 1: the principal refused and said why; 2: it could not be asked.
    """


@command.command("status")
@ha_options
@click.option("--held", is_flag=True, help="List what is held back since a promotion.")
def status_command(**given: Any) -> None:
    """Both sides: state, epoch, lag, digests, who is connected, what is held."""
    told = _ask(given, HaClient.status)
    if not given["held"]:
        told.pop("held", None)
    show(given, lines=status_lines(told), **told)


@command.command("promote")
@ha_options
@REASON
@click.option(
    "--force", is_flag=True, help="Although something speaks against it; needs --reason and --epoch."
)
@click.option(
    "--epoch", type=click.IntRange(min=0), help="The highest epoch that `tiphys ha status` showed you."
)
def promote_command(**given: Any) -> None:
    """Make this replica the active one. Refused, with figures, where something would be lost."""
    _change_role(given, "Promote")


@command.command("demote")
@ha_options
@REASON
def demote_command(**given: Any) -> None:
    """Make this active one a replica of the other, once that is active."""
    _change_role(given, "Demote")


@command.command("switchover")
@ha_options
@REASON
@click.option("--dry-run", is_flag=True, help="Only say what would happen.")
def switchover_command(**given: Any) -> None:
    """Hand over from this active one to its replica: nothing is lost, and all is undone where the replica cannot follow."""

    async def steps(client: HaClient) -> list[str]:
        lines = []
        async for line in client.switchover(_word(given), dry_run=given["dry_run"]):
            lines.append(line)
            if given["form"] != "json":
                click.echo(line)
        return lines

    lines = _ask(given, steps)
    if given["form"] == "json":
        show(given, lines=[], steps=lines, dryRun=given["dry_run"])


@command.command("resume")
@ha_options
@REASON
@click.option("--bootstrap", is_flag=True, help="Begin a new pair: neither side has a record.")
def resume_command(**given: Any) -> None:
    """Let a principal serve that was active and waits, because its peer does not answer."""
    _change_role(given, "Resume", bootstrap=given["bootstrap"])


@command.command("accept-deletions")
@ha_options
@REASON
@click.argument("kind")
def accept_deletions_command(kind: str, **given: Any) -> None:
    """Let this replica delete what its primary does not have, of a KIND of which that is suspiciously much."""
    count = _ask(given, lambda client: client.accept_deletions(kind, _word(given)))
    show(given, lines=[f"{count} {kind} will be deleted on this replica"], count=count, kind=kind)


@command.command("release")
@ha_options
@REASON
@click.option("--agent", default="", help="Of one agent only.")
def release_command(**given: Any) -> None:
    """Let the comparison speak about objects that agents have and this promoted principal does not know.

    They are deleted on the agents, with their workloads. Look at `tiphys ha status --held` first.
    """
    count = _ask(given, lambda client: client.release(given["agent"], _word(given)))
    show(given, lines=[f"{count} objects are no longer held back"], count=count)


def _change_role(given: dict[str, Any], call: str, *, bootstrap: bool = False) -> None:
    state, epoch = _ask(given, lambda client: client.change_role(call, _word(given), bootstrap=bootstrap))
    show(given, lines=[f"{state}, epoch {epoch}"], state=state, epoch=epoch)


def _word(given: dict[str, Any]) -> Any:
    return hacontrol_pb2.Word(
        who=f"{getpass.getuser()}@{socket.gethostname()}",
        reason=given["reason"],
        force=given.get("force", False),
        epoch=given.get("epoch"),
    )


def _ask(given: dict[str, Any], question: Callable[[HaClient], Awaitable[T]]) -> T:
    async def asked() -> T:
        return await question(HaClient(address=given["address"], material=_material(given)))

    return asyncio.run(asked())


def _material(given: dict[str, Any]) -> Material | None:
    files = [given["tls_cert"], given["tls_key"], given["tls_ca"]]
    if not any(files):
        return None
    if not all(files):
        raise CallError("--tls-cert, --tls-key and --tls-ca: all of them or none")
    try:
        certificate, key, roots = (path.read_bytes() for path in files)
    except OSError as error:
        raise SurroundingsError(f"{error.filename}: {error.strerror}") from error
    pair = KeyPair.checked(certificate=certificate, key=key, origin=str(given["tls_cert"]))
    return Material(pair=pair, roots=roots)
