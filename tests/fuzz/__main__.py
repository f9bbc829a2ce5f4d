"""`python -m tests.fuzz`: targets for as long as one likes; ends with 1 if something went wrong."""

import tempfile
from pathlib import Path

import click

from tests.fuzz.target import fuzz
from tests.fuzz.targets import TARGETS


@click.command()
@click.option("--hours", type=float, default=0.01, show_default=True, help="For each target.")
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--target", "names", multiple=True, type=click.Choice(sorted(TARGETS)))
def main(hours: float, seed: int, names: tuple[str, ...]) -> None:
    """Fuzz all targets, or those that are named."""
    folder = Path(tempfile.mkdtemp(prefix="tiphys-fuzz-"))
    failed = False
    for name in names or sorted(TARGETS):
        outcome = fuzz(name, seconds=hours * 3600, seed=seed, folder=folder)
        click.echo(outcome.failure or f"{name}: {outcome.inputs} inputs, the slowest {outcome.slowest:.2f} s")
        failed = failed or bool(outcome.failure)
    raise click.exceptions.Exit(int(failed))


if __name__ == "__main__":
    main()
