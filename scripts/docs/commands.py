"""Every command with its flags, the environment's names for them and their defaults."""

import importlib
from collections.abc import Iterator
from typing import Any

import click

from cli.main import SUBCOMMANDS

PAGE = "docs/commands.md"

HEAD = """# Commands

Settings come from flags, then from the environment, then, where a command has `--settings`, from the file that it
names, then from the defaults below; in the file a setting is called as its flag, without the dashes. Exit codes: 0
is well, 1 means that an object is bad, 2 that the call or the surroundings are.
"""


def generate() -> str:
    parts = [HEAD]
    for name in sorted(SUBCOMMANDS):
        module, line = SUBCOMMANDS[name]
        parts += _pages(importlib.import_module(module).command, path=name, line=line)
    return "\n".join(parts)


def _pages(command: click.Command, *, path: str, line: str = "") -> Iterator[str]:
    text = (command.help or line).split("\f")[0].strip()
    arguments = "".join(
        f" {param.human_readable_name}" for param in command.params if isinstance(param, click.Argument)
    )
    yield f"## `tiphys {path}{arguments}`\n\n{text}\n"
    options = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
    if options:
        yield "| flag | environment | default | |\n|---|---|---|---|"
        for option in options:
            yield _row(option, path=path)
        yield ""
    if isinstance(command, click.Group):
        for name in sorted(command.commands):
            if not command.commands[name].hidden:
                yield from _pages(command.commands[name], path=f"{path} {name}")


def _row(option: click.Option, *, path: str) -> str:
    flags = ", ".join(f"`{flag}`" for flag in [*option.opts, *option.secondary_opts])
    own = f"tiphys_{path}_{option.name}".replace(" ", "_").replace("-", "_").upper()
    given = option.envvar or own
    variables = ", ".join(f"`{each}`" for each in ([given] if isinstance(given, str) else given))
    return f"| {flags} | {variables} | {_default(option.default)} | {_cell(option.help or '')} |"


def _default(value: Any) -> str:
    if (
        value is None
        or isinstance(value, bool)
        or value in ("", ())
        or callable(value)
        or type(value).__name__ == "Sentinel"
    ):
        return "on" if value is True else ""
    return f"`{value}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
