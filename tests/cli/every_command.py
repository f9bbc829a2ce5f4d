"""All commands, as the command line itself has them: a new one is tested without being named."""

from collections.abc import Iterator

import click

from cli.main import tiphys


def commands(group: click.Command = tiphys, *words: str) -> Iterator[tuple[str, click.Command]]:
    if isinstance(group, click.Group):
        with click.Context(group) as ctx:
            for name in group.list_commands(ctx):
                found = group.get_command(ctx, name)
                assert found
                yield from commands(found, *words, name)
    else:
        yield " ".join(words), group
