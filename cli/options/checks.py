"""What `tiphys check` and `tiphys scan` share: by which rules, how it is told, what fails."""

from pathlib import Path

import click

from argocd.judging.case import Action, Profile
from checks.findings import CheckResult
from checks.reports import FORMATS
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
        help="deny, warn, audit or off; may be repeated.",
    ),
)

report_format_option = format_option(FORMATS)

output_option = click.option(
    "--output", type=click.Path(path_type=Path), help="Write the report here instead of to standard output."
)

fail_on_option = click.option(
    "--fail-on",
    type=click.Choice([Action.DENY.value, Action.WARN.value]),
    default=Action.DENY.value,
    show_default=True,
)


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
    if result.fails(fail_on=Action(fail_on)):
        raise click.exceptions.Exit(1)
