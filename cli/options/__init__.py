"""Options that commands share."""

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def combined(*options: Callable[[F], F]) -> Callable[[F], F]:
    """In the order in which they are shown."""

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add
