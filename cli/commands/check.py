"""`tiphys check`: the webhook's rules before the push."""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import click

from argocd.engine.configuration_file import parse_configuration
from argocd.judging.case import Action, Profile
from argocd.judging.configuration import Configuration
from checks.check import MANY_FILES, CheckResult, PlacedFinding, Survey, judge_files, strict
from checks.configuration import read_configuration
from checks.manifests import STDIN, STDIN_NAME, find_files
from checks.reports import FORMATS, fingerprint, remark, visible, without
from cli.options.optional_cluster import reaching
from tiphys.errors import CallError

CONFIGURATION_FILE = "tiphys.yaml"


@click.command()
@click.argument("paths", nargs=-1, required=True)
@click.option(
    "--profile",
    type=click.Choice([profile.value for profile in Profile]),
    help="Instead of the configuration's.",
)
@click.option(
    "--rule", "rules", multiple=True, metavar="ID=ACTION", help="deny, warn, audit or off; may be repeated."
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help=f"Instead of the {CONFIGURATION_FILE} found upwards from the path.",
)
@click.option("--format", "form", type=click.Choice(list(FORMATS)), default="text", show_default=True)
@click.option(
    "--output", type=click.Path(path_type=Path), help="Write the report here instead of to standard output."
)
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
@click.option("--fail-on", type=click.Choice(["deny", "warn"]), default="deny", show_default=True)
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    help=f"Processes, from {MANY_FILES} files on.  [default: one a core]",
)
@reaching
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
    configuration, excluded = read_configuration(config or _upwards(paths[0]))
    configuration = strict(configuration, profile=profile, rules=dict(actions(rules)))
    skipped: list[str] = []
    files = list(find_files(paths, skipped=skipped, exclude=excluded))
    for line in skipped:
        remark(f"skipped {line}")
    around = _survey(configuration, kubeconfig, context) if kubeconfig or context else None
    result = _judge(files, configuration, jobs=jobs or os.cpu_count() or 1, around=around)
    if fix and _mend(result, really=yes, aside=form != "text"):
        result = _judge(files, configuration, jobs=jobs or os.cpu_count() or 1, around=around)
    if write_baseline:
        _write(
            write_baseline,
            json.dumps(sorted({fingerprint(found) for found in result.findings}), indent=1) + "\n",
        )
    if baseline:
        result = replace(result, findings=without(result.findings, _known(baseline)))
    report = FORMATS[form](result)
    write_report(report, output)
    if result.unreadable:
        raise click.exceptions.Exit(2)
    if failed(result, fail_on=fail_on):
        raise click.exceptions.Exit(1)


def write_report(report: str, output: Path | None) -> None:
    if output:
        _write(output, click.unstyle(report) if "\x1b" in report else report)
    else:
        click.echo(report, nl=False)


def failed(result: CheckResult, *, fail_on: str) -> bool:
    failing = {Action.DENY, Action.WARN} if fail_on == "warn" else {Action.DENY}
    return any(found.action in failing for found in result.findings)


def _survey(configuration: Configuration, kubeconfig: Path | None, context: str | None) -> Survey:
    # Only here: the client costs more than all the rules.
    from checks.survey import survey  # noqa: PLC0415
    from cli.options.cluster import ask  # noqa: PLC0415

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
            _write(Path(file), after)
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
    files: list[str], configuration: Configuration, *, jobs: int, around: Survey | None = None
) -> CheckResult:
    today = datetime.now(UTC).date()
    if len(files) < MANY_FILES or not sys.stderr.isatty():
        return judge_files(files, configuration, today=today, processes=jobs, around=around)
    # Only here: rich costs a tenth of a second that no pipeline needs.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("judging", total=len(files))

        def counted() -> Iterator[int]:
            for index in range(len(files)):
                progress.advance(bar)
                yield index

        return judge_files(files, configuration, today=today, processes=jobs, read=counted(), around=around)


def _upwards(path: str) -> Path | None:
    start = Path.cwd() if path == STDIN else Path(path).absolute()
    for folder in (start, *start.parents):
        if (folder / CONFIGURATION_FILE).is_file():
            return folder / CONFIGURATION_FILE
    return None


def actions(rules: tuple[str, ...]) -> Iterator[tuple[str, Action]]:
    _, problems = parse_configuration({"rules": dict(rule.partition("=")[::2] for rule in rules)})
    if problems:
        raise CallError(f"--rule: {problems[0]}")
    for rule in rules:
        name, _, action = rule.partition("=")
        yield name, Action(action)


def _known(path: Path) -> set[str]:
    try:
        return set(json.loads(path.read_text()))
    except OSError as error:
        raise CallError(f"{path}: {error.strerror}; make it with --write-baseline") from error
    except (ValueError, TypeError) as error:
        raise CallError(f"{path}: not a baseline; make it with --write-baseline") from error


def _write(path: Path, content: str) -> None:
    try:
        path.write_bytes(content.encode())  # as it is: no line end is changed
    except OSError as error:
        raise CallError(f"{path}: {error.strerror}") from error
