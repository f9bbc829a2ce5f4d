"""What commands print: data for programs, and lists in the forms that kubectl has."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import click

from tiphys.tables import table

TEXT, WIDE, JSON, YAML, NAME = "text", "wide", "json", "yaml", "name"
DATA_FORMS = (TEXT, JSON, YAML)
LIST_FORMS = (TEXT, WIDE, JSON, YAML, NAME)


JSON_VERSION = 1
"""Raised where a key of what is told to programs goes or changes its meaning."""


def is_data(form: str) -> bool:
    return form in {JSON, YAML}


def show_data(data: Any, form: str) -> None:
    if form == YAML:
        import yaml  # noqa: PLC0415 - most answers need none

        from argocd.explanations.explanation import plain  # noqa: PLC0415

        click.echo(yaml.safe_dump(plain(data), sort_keys=False, allow_unicode=True, width=1000), nl=False)
    else:
        click.echo(json.dumps(data, indent=2, ensure_ascii=False))


def show(given: dict[str, Any], *, lines: Sequence[str], **told: Any) -> None:
    if is_data(given["form"]):
        show_data({"version": JSON_VERSION, **told}, given["form"])
    else:
        click.echo("\n".join(lines))


@dataclass(frozen=True, slots=True)
class ListRow:
    """`more` are the cells that only `wide` shows."""

    name: str
    cells: Sequence[str]
    more: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ListColumns:
    first: Sequence[str]
    more: Sequence[str] = ()

    def lines(self, rows: Iterable[ListRow], form: str) -> list[str]:
        """Of a table with its head, or the names alone."""
        if form == NAME:
            return [row.name for row in rows]
        if form == WIDE:
            return table([*self.first, *self.more], [[*row.cells, *row.more] for row in rows])
        return table(self.first, [row.cells for row in rows])


def show_list(
    columns: ListColumns,
    rows: Sequence[ListRow],
    *,
    form: str,
    empty: str,
    told: Any,
    notes: Sequence[str] = (),
) -> None:
    """`told` is the same for programs; `empty` and `notes` are for people."""
    if is_data(form):
        show_data(told, form)
        return
    lines = columns.lines(rows, form) if rows or form == NAME else [empty]
    for line in lines:
        click.echo(line)
    for note in notes:
        click.echo(note, err=form == NAME)
