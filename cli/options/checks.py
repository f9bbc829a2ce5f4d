"""What `tiphys check` and `tiphys scan` share: by which rules, how it is told, what fails."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from argocd.engine.configuration_file import parse_rules
from argocd.judging.case import Action, Profile
from argocd.judging.configuration import group_of
from checks.findings import CheckResult
from checks.report_forms import FORMATS
from cli.completion import complete_rules
from cli.options import combined, format_option
from tiphys.errors import CallError

rule_options = combined(
    click.option(
        "--profile",
        type=click.Choice([profile.value for profile in Profile]),
        help="Instead of the configuration's.",
    ),
    click.option(
        "--rule",
        "rules",
        multiple=True,
        metavar="ID=ACTION",
        shell_complete=complete_rules,
        help="deny, warn, audit or off; may be repeated.",
    ),
)

report_format_option = format_option(
    FORMATS, text="How the report is written; wide has a line for each finding, name where they are."
)

output_option = click.option(
    "--output", type=click.Path(path_type=Path), help="Write the report here instead of to standard output."
)

fail_on_option = click.option(
    "--fail-on",
    type=click.Choice([Action.DENY.value, Action.WARN.value]),
    default=Action.DENY.value,
    show_default=True,
    help="Which findings end it with 1: denials alone, or warnings too.",
)


only_option = click.option(
    "--only",
    multiple=True,
    metavar="RULE",
    shell_complete=complete_rules,
    help="Tell of this rule, or of group/*, alone; may be repeated.",
)


def only_rules(result: CheckResult, only: Sequence[str]) -> CheckResult:
    """The findings of these rules; everything that could not be read stays."""
    if not only:
        return result
    _, problems = parse_rules(dict.fromkeys(only, Action.DENY.value))
    if problems:
        raise CallError(f"--only: {problems[0].message}")
    wanted = set(only)
    findings = [found for found in result.findings if found.rule in wanted or group_of(found.rule) in wanted]
    return replace(result, findings=findings)


def write_report(report: str, output: Path | None) -> None:
    if output:
        write_file(output, click.unstyle(report) if "\x1b" in report else report)
    else:
        click.echo(report, nl=False)


def write_file(path: Path, content: str) -> None:
    try:
        path.write_bytes(content.encode())  # as it is: no line end is changed
    except OSError as error:
        raise CallError(f"{path}: {error.strerror}") from error


def end_with(result: CheckResult, *, fail_on: str) -> None:
    """2 if something could not be read, 1 if something fails; else it goes on."""
    if result.unreadable:
        raise click.exceptions.Exit(2)
    if result.failing(fail_on=Action(fail_on)):
        raise click.exceptions.Exit(1)
