"""`tiphys scan`: the webhook's rules on what is in a cluster already."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from argocd import names
from argocd.judging.case import Action
from argocd.judging.configuration import Configuration
from argocd.tracking.completion import DEFAULT_KINDS
from checks import policy_reports
from checks.configuration import read_configuration, with_argocd_namespace, with_rules
from checks.report_forms import written
from checks.reports import WIDTH, remark, summary
from checks.scan import Scan, Scanned, sorted_by_place
from checks.survey import Listing
from cli.options import configuration_option
from cli.options.checks import (
    end_with,
    fail_on_option,
    output_option,
    report_format_option,
    rule_options,
    write_report,
)
from cli.options.cluster import ask, counted, optional_cluster_options
from cli.progress import Advance, progress
from cli.roles.kind_names import find_kind
from kube.live import LiveStore
from kube.resources import APP_PROJECTS, APPLICATION_SETS, APPLICATIONS
from tiphys.printable import visible
from webhook.admission.configuration_map import find_configuration, noting

SHOWN = 20
"""Lines of each table; the other forms have everything."""
ROOM = WIDTH - 25
"""Columns that three numbers leave to a name."""


@click.command()
@rule_options
@configuration_option("Instead of the webhook's own, which is read from the cluster.")
@click.option(
    "--namespace", default=names.TIPHYS_NAMESPACE, show_default=True, help="Tiphys's own namespace."
)
@click.option("--argocd-namespace", help="Argo CD's namespace, instead of the configuration's.")
@click.option(
    "--kind", "kinds", multiple=True, metavar="KIND[.GROUP]", help="Judge these too; may be repeated."
)
@click.option(
    "--tracked-kinds", is_flag=True, help="Judge all kinds that the webhook tracks by default, too."
)
@report_format_option
@click.option("--details", is_flag=True, help="With --format text: every finding before the summary.")
@output_option
@click.option(
    "--policy-report", is_flag=True, help="Write PolicyReports (wgpolicyk8s.io/v1alpha2) into the cluster."
)
@fail_on_option
@optional_cluster_options
def command(*, form: str, details: bool, output: Path | None, fail_on: str, **given: Any) -> None:
    """Judge what is in a cluster already: what would be denied if it were applied today.

    Ends with 0 if nothing is denied, 1 if something is, 2 if a kind could not be listed.
    """
    with progress("{task.completed:.0f} objects judged") as seen:
        scanned = ask(given, lambda store: _scan(store, given, seen))
    for note in scanned.notes:
        remark(note)
    scanned = sorted_by_place(scanned)
    if form == "text":
        report = written(scanned.result, form).rpartition("\n\n")[0] + "\n\n" if details else ""
        report = f"{report.lstrip()}{tables(scanned)}{summary(scanned.result)}\n"
    else:
        report = written(scanned.result, form)
    write_report(report, output)
    end_with(scanned.result, fail_on=fail_on)


async def _scan(store: LiveStore, given: dict[str, Any], seen: Advance) -> Scanned:
    notes: list[str] = []
    configuration = await _configuration(store, given, notes)
    reports = await policy_reports.find_kind(store) if given["policy_report"] else None
    kinds = [await find_kind(store, group=group, kind=kind) for group, kind in _wanted(given)]
    if seen.shown:
        seen.expect(await counted(store, [APPLICATIONS, APP_PROJECTS, APPLICATION_SETS, *kinds]))
    today = datetime.now(UTC).date()
    scanned = await Scan(store, configuration, today=today, kinds=kinds, seen=seen).run()
    scanned.notes[:0] = notes
    if reports is not None:
        listing = Listing(store, configuration.argocd.namespace, scanned.notes)
        told = zip(scanned.result.findings, scanned.subjects, strict=True)
        written, deleted = await policy_reports.write(listing, reports, told, complete=scanned.complete)
        scanned.notes.append(f"PolicyReports: {written} written, {deleted} deleted")
    return scanned


async def _configuration(store: LiveStore, given: dict[str, Any], notes: list[str]) -> Configuration:
    if given["config"]:
        configuration = read_configuration(given["config"]).configuration
    else:
        problems: list[str] = []
        configuration = await find_configuration(store, home=given["namespace"], broken=noting(problems))
        notes += [
            f"ConfigMap {given['namespace']}/{names.TIPHYS_CONFIG_MAP}: {problem}" for problem in problems
        ]
    configuration = with_argocd_namespace(configuration, given["argocd_namespace"])
    return with_rules(configuration, profile=given["profile"], rules=given["rules"])


def _wanted(given: dict[str, Any]) -> list[tuple[str, str]]:
    wanted = sorted(DEFAULT_KINDS) if given["tracked_kinds"] else []
    for text in given["kinds"]:
        kind, _, group = text.partition(".")
        wanted.append((group, kind))
    return list(dict.fromkeys(wanted))


def tables(scanned: Scanned) -> str:
    """How many of each action, by rule, by namespace and by owner; the most first."""
    told = list(zip(scanned.result.findings, scanned.subjects, strict=True))
    return "".join(
        _table(title, [(key, found.action) for key, found in pairs])
        for title, pairs in (
            ("rule", [(found.rule, found) for found, _ in told]),
            ("namespace", [(subject.namespace or "(none)", found) for found, subject in told]),
            ("owner", [(subject.owner or "(nobody)", found) for found, subject in told]),
        )
    )


def _table(title: str, pairs: Sequence[tuple[str, Action]]) -> str:
    if not pairs:
        return ""
    counts = Counter(pairs)
    keys = sorted(
        {key for key, _ in pairs}, key=lambda key: (-counts[key, Action.DENY], -counts[key, Action.WARN], key)
    )
    lines = [f"{'deny':>7} {'warn':>7} {'audit':>7}  {title}"]
    for key in keys[:SHOWN]:
        numbers = " ".join(f"{counts[key, action]:>7}" for action in (Action.DENY, Action.WARN, Action.AUDIT))
        named = visible(key)
        lines.append(f"{numbers}  {named if len(named) <= ROOM else f'{named[: ROOM - 1]}…'}")
    if len(keys) > SHOWN:
        lines.append(f"{'':25}… and {len(keys) - SHOWN} more")
    return "\n".join([*lines, "", ""])
