"""An explanation: one answer, the steps that lead to it, and perhaps a manifest. As text or as JSON."""

import json
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import click
import yaml

from checks.reports import WIDTH, visible


class Mark(StrEnum):
    YES = "✓"
    NO = "✗"
    NOTE = "·"

    @classmethod
    def of(cls, holds: bool) -> "Mark":  # noqa: FBT001 - the one thing it is about
        return cls.YES if holds else cls.NO


_COLOURS = {Mark.YES: "green", Mark.NO: "red", Mark.NOTE: "cyan"}


@dataclass(frozen=True, slots=True)
class ExplanationStep:
    mark: Mark
    what: str
    remark: str = ""


@dataclass(slots=True)
class ExplanationSection:
    title: str
    steps: list[ExplanationStep] = field(default_factory=list)
    manifest: Mapping[str, Any] | None = None
    example: str = ""


@dataclass(slots=True)
class Explanation:
    """`data` is what a program reads; the rest says the same to a person."""

    answer: str
    good: bool | None
    data: dict[str, Any]
    sections: list[ExplanationSection] = field(default_factory=list)


def show(explanation: Explanation, *, form: str) -> None:
    if form == "json":
        data = {"answer": explanation.answer, "good": explanation.good, **explanation.data}
        click.echo(json.dumps(data, indent=2, ensure_ascii=False))
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


def plain(value: Any) -> Any:
    """Copies without sharing: YAML would write shared parts as anchors."""
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, list | tuple) else value


def show_step(step: ExplanationStep, *more: str) -> None:
    """`more` are further remarks."""
    first, *following = _wrapped(step.what, "  x ", "    ")
    mark = click.style(step.mark.value, fg=_COLOURS[step.mark])
    click.echo(f"  {mark} {first[4:]}")
    for line in following:
        click.echo(line)
    for told in (step.remark, *more):
        for line in _wrapped(told, "      ", "      ") if told else ():
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
