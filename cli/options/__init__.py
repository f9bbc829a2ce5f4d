"""Options that commands share."""

from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from cli.output import DATA_FORMS, TEXT

F = TypeVar("F", bound=Callable[..., Any])


def combined(*options: Callable[[F], F]) -> Callable[[F], F]:
    """In the order in which they are shown."""

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def format_option(
    forms: Iterable[str] = DATA_FORMS, *, default: str = TEXT, text: str = "For people or for programs."
) -> Callable[[F], F]:
    """The one name of it: reports, lists and answers have it, each with its own forms. Functions call it `form`, for `format`
    is Python's.
    """
    choice = click.Choice(list(forms))
    option = click.option("--format", "-o", type=choice, default=default, show_default=True, help=text)

    def add(command: F) -> F:
        @wraps(command)
        def called(*args: Any, **given: Any) -> Any:
            return command(*args, form=given.pop("format"), **given)

        return cast("F", option(called))

    return add


def configuration_option(text: str = "Tiphys's configuration.") -> Callable[[F], F]:
    return click.option("--config", type=click.Path(path_type=Path), help=text)
