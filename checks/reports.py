"""Findings in the forms that people and programs read. Each function returns the whole report as text."""

import hashlib
import json
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from argocd.judging.case import Action
from argocd.rules.catalogue import CATALOGUE
from checks.findings import CheckResult, PlacedFinding
from checks.manifests import Place
from tiphys import __version__
from tiphys.printable import visible

WIDTH = 80

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_MOST_RULES = 20
"""Rules that a summary counts; the other forms have everything."""
_COLOURS = {Action.DENY: "red", Action.WARN: "yellow", Action.AUDIT: "cyan"}
_LEVELS = {Action.DENY: "error", Action.WARN: "warning", Action.AUDIT: "note"}


def text(result: CheckResult, *, quiet: bool = False) -> str:
    """For a terminal: by file, wrapped at 80 columns, a summary last. Colours are for `click.echo` to keep or drop."""
    lines: list[str] = []
    last = ""
    for found in denials_first(result.findings):
        if found.place.file != last:
            lines += [""] if lines else []
            lines.append(click.style(visible(found.place.file), bold=True))
            last = found.place.file
        lines += _entry(found)
    for broken in result.unreadable:
        lines += [""] if lines else []
        lines.append(click.style(visible(str(broken.place)), bold=True))
        lines += _wrapped(visible(f"unreadable: {broken.message}"), indent="  ")
    if quiet:
        return "\n".join([*lines, ""]) if lines else ""
    lines += [""] if lines else []
    for line in closing(result):
        tied = re.sub(r"(\d) ", "\\1\N{NO-BREAK SPACE}", line)  # a number stays with what it counts
        lines += [part.replace("\N{NO-BREAK SPACE}", " ") for part in _wrapped(tied, indent="", more="  ")]
    return "\n".join([*lines, ""])


def denials_first(findings: Iterable[PlacedFinding]) -> list[PlacedFinding]:
    """For people, who read from the top."""
    return sorted(findings, key=lambda found: found.action is not Action.DENY)


def _entry(found: PlacedFinding) -> list[str]:
    action = found.action.value if not found.exempted else f"exempted ({visible(found.exempted)})"
    place = f"{found.place.line}:{found.place.column}" if found.place.line else ""
    where = f"{found.path}: " if found.path else ""
    coloured = click.style(action, fg=None if found.exempted else _COLOURS[found.action])
    lines = [
        f"  {f'{place}  ':<8}{coloured}  {found.rule}" if place else f"  {coloured}  {found.rule}",
        *_wrapped(visible(f"{found.about}: {where}{found.message}"), indent="      "),
    ]
    if found.hint:
        lines += _wrapped(visible(f"→ {found.hint}"), indent="      ", more="        ")
    return lines


def remark(told: str) -> None:
    """To standard error: on a terminal wrapped as the report is, else one line, which programs find."""
    lines = _wrapped(visible(told), indent="", more="  ") if sys.stderr.isatty() else [visible(told)]
    click.echo("\n".join(lines), err=True)


def _wrapped(line: str, *, indent: str, more: str | None = None) -> list[str]:
    return textwrap.wrap(
        line,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent if more is None else more,
        break_long_words=False,
        break_on_hyphens=False,
    )


def summary(result: CheckResult) -> str:
    counts = Counter(found.action for found in result.findings)
    parts = [
        f"{counts[action]} {word}{'s' if counts[action] != 1 else ''}"
        for action, word in ((Action.DENY, "denial"), (Action.WARN, "warning"), (Action.AUDIT, "audit note"))
        if counts[action] or action is not Action.AUDIT
    ]
    if result.unreadable:
        parts.append(f"{len(result.unreadable)} unreadable")
    objects = f"{result.objects} object{'s' if result.objects != 1 else ''}"
    if not result.files:
        return f"{', '.join(parts)} in {objects}"
    return f"{', '.join(parts)} in {result.files} file{'s' if result.files != 1 else ''} with {objects}"


