"""Dashboards and alerts name metrics that exist, and every alert has a paragraph that says what to do."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
COMPONENTS = ROOT / "manifests" / "components"
DASHBOARDS = sorted(COMPONENTS.glob("monitoring*/*.json"))
ALERTS = sorted(path for path in COMPONENTS.glob("*/*.yaml") if "kind: PrometheusRule" in path.read_text())
RUNBOOK = ROOT / "docs" / "runbook.md"


def alerts() -> list[dict[str, Any]]:
    found = []
    for path in ALERTS:
        for group in yaml.safe_load(path.read_text())["spec"]["groups"]:
            found += group["rules"]
    return found


def paragraphs() -> dict[str, str]:
    """By the name of the alert, as headings of the third order."""
    parts = re.split(r"(?m)^### (.+)$", RUNBOOK.read_text())
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def metrics_of(expression: str) -> set[str]:
    named = set(re.findall(r"\b(?:tiphys|argocd)_[a-z0-9_]+\b", expression))
    return {re.sub(r"_(bucket|sum|count)$", "", each) for each in named}


def documented() -> str:
    return (ROOT / "docs" / "metrics.md").read_text()


def test_there_are_dashboards_and_alerts_for_both_halves_and_for_a_pair() -> None:
    assert len(DASHBOARDS) == 2
    assert [path.name for path in ALERTS] == ["alerts.yaml", "alerts.yaml", "pair-alerts.yaml"]


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.name)
def test_a_dashboard_shows_only_metrics_that_exist(path: Path) -> None:
    dashboard = json.loads(path.read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            named = metrics_of(target["expr"])
            assert named, panel["title"]
            assert [each for each in named if f"`{each}`" not in documented()] == []


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.name)
def test_the_panels_of_a_dashboard_do_not_overlap(path: Path) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(path.read_text())["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not taken & cells, panel["title"]
        taken |= cells
        assert at["x"] + at["w"] <= 24


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_every_alert_has_a_paragraph_that_says_what_to_do(alert: dict[str, Any]) -> None:
    name = alert["alert"]
    assert alert["annotations"]["runbook"] == f"docs/runbook.md#{name.lower()}"
    assert len(paragraphs()[name].split()) >= 30
    assert alert["labels"]["severity"] in {"warning", "critical"}
    assert [each for each in metrics_of(alert["expr"]) if f"`{each}`" not in documented()] == []


def test_no_paragraph_is_about_an_alert_that_is_not_there() -> None:
    assert set(paragraphs()) == {alert["alert"] for alert in alerts()}
