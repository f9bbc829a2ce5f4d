"""`tiphys completion`: the script by which a shell completes our words."""

import click
from click.shell_completion import get_completion_class

from tiphys.errors import CallError

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print a script for the shell: `source <(tiphys completion bash)`, or the same into its folder of completions.

    It completes commands and flags, agents, projects and Applications as the cluster has them, contexts and rules.
    """
    from cli.main import tiphys  # noqa: PLC0415 - it imports this module

    made = get_completion_class(shell)
    assert made is not None, shell
    try:
        click.echo(made(tiphys, {}, "tiphys", "_TIPHYS_COMPLETE").source())
    except RuntimeError as error:
        raise CallError(f"{shell}: {error}") from error