def closing(result: CheckResult) -> list[str]:
    """The end of a run: of files also what was judged, what was left alone and why, and which rules spoke."""
    lines = [summary(result)]
    if not result.files:
        return lines
    judged = ", ".join(f"{count} {kind}" for kind, count in sorted(result.kinds.items()))
    lines.append(f"judged of Argo CD: {judged or 'nothing'}")
    if result.left_alone:
        left = ", ".join(f"{count} {reason}" for reason, count in result.left_alone.most_common())
        lines.append(f"left alone: {left}")
    rules = Counter(found.rule for found in result.findings).most_common()
    if rules:
        more = f", and {len(rules) - _MOST_RULES} more rules" if len(rules) > _MOST_RULES else ""
        told = ", ".join(f"{count} {rule}" for rule, count in rules[:_MOST_RULES])
        lines.append(f"by rule: {told}{more}")
    return lines


def _read_from_files(result: CheckResult) -> dict[str, Any]:
    left = {reason.name.lower().replace("_", "-"): count for reason, count in result.left_alone.items()}
    return {"kinds": dict(sorted(result.kinds.items())), "left_alone": dict(sorted(left.items()))}


def as_data(result: CheckResult) -> dict[str, Any]:
    return {
        "version": 1,
        "files": result.files,
        "objects": result.objects,
        **(_read_from_files(result) if result.files else {}),
        "findings": [
            {
                "rule": found.rule,
                "action": found.action.value,
                "file": found.place.file,
                "line": found.place.line,
                "column": found.place.column,
                "object": found.about,
                "path": found.path,
                "message": found.message,
                "hint": found.hint,
                "exempted": found.exempted,
                "fingerprint": found.fingerprint,
            }
            for found in result.findings
        ],
        "unreadable": [
            {
                "file": broken.place.file,
                "line": broken.place.line,
                "column": broken.place.column,
                "message": broken.message,
            }
            for broken in result.unreadable
        ],
    }


def as_json(result: CheckResult) -> str:
    return json.dumps(as_data(result), indent=2) + "\n"


