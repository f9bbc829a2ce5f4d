"""Explanations as text for a terminal, or as JSON."""

import textwrap
from collections.abc import Mapping
from typing import Any

import click
import yaml

from argocd.explanations.explanation import Explanation, ExplanationStep, Mark, plain
from checks.reports import WIDTH
from cli.output import is_data, show_data
from tiphys.printable import visible

_COLOURS = {Mark.YES: "green", Mark.NO: "red", Mark.NOTE: "cyan"}


def told(explanation: Explanation) -> dict[str, Any]:
    return {"answer": explanation.answer, "good": explanation.good, **explanation.data}


def show(explanation: Explanation, *, form: str) -> None:
    if is_data(form):
        show_data(told(explanation), form)
        return
    colour = {True: "green", False: "red", None: None}[explanation.good]
    for line in _wrapped(explanation.answer, "", ""):
        click.secho(line, fg=colour, bold=True)
    for section in explanation.sections:
        click.echo()
        for line in _wrapped(section.title, "", ""):
            click.secho(line, bold=True)
        for step in section.steps:
            show_step(step)
        if section.manifest is not None:
            click.echo(textwrap.indent(as_yaml(section.manifest), "  "), nl=False)
        if section.example:
            click.echo(textwrap.indent(visible(section.example).strip("\n"), "  "))


def as_yaml(manifest: Mapping[str, Any]) -> str:
    text: str = yaml.safe_dump(plain(manifest), sort_keys=False, allow_unicode=True, width=1000)
    return text


def show_step(step: ExplanationStep, *more: str) -> None:
    """`more` are further remarks."""
    first, *following = _wrapped(step.what, "  x ", "    ")
    mark = click.style(step.mark.value, fg=_COLOURS[step.mark])
    click.echo(f"  {mark} {first[4:]}")
    for line in following:
        click.echo(line)
    for remark in (step.remark, *more):
        for line in _wrapped(remark, "      ", "      ") if remark else ():
            click.echo(line)


def _wrapped(text: str, first: str, following: str) -> list[str]:
    return textwrap.wrap(
        visible(text),
        WIDTH,
        initial_indent=first,
        subsequent_indent=following,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first]
