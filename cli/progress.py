"""How far a long run is, on a terminal; elsewhere nothing, and without the tenth of a second that rich costs."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Advance(Protocol):
    """By how many, and the task's new description."""

    def __call__(self, count: int = 1, description: str | None = None, /) -> None: ...


@contextmanager
def progress(*texts: str, description: str = "", total: int | None = None) -> Iterator[Advance]:
    """A spinner before `texts`, in rich's notation (`{task.completed}`); without them rich's bar."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    # Only here, for the reason above.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress, SpinnerColumn, TextColumn  # noqa: PLC0415

    columns = (SpinnerColumn(), *map(TextColumn, texts)) if texts else ()
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(description, total=total)

        def advance(count: int = 1, new: str | None = None, /) -> None:
            shown.update(task, advance=count, description=new)

        yield advance
