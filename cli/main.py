"""The one command. Subcommands are imported when they are asked for, so `--version` stays quick."""

import gc
import importlib
import os
import sys
import traceback
from types import TracebackType
from typing import Any

import click
from click.shell_completion import CompletionItem

from tiphys import __version__
from tiphys.errors import TiphysError

SUBCOMMANDS: dict[str, tuple[str, str]] = {
    "agent": ("cli.commands.agent", "Keep a workload cluster's Argo CD in step with its principal."),
    "agents": (
        "cli.commands.agents",
        "The agents that a principal knows: create, list, inspect, block, remove.",
    ),
    "check": ("cli.commands.check", "Judge manifests in a pipeline, before they are pushed."),
    "completion": (
        "cli.commands.completion",
        "Print a script that completes commands, agents, projects and rules.",
    ),
    "demo": ("cli.commands.demo", "Show it all at work, on clusters inside this process."),
    "doctor": ("cli.commands.doctor", "Check an installation line by line, and say what to do."),
    "explain": ("cli.commands.explain", "Tell why a project, an account or a tracking mark is what it is."),
    "ha": ("cli.commands.ha", "A pair of principals: status, promote, demote, resume."),
    "inject": ("cli.commands.inject", "Put sidecars into manifests, as the webhook would."),
    "installation-id": ("cli.commands.installation_id", "Show or set the installation id of Argo CD."),
    "match": ("cli.commands.match", "Try patterns the way Argo CD would."),
    "pki": ("cli.commands.pki", "Certificates of principals and agents: init, issue, inspect."),
    "principal": ("cli.commands.principal", "Keep agents in step with the control plane's Argo CD."),
    "rbac": ("cli.commands.rbac", "Print the roles that syncing a project needs, and no more."),
    "review": ("cli.commands.review", "Answer AdmissionReviews from standard input."),
    "rewrite": ("cli.commands.rewrite", "Print a project as it will look on the other side."),
    "scan": ("cli.commands.scan", "Judge what is in a cluster already."),
    "tracking": ("cli.commands.tracking", "Move the objects of all Applications to another tracking method."),
    "webhook": ("cli.commands.webhook", "Answer the API server's reviews; register, unregister, status."),
}
"""Name -> (module of `cli` that has it as `command`, one line of help)."""

GROUPS: dict[str, tuple[str, ...]] = {
    "Look at what is there": ("agents", "doctor", "explain", "ha", "scan"),
    "Judge and prepare manifests": ("check", "inject", "match", "rbac", "review", "rewrite"),
    "Set up": ("completion", "installation-id", "pki", "tracking"),
    "Run": ("agent", "demo", "principal", "webhook"),
}
"""As the help shows them."""

INTERRUPTED = 130  # as shells say of a process that SIGINT ended


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SUBCOMMANDS:
            return None
        gc.disable()  # what is loaded stays: looking for garbage in it finds none
        try:
            module = importlib.import_module(SUBCOMMANDS[cmd_name][0])
        finally:
            gc.freeze()  # nor later
            gc.enable()
        command: click.Command = module.command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """From the table: click would import all subcommands for their help."""
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        return [
            CompletionItem(name, help=line)
            for name, (_, line) in sorted(SUBCOMMANDS.items())
            if name.startswith(incomplete)
        ]

    def invoke(self, ctx: click.Context) -> Any:
        """Also while a subcommand is being loaded; click would say "Aborted!" and end with 1."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, SUBCOMMANDS[name][1]) for name in names])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from argocd.spelling import did_you_mean  # noqa: PLC0415 - only for who mistyped

            meant = did_you_mean(args[0], SUBCOMMANDS)
            raise click.UsageError(error.message.rstrip(".") + (meant or "."), ctx) from None


@click.group(cls=LazyGroup)
@click.version_option(__version__, prog_name="tiphys", allow_from_autoenv=False)
def tiphys() -> None:
    """An admission webhook and a set of sidecars for Argo CD."""


def main() -> None:
    """Ends with 0, with 1 for bad objects, with 2 for a bad call or bad surroundings, and one line for each.

    Ctrl-C ends quietly with 130; a command that serves leaves in order, with 0.
    """
    sys.excepthook = _show_bug
    if any(name.startswith("TIPHYS_") and "://" in value for name, value in os.environ.items()):
        # Not at the top: `tiphys --version` answers without it.
        from tiphys.settings import forget_service_links  # noqa: PLC0415

        forget_service_links(os.environ)
    try:
        tiphys(prog_name="tiphys", auto_envvar_prefix="TIPHYS")
    except TiphysError as error:
        _show(f"tiphys: {error}\n")
        sys.exit(error.exit_code)


def _show_bug(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """A traceback is for our own mistakes."""
    _show("".join(traceback.format_exception(kind, error, trace)))


def _show(text: str) -> None:
    """Without secrets: what went wrong may quote what it was given."""
    from tiphys.redaction import redacted_text  # noqa: PLC0415 - as above

    click.echo(redacted_text(text), err=True, nl=False)
