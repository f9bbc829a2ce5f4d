"""Options that commands share."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def combined(*options: Callable[[F], F]) -> Callable[[F], F]:
    """In the order in which they are shown."""

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def format_option(forms: Iterable[str] = ("text", "json"), *, text: str | None = None) -> Callable[[F], F]:
    return click.option(
        "--format", "form", type=click.Choice(list(forms)), default="text", show_default=True, help=text
    )


def configuration_option(text: str = "Tiphys's configuration.") -> Callable[[F], F]:
    return click.option("--config", type=click.Path(path_type=Path), help=text)