def sarif(result: CheckResult) -> str:
    used = sorted({found.rule for found in result.findings})
    titles = {rule.id: rule for rule in CATALOGUE}
    rules = [
        {
            "id": rule,
            "shortDescription": {"text": titles[rule].title if rule in titles else rule},
            "fullDescription": {"text": titles[rule].explanation if rule in titles else rule},
        }
        for rule in used
    ]
    results = [
        {
            "ruleId": found.rule,
            "ruleIndex": used.index(found.rule),
            "level": _LEVELS[found.action],
            "message": {"text": _sentence(found)},
            "locations": [_location(found.place)],
            "partialFingerprints": {"tiphys/v1": found.fingerprint},
            **(
                {"suppressions": [{"kind": "external", "justification": found.exempted}]}
                if found.exempted
                else {}
            ),
        }
        for found in result.findings
    ]
    notifications = [
        {
            "level": "error",
            "message": {"text": broken.message},
            "locations": [_location(broken.place)],
        }
        for broken in result.unreadable
    ]
    run: dict[str, Any] = {
        "tool": {"driver": {"name": "tiphys", "version": __version__, "rules": rules}},
        "results": results,
        "invocations": [
            {"executionSuccessful": not result.unreadable, "toolExecutionNotifications": notifications}
        ],
    }
    return json.dumps({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _location(place: Place) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": quote(Path(place.file).as_posix())}}
    if place.line:
        physical["region"] = {"startLine": place.line, "startColumn": place.column}
    return {"physicalLocation": physical}


def junit(result: CheckResult) -> str:
    """As Apache Ant's schema wants it, the strictest of those in use: what it takes, other readers take.

    A test case for each finding and each unreadable place; a case has no output there, so what is only a
    warning is a passed case, and is told in the output of the suite.
    """
    from xml.etree import ElementTree as ET  # noqa: PLC0415 - the other forms need none of it

    suites = ET.Element("testsuites")
    suite = ET.SubElement(
        suites,
        "testsuite",
        name="tiphys check",
        package="tiphys",
        id="0",
        hostname="localhost",  # the schema's word for one that nobody needs to know
        timestamp=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S"),
        tests=str(max(len(result.findings) + len(result.unreadable), 1)),
        failures=str(sum(found.action is Action.DENY for found in result.findings)),
        errors=str(len(result.unreadable)),
        time="0",
    )
    ET.SubElement(suite, "properties")

    def case_of(classname: str, name: str) -> ET.Element:
        return ET.SubElement(suite, "testcase", classname=classname, name=visible(name), time="0")

    output = []
    for found in result.findings:
        case = case_of(found.rule, f"{found.place} {found.about}")
        if found.action is Action.DENY:
            told = ET.SubElement(case, "failure", message=visible(found.message), type=found.rule)
            told.text = _sentence(found)
        else:
            output.append(f"{found.place} {found.action.value} {found.rule}: {_sentence(found)}")
    for broken in result.unreadable:
        case = case_of("unreadable", str(broken.place))
        told = ET.SubElement(case, "error", message=visible(broken.message), type="unreadable")
        told.text = visible(broken.message)
    if not result.findings and not result.unreadable:
        case_of("tiphys", summary(result))
    ET.SubElement(suite, "system-out").text = visible("\n".join(output))
    ET.SubElement(suite, "system-err")
    ET.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suites, encoding="unicode") + "\n"


def github(result: CheckResult) -> str:
    """Workflow commands: GitHub shows them beside the changed lines."""
    lines = []
    for found in result.findings:
        level = {"error": "error", "warning": "warning", "note": "notice"}[_LEVELS[found.action]]
        lines.append(_command(level, found.place, found.rule, _sentence(found)))
    lines += [_command("error", broken.place, "unreadable", broken.message) for broken in result.unreadable]
    return "\n".join([*lines, *closing(result), ""])


def gitlab(result: CheckResult) -> str:
    """GitLab's Code Quality report, which merge requests show beside the changed lines."""
    severities = {Action.DENY: "critical", Action.WARN: "minor", Action.AUDIT: "info"}
    issues: dict[str, dict[str, Any]] = {}

    def add(rule: str, place: Place, message: str, *, severity: str, fingerprint: str) -> None:
        # GitLab shows one issue of each fingerprint.
        while fingerprint in issues:
            fingerprint = hashlib.sha256(fingerprint.encode()).hexdigest()[:32]
        issues[fingerprint] = {
            "description": message,
            "check_name": rule,
            "fingerprint": fingerprint,
            "severity": severity,
            "location": {"path": Path(place.file).as_posix(), "lines": {"begin": max(place.line, 1)}},
        }

    for found in result.findings:
        severity = severities[found.action]
        add(found.rule, found.place, _sentence(found), severity=severity, fingerprint=found.fingerprint)
    for broken in result.unreadable:
        known = hashlib.sha256(f"unreadable\0{broken.place.file}\0{broken.message}".encode()).hexdigest()[:32]
        message = visible(broken.message)
        add("unreadable", broken.place, message, severity="blocker", fingerprint=known)
    return json.dumps(list(issues.values()), indent=2) + "\n"


def _command(level: str, place: Place, title: str, message: str) -> str:
    def quoted(value: str, *more: tuple[str, str]) -> str:
        for plain, code in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A"), *more):
            value = value.replace(plain, code)
        return value

    inside = ((":", "%3A"), (",", "%2C"))
    file, title = quoted(visible(place.file), *inside), quoted(title, *inside)
    where = f",line={place.line},col={place.column}" if place.line else ""
    return f"::{level} file={file}{where},title={title}::{quoted(message)}"


def markdown(result: CheckResult) -> str:
    """For a comment on a merge request; what others wrote stands as code, where it is no link and calls nobody."""
    first, *more = closing(result)
    lines = [f"**{first}**", ""]
    if result.findings:
        lines += ["| | where | what |", "|---|---|---|"]
        lines += [
            f"| {found.action.value} `{found.rule}` | {_code(str(found.place))} | {_code(_sentence(found))} |"
            for found in denials_first(result.findings)
        ]
        lines.append("")
    lines += [
        f"- unreadable: {_code(str(broken.place))}: {_code(broken.message)}" for broken in result.unreadable
    ]
    return "\n".join([*lines, *(f"- {line}" for line in more), ""])


def _code(value: str) -> str:
    """One code span of a table's cell, whatever is in it."""
    value = re.sub(r"\\*\|", r"\\|", visible(value).replace("\n", " "))
    fence = "`" * (1 + max(map(len, re.findall("`+", value)), default=0))
    space = " " if len(fence) > 1 else ""
    return f"{fence}{space}{value or ' '}{space}{fence}"


def _sentence(found: PlacedFinding) -> str:
    where = f"{found.path}: " if found.path else ""
    hint = f" ({found.hint})" if found.hint else ""
    return visible(f"{found.about}: {where}{found.message}{hint}")
