"""How far a long run is, on a terminal; elsewhere nothing, and without the tenth of a second that rich costs."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress


class Advance:
    """Shows nothing: standard error is no terminal."""

    shown = False

    def __call__(self, count: int = 1, description: str | None = None, /) -> None:
        """By how many, and the task's new description."""

    def expect(self, total: int | None) -> None:
        """How many there will be; None: nobody knows."""


class _ShownAdvance(Advance):
    shown = True

    def __init__(self, bar: "Progress", *, description: str, total: int | None) -> None:
        self._bar = bar
        self._task = bar.add_task(description, total=total)

    def __call__(self, count: int = 1, description: str | None = None, /) -> None:
        self._bar.update(self._task, advance=count, description=description)

    def expect(self, total: int | None) -> None:
        self._bar.update(self._task, total=total)


@contextmanager
def progress(*texts: str, description: str = "", total: int | None = None) -> Iterator[Advance]:
    """A bar, with a spinner before and `texts` beside it, in rich's notation (`{task.completed}`)."""
    if not sys.stderr.isatty():
        yield Advance()
        return
    # Only here, for the reason above.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        Progress,
        SpinnerColumn,
        TaskProgressColumn,
        TextColumn,
    )

    # No markup: texts name users' objects, and a bracket in a reason is none of rich's.
    beside = [TextColumn(text, markup=False) for text in texts]
    columns = (SpinnerColumn(), BarColumn(), TaskProgressColumn(), *beside) if texts else ()
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        yield _ShownAdvance(shown, description=description, total=total)
