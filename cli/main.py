"""The one command. Subcommands are imported when they are asked for, so `--version` stays quick."""

import importlib
import sys

import click

from tiphys import __version__
from tiphys.errors import TiphysError

SUBCOMMANDS: dict[str, tuple[str, str]] = {}
"""Name -> (module of `cli` that has it as `command`, one line of help)."""


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SUBCOMMANDS:
            return None
        module = importlib.import_module(SUBCOMMANDS[cmd_name][0])
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, SUBCOMMANDS[name][1]) for name in self.list_commands(ctx)])


@click.group(cls=LazyGroup)
@click.version_option(__version__, prog_name="tiphys")
def tiphys() -> None:
    """An admission webhook and a set of sidecars for Argo CD."""


def main() -> None:
    try:
        tiphys(prog_name="tiphys")
    except TiphysError as error:
        click.echo(f"tiphys: {error}", err=True)
        sys.exit(error.exit_code)
