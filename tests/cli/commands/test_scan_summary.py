"""The summary of a scan, without a cluster."""

import itertools
import json
from dataclasses import replace

import click
import pytest
from lxml import etree

from argocd.judging.case import Action
from checks import policy_reports
from checks.findings import CheckResult, PlacedFinding
from checks.manifests import Place
from checks.report_forms import FORMATS
from checks.reports import WIDTH
from checks.scan import Scanned, ScannedObject, sorted_by_place
from cli.commands.scan import tables
from tests.cli import schemas
from tests.cli.golden_files import compare, settled


def scanned(count: int = 60) -> Scanned:
    rules = ["application/twin", "application/sync-option", "project/policy", "secret/key-case"]
    actions = itertools.cycle([Action.DENY, Action.WARN, Action.WARN, Action.AUDIT])
    found, subjects = [], []
    for number, action in zip(range(count), actions, strict=False):
        namespace, name = f"team-{number % 25}", f"app-{number}"
        place = Place(f"Application/{namespace}/{name}", 0, 0)
        rule = rules[number % 4]
        found.append(
            PlacedFinding(
                rule, action, place, "spec.x", "is wrong", "Mend it.", f"Application {namespace}/{name}"
            )
        )
        owner = f"AppProject team-{number % 3}" if number % 3 else ""
        subjects.append(ScannedObject("argoproj.io/v1alpha1", "Application", namespace, name, "", owner))
    return Scanned(CheckResult(found, [], objects=count), subjects)


def test_tables_are_what_the_golden_file_says() -> None:
    text = tables(scanned())
    compare("scan.txt", text)
    assert max(map(len, text.splitlines())) <= WIDTH


def test_a_name_that_is_too_long_or_rude_does_not_leave_its_column() -> None:
    told = scanned(1)
    told.subjects[0] = replace(told.subjects[0], owner="Application \x1b[31m" + "x" * 90)
    text = tables(told)
    assert "\x1b" not in text
    assert "…" in text
    assert max(map(len, text.splitlines())) == WIDTH


def test_without_findings_there_are_no_tables() -> None:
    assert tables(Scanned(CheckResult([], []))) == ""


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_objects_of_a_cluster_have_no_lines(form: str) -> None:
    report = FORMATS[form](sorted_by_place(scanned(4)).result)
    assert "app-3" in report
    compare(f"scan.{form}.txt", settled(click.unstyle(report)))
    assert ":0:0" not in report
    assert "line=0" not in report


def test_reports_on_a_cluster_keep_the_schemas_too() -> None:
    result = sorted_by_place(scanned(8)).result
    schemas.sarif().validate(json.loads(FORMATS["sarif"](result)))
    schemas.junit().assertValid(etree.fromstring(FORMATS["junit"](result).encode()))


def test_findings_of_one_object_come_together() -> None:
    mixed = scanned(6)
    mixed.result.findings.append(mixed.result.findings[0])
    mixed.subjects.append(mixed.subjects[0])
    names = [subject.name for subject in sorted_by_place(mixed).subjects]
    assert names[:2] == ["app-0", "app-0"]


def test_a_namespace_with_many_findings_has_several_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_reports, "LARGEST", 2)
    told = scanned(60)
    reports = policy_reports._reports(zip(told.result.findings, told.subjects, strict=True))
    assert [name for namespace, name in reports if namespace == "team-0"] == ["tiphys", "tiphys-1"]
    assert sum(len(report["results"]) for report in reports.values()) == 60
