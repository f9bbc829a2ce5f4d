"""`tiphys check`: the webhook's rules before the push."""

import os
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import click

from argocd.judging.configuration import Configuration
from checks.baseline import baseline_of, without_known
from checks.check import MANY_FILES, judge_files
from checks.configuration import CONFIGURATION_FILE, find_configuration, read_configuration, with_rules
from checks.findings import CheckResult, PlacedFinding
from checks.known_objects import KnownObjects
from checks.manifests import STDIN_NAME, find_files
from checks.reports import FORMATS, remark, visible
from cli.options import configuration_option
from cli.options.checks import (
    end_with,
    fail_on_option,
    output_option,
    report_format_option,
    rule_options,
    write_file,
    write_report,
)
from cli.options.cluster import ask, optional_cluster_options
from cli.progress import progress


@click.command()
@click.argument("paths", nargs=-1, required=True)
@rule_options
@configuration_option(f"Instead of the {CONFIGURATION_FILE} found upwards from the path.")
@report_format_option
@output_option
@click.option(
    "--baseline",
    type=click.Path(path_type=Path),
    help="Known findings: they are not reported and do not fail.",
)
@click.option(
    "--write-baseline", type=click.Path(path_type=Path), help="Write all findings of this run as known ones."
)
@click.option(
    "--fix",
    is_flag=True,
    help="Mend what has one answer, such as entries that are there twice: shows the diff.",
)
@click.option("--yes", is_flag=True, help="With --fix: write the files instead of showing the diff.")
@fail_on_option
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    help=f"Processes, from {MANY_FILES} files on.  [default: one a core]",
)
@optional_cluster_options
def command(
    *,
    paths: tuple[str, ...],
    profile: str | None,
    rules: tuple[str, ...],
    config: Path | None,
    form: str,
    output: Path | None,
    baseline: Path | None,
    write_baseline: Path | None,
    fix: bool,
    yes: bool,
    fail_on: str,
    jobs: int | None,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Judge manifests in files, folders, globs or standard input (-).

    The manifests of one run know each other; with --context or --kubeconfig they know what is in that
    cluster too. Ends with 0 if nothing is denied, 1 if something is, 2 if something could not be read: the
    rest is judged all the same.
    """
    configuration, excluded = read_configuration(config or find_configuration(paths[0]))
    configuration = with_rules(configuration, profile=profile, rules=rules)
    skipped: list[str] = []
    files = list(find_files(paths, skipped=skipped, exclude=excluded))
    for line in skipped:
        remark(f"skipped {line}")
    around = _survey(configuration, kubeconfig, context) if kubeconfig or context else None
    result = _judge(files, configuration, jobs=jobs or os.cpu_count() or 1, around=around)
    if fix and _mend(result, really=yes, aside=form != "text"):
        result = _judge(files, configuration, jobs=jobs or os.cpu_count() or 1, around=around)
    if write_baseline:
        write_file(write_baseline, baseline_of(result.findings))
    if baseline:
        result = replace(result, findings=without_known(result.findings, baseline))
    write_report(FORMATS[form](result), output)
    end_with(result, fail_on=fail_on)


def _survey(configuration: Configuration, kubeconfig: Path | None, context: str | None) -> KnownObjects:
    # Only here: the client costs more than all the rules.
    from checks.survey import survey  # noqa: PLC0415

    given = {"kubeconfig": kubeconfig, "context": context}
    known = ask(given, lambda store: survey(store, configuration))
    for note in known.notes:
        remark(note)
    return known


def _mend(result: CheckResult, *, really: bool, aside: bool) -> bool:
    """Whether a file was written. The diff stands `aside` where a program reads standard output."""
    from checks.fixes import difference, fixed  # noqa: PLC0415 - few runs mend

    by_file: dict[str, list[PlacedFinding]] = {}
    for found in result.findings:
        if found.place.file != STDIN_NAME:
            by_file.setdefault(found.place.file, []).append(found)
    made = 0
    for file, findings in by_file.items():
        before, after, edits = fixed(file, findings)
        made += edits
        if edits and really:
            write_file(Path(file), after)
        elif edits:
            shown = difference(file, before, after)
            stream = sys.stderr if aside else sys.stdout
            # Exact where a program may apply it, harmless where a terminal would obey it.
            click.echo(visible(shown) if stream.isatty() else shown, nl=False, err=aside)
    if made:
        said = "mended" if really else "can be mended: --yes does it"
        click.echo(f"{made} place{'s' if made != 1 else ''} {said}", err=True)
    return bool(made) and really


def _judge(
    files: list[str], configuration: Configuration, *, jobs: int, around: KnownObjects | None = None
) -> CheckResult:
    today = datetime.now(UTC).date()
    if len(files) < MANY_FILES:
        return judge_files(files, configuration, today=today, processes=jobs, around=around)
    with progress(description="judging", total=len(files)) as seen:
        return judge_files(files, configuration, today=today, processes=jobs, seen=seen, around=around)
