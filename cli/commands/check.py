"""`tiphys check`: the webhook's rules before the push."""

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from argocd.judging.case import Action
from argocd.judging.configuration import Configuration
from checks.baseline import baseline_of, without_known
from checks.check import MANY_FILES, judge_files
from checks.configuration import (
    CONFIGURATION_FILE,
    find_configuration,
    read_configuration,
    read_ignored,
    with_argocd_namespace,
    with_rules,
)
from checks.files.content import STDIN_NAME, UnreadableError, can_be_read_once
from checks.files.search import Search, is_inside, roots_of
from checks.findings import CheckResult, PlacedFinding
from checks.known_objects import KnownObjects
from checks.manifests import Place, Unreadable
from checks.report_forms import written
from checks.reports import remark
from cli.options import configuration_option
from cli.options.checks import (
    end_with,
    fail_on_option,
    only_option,
    only_rules,
    output_option,
    report_format_option,
    rule_options,
    write_file,
    write_report,
)
from cli.options.cluster import ask, optional_cluster_options
from cli.progress import progress
from tiphys.printable import visible

MOST_NOTES = 20
"""Lines about what was passed over; the summary counts all."""


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
@click.option("--argocd-namespace", help="Argo CD's namespace; else the configuration or the files tell it.")
@only_option
@click.option("--quiet", is_flag=True, help="Only what fails, and no summary.")
@click.option(
    "--strict-input", is_flag=True, help="A file that is no manifest is an error, wherever it was found."
)
@click.option(
    "--any-file", is_flag=True, help="Named files may be no manifests, as those of a folder; for hooks."
)
@optional_cluster_options
def command(
    *,
    paths: tuple[str, ...],
    form: str,
    output: Path | None,
    baseline: Path | None,
    write_baseline: Path | None,
    fix: bool,
    yes: bool,
    fail_on: str,
    quiet: bool,
    only: tuple[str, ...],
    **given: Any,
) -> None:
    """Judge manifests in files, folders, globs or standard input (-).

    The manifests of one run know each other; with --context or --kubeconfig they know what is in that
    cluster too. Ends with 0 if nothing is denied, 1 if something is, 2 if a file that was named, or one with
    an object of Argo CD, could not be read: the rest is judged all the same.
    """
    read = read_configuration(given["config"] or find_configuration(paths[0]))
    configuration = with_rules(read.configuration, profile=given["profile"], rules=given["rules"])
    configuration = with_argocd_namespace(configuration, given["argocd_namespace"])
    search = Search(
        exclude=(*read.exclude, *read_ignored(paths[0])),
        never=frozenset(os.path.realpath(own) for own in (baseline, write_baseline, output) if own),
    )
    files = list(search.files(paths, as_found=given["any_file"]))
    if not quiet:
        _tell_skipped(search)
    around = _survey(configuration, given) if given["kubeconfig"] or given["context"] else None
    judge = partial(
        _judge,
        files,
        search,
        configuration,
        jobs=given["jobs"] or os.cpu_count() or 1,
        around=around,
        strict=given["strict_input"],
        namespace_given=bool(given["argocd_namespace"]) or read.namespace_given,
    )
    result = judge()
    if fix and _mend(result, roots_of(paths), really=yes, aside=form != "text"):
        result = judge()
    result = only_rules(result, only)
    if write_baseline:
        write_file(write_baseline, baseline_of(result))
    if baseline:
        result = without_known(result, baseline)
    if quiet:
        result = replace(result, findings=result.failing(fail_on=Action(fail_on)))
    write_report(written(result, form, quiet=quiet), output)
    end_with(result, fail_on=fail_on)


def _tell_skipped(search: Search) -> None:
    for line in search.notes[:MOST_NOTES]:
        remark(f"skipped {line}")
    if len(search.notes) > MOST_NOTES:
        remark(f"skipped {len(search.notes) - MOST_NOTES} more like these")


def _survey(configuration: Configuration, given: dict[str, Any]) -> KnownObjects:
    # Only here: the client costs more than all the rules.
    from checks.survey import survey  # noqa: PLC0415

    known = ask(given, lambda store: survey(store, configuration))
    for note in known.notes:
        remark(note)
    return known


def _judge(
    files: list[str], search: Search, configuration: Configuration, *, jobs: int, **given: Any
) -> CheckResult:
    judge = partial(
        judge_files,
        files,
        configuration,
        today=datetime.now(UTC).date(),
        processes=jobs,
        named=search.named,
        **given,
    )
    if len(files) < MANY_FILES:
        result = judge()
    else:
        with progress(description="judging", total=len(files)) as seen:
            result = judge(seen=seen)
    result.left_alone += search.left_alone
    result.unreadable += [
        Unreadable(Place(path, 0, 0), "nothing to judge: no file of it ends in .yaml, .yml or .json")
        for path in search.nothing
    ]
    return result


def _mend(result: CheckResult, roots: Sequence[str], *, really: bool, aside: bool) -> bool:
    """Whether a file was written. The diff stands `aside` where a program reads standard output."""
    from checks.fixes import difference, fixed  # noqa: PLC0415 - few runs mend

    by_file: dict[str, list[PlacedFinding]] = {}
    for found in result.findings:
        by_file.setdefault(found.place.file, []).append(found)
    made = 0
    seen: set[str] = set()
    for file, findings in by_file.items():
        whole = os.path.realpath(file)
        if file == STDIN_NAME or can_be_read_once(file) or whole in seen:
            continue
        seen.add(whole)
        try:
            before, after, edits = fixed(file, findings)
        except UnreadableError as error:
            remark(f"{file}: not fixed: {error}")
            continue
        if edits and not any(is_inside(whole, root) for root in roots):
            remark(f"{file}: not fixed: it is a link that leads out of what was given")
            continue
        made += edits
        if edits and really:
            write_file(Path(whole), after)
        elif edits:
            shown = difference(file, before, after)
            stream = sys.stderr if aside else sys.stdout
            # Exact where a program may apply it, harmless where a terminal would obey it.
            click.echo(visible(shown) if stream.isatty() else shown, nl=False, err=aside)
    if made:
        said = "fixed" if really else "can be fixed: --yes does it"
        click.echo(f"{made} place{'s' if made != 1 else ''} {said}", err=True)
    return bool(made) and really
