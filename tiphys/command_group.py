"""Groups of commands whose help says the whole of each command's first sentence: click cuts it off after a few words."""

import click

LONGEST = 1000
"""Characters of a sentence, which no docstring reaches."""


class CommandGroup(click.Group):
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, found.get_short_help_str(LONGEST)) for name, found in commands if found is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
