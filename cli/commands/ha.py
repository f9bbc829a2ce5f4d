"""`tiphys ha`: who of a pair of principals is active."""

import asyncio
import getpass
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import sidecars.wire  # noqa: F401  isort: skip - grpc reads its ciphers when it is first imported

import click

from certs.key_pair import KeyPair, Material
from cli.explanations.ha_status import HELD_COLUMNS, first_sync, held_rows, not_in_step, status_lines
from cli.options import combined, format_option
from cli.output import LIST_FORMS, NAME, WIDE, is_data, show, show_list
from cli.progress import progress
from sidecars.fleet.ha_client import HaClient
from sidecars.wire.generated import hacontrol_pb2
from tiphys import settings
from tiphys.command_group import CommandGroup
from tiphys.errors import CallError, SurroundingsError
from tiphys.printable import visible

T = TypeVar("T")
# Often enough for somebody who looks on.
PAUSE_SECONDS = 0.5
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

principal_options = combined(
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
)
ha_options = combined(principal_options, format_option())
REASON = click.option("--reason", default="", help="Why; it is kept in the audit trail.")


@click.group(cls=CommandGroup)
def command() -> None:
    """A pair of principals: one active, one that follows. Nobody promotes itself; you do.

    Exit code 1: the principal refused and said why, nothing has changed; 2: it could not be asked; 3: it may have
    happened, look at both sides.
    """


class NotInStepError(SurroundingsError):
    """The pair was given time, and it was not enough."""

    exit_code = 1


@command.command("status")
@principal_options
@format_option(LIST_FORMS, text="For people or for programs; wide and name list what is held.")
@click.option("--held", is_flag=True, help="List what is held back since a promotion.")
@click.option(
    "--wait",
    type=settings.DURATION,
    default="0",
    help="How long to look again, such as 10m, until both sides are in step; ends with 1 where they are not.",
)
def status_command(*, held: bool, wait: float, **given: Any) -> None:
    """Both sides: state, epoch, lag, digests, who is connected, what is held."""
    form = given["form"]
    if form in {WIDE, NAME} and not held:
        raise CallError(f"-o {form} is a form of lists: say --held too")
    told = _ask(given, lambda client: _in_step(client, seconds=wait) if wait else client.status())
    _show_status(told, given, held=held)
    if wait and (why := not_in_step(told)):
        raise NotInStepError(f"the pair is not in step: {why}")


def _show_status(told: dict[str, Any], given: dict[str, Any], *, held: bool) -> None:
    form = given["form"]
    if form in {WIDE, NAME}:
        rows = held_rows(told)
        show_list(HELD_COLUMNS, rows, form=form, empty="nothing is held back", told=told)
        return
    if not held:
        told.pop("held", None)
    show(given, lines=status_lines(told), **told)


async def _in_step(client: HaClient, *, seconds: float) -> dict[str, Any]:
    """What it told last. A principal that does not answer may be starting, or its port-forward."""
    deadline = time.monotonic() + seconds
    with progress("{task.description}") as advance:
        shown = 0
        while True:
            try:
                told = await client.status()
            except SurroundingsError:
                if time.monotonic() >= deadline:
                    raise
            else:
                why, (written, total) = not_in_step(told), first_sync(told)
                advance.expect(total)
                advance(written - shown, visible(why))
                shown = written
                if not why or time.monotonic() >= deadline:
                    return told
            await asyncio.sleep(min(PAUSE_SECONDS, max(deadline - time.monotonic(), 0.0)))


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
            if not is_data(given["form"]):
                click.echo(line)
        return lines

    lines = _ask(given, steps)
    if is_data(given["form"]):
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
