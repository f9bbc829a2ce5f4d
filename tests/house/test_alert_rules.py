"""Prometheus's own promtool takes our alert rules: it can read them, none fires on a calm day, each does on its bad one."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.house.test_monitoring import ALERTS, alerts

PROMTOOL = shutil.which("promtool")
pytestmark = pytest.mark.skipif(PROMTOOL is None, reason="no promtool: apt-get install prometheus")

MINUTES = 60
"""As long as each scene: longer than any alert waits."""
WEEKS = 2_000_000
"""In seconds: three of them. promtool's clock starts at 0, and certificates end at such times in these scenes."""

Scene = dict[str, str]
CALM: Scene = {
    'up{job="tiphys-webhook",instance="w"}': "1x60",
    'up{job="argocd-agent-principal-metrics",instance="a"}': "1x60",
    'tiphys_webhook_certificate_expiry_timestamp_seconds{instance="w"}': f"{WEEKS}x60",
    'tiphys_webhook_refused_calls_total{endpoint="/validate",status="400"}': "0+1x60",
    'tiphys_webhook_review_seconds_bucket{le="0.001"}': "0+98x60",
    'tiphys_webhook_review_seconds_bucket{le="0.1"}': "0+100x60",
    'tiphys_webhook_review_seconds_bucket{le="0.25"}': "0+100x60",
    'tiphys_webhook_review_seconds_bucket{le="+Inf"}': "0+100x60",
    'tiphys_principal_registered_agents{instance="a"}': "3x60",
    'tiphys_principal_registered_agents{instance="b"}': "3x60",
    'argocd_principal_connected_agents{instance="a"}': "3x60",
    'argocd_principal_connected_agents{instance="b"}': "0x60",
    'tiphys_sidecars_queue_age_seconds{agent="prod",instance="a"}': "200x60",
    'tiphys_sidecars_dead_letters_total{target="app",reason="rejected",instance="a"}': "7x60",
    'tiphys_certs_expiry_timestamp_seconds{certificate="principal",instance="a"}': f"{WEEKS}x60",
    'tiphys_certs_reloads_total{certificate="principal",result="refused",instance="a"}': "0x60",
    'tiphys_certs_reloads_total{certificate="principal",result="taken",instance="a"}': "0+1x60",
    'tiphys_principal_superseded_streams_total{agent_name="prod",instance="a"}': "0x15 3x45",
    'argocd_agent_ha_state{state="active",instance="a"}': "1x60",
    'argocd_agent_ha_state{state="active",instance="b"}': "0x60",
    'argocd_agent_ha_state{state="replicating",instance="a"}': "0x60",
    'argocd_agent_ha_state{state="replicating",instance="b"}': "1x60",
    'argocd_agent_replication_replicas_connected{instance="a"}': "1x60",
    'argocd_agent_replication_replicas_connected{instance="b"}': "0x60",
    'tiphys_replication_replica_lag_seconds{replica="b",instance="a"}': "0.1x60",
    'tiphys_replication_replica_equal{replica="b",kind="applications",instance="a"}': "1x60",
    'tiphys_replication_held_deletions{kind="applications",instance="b"}': "0x60",
    'tiphys_replication_unanswered_words_total{instance="a"}': "0x60",
    'tiphys_replication_fenced{instance="a"}': "1x60",
    'tiphys_replication_fenced{instance="b"}': "1x60",
    'tiphys_replication_held_objects{instance="a"}': "0x60",
}
ALONE = {
    series: values
    for series, values in CALM.items()
    if 'instance="b"' not in series and "_ha_" not in series and "_replication_" not in series
} | {"tiphys_replication_fenced": "0x60", "argocd_agent_replication_replicas_connected": "0x60"}
"""A principal without a peer, and what it tells of a pair that it has not."""
STANDBY_ONLY = {series: values for series, values in CALM.items() if 'instance="a"' not in series} | {
    'up{job="argocd-agent-principal-metrics",instance="b"}': "1x60"
}
"""What the Prometheus of the standby's region sees where each region has its own."""
STATE_OF_A, STATE_OF_B = (f'argocd_agent_ha_state{{state="active",instance="{name}"}}' for name in "ab")

BAD: list[tuple[str, Scene, dict[str, str]]] = [
    ("TiphysGone", {'up{job="tiphys-webhook",instance="w"}': "1x5 0x55"}, {}),
    (
        "TiphysCertificateExpires",
        {'tiphys_webhook_certificate_expiry_timestamp_seconds{instance="w"}': "80000x60"},
        {},
    ),
    (
        "TiphysCallsFail",
        {'tiphys_webhook_refused_calls_total{endpoint="/validate",status="503"}': "0+1x60"},
        {},
    ),
    ("TiphysSlow", {'tiphys_webhook_review_seconds_bucket{le="0.1"}': "0+98x60"}, {}),
    (
        "TiphysPrincipalGone",
        {'up{job="argocd-agent-principal-metrics",instance="a"}': "1x5 0x55"},
        {},
    ),
    ("TiphysAgentsAway", {'argocd_principal_connected_agents{instance="a"}': "3x5 2x55"}, {}),
    (
        "TiphysAgentLags",
        {'tiphys_sidecars_queue_age_seconds{agent="prod",instance="a"}': "301x60"},
        {"agent": "prod"},
    ),
    (
        "TiphysDeadLetters",
        {'tiphys_sidecars_dead_letters_total{target="app",reason="crashed",instance="a"}': "0x50 1x10"},
        {"target": "app", "reason": "crashed"},
    ),
    (
        "TiphysSidecarCertificateExpires",
        {'tiphys_certs_expiry_timestamp_seconds{certificate="principal",instance="a"}': "600000x60"},
        {"certificate": "principal"},
    ),
    (
        "TiphysSidecarCertificateRefused",
        {
            'tiphys_certs_reloads_total{certificate="principal",result="refused",instance="a"}': "0x50 1x10",
        },
        {"certificate": "principal"},
    ),
    (
        "TiphysTwoAgentsOfOneName",
        {'tiphys_principal_superseded_streams_total{agent_name="prod",instance="a"}': "0+1x60"},
        {"agent_name": "prod"},
    ),
    ("TiphysTwoActivePrincipals", {STATE_OF_B: "0x50 1x10"}, {}),
    ("TiphysNoActivePrincipal", {STATE_OF_A: "1x5 0x55"}, {}),
    (
        "TiphysPeerUnknown",
        {'tiphys_replication_unanswered_words_total{instance="a"}': "0x50 1x10"},
        {"instance": "a"},
    ),
    (
        "TiphysReplicaAway",
        {'argocd_agent_replication_replicas_connected{instance="a"}': "1x5 0x55"},
        {"state": "active", "instance": "a"},
    ),
    (
        "TiphysReplicaLags",
        {'tiphys_replication_replica_lag_seconds{replica="b",instance="a"}': "6x60"},
        {},
    ),
    (
        "TiphysReplicaDiffers",
        {'tiphys_replication_replica_equal{replica="b",kind="applications",instance="a"}': "1x5 0x55"},
        {},
    ),
    (
        "TiphysDeletionsHeld",
        {'tiphys_replication_held_deletions{kind="applications",instance="b"}': "0x5 25x55"},
        {},
    ),
    ("TiphysNotFenced", {'tiphys_replication_fenced{instance="b"}': "1x5 0x55"}, {}),
    ("TiphysObjectsHeld", {'tiphys_replication_held_objects{instance="a"}': "0x5 2x55"}, {}),
]  # fmt: skip
AS_EXPECTED = {"TiphysNoActivePrincipal"}
"""Of the standby's region alone: its Prometheus cannot know who is active elsewhere (docs/runbook.md says so)."""


def promtool(*arguments: str) -> str:
    assert PROMTOOL
    done = subprocess.run(
        [PROMTOOL, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={"PATH": os.environ["PATH"]},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rule_files(folder: Path) -> list[str]:
    """What the Prometheus Operator makes of the objects."""
    made = []
    for number, path in enumerate(ALERTS):
        file = folder / f"rules-{number}.yaml"
        file.write_text(yaml.safe_dump({"groups": yaml.safe_load(path.read_text())["spec"]["groups"]}))
        made.append(str(file))
    return made


def unit_test(
    name: str, scene: Scene, fires: dict[str, dict[str, str]], *, silent: Sequence[str] = ()
) -> dict[str, Any]:
    by_name = {alert["alert"]: alert for alert in alerts()}
    expected = []
    for alert, labels in fires.items():
        rule = by_name[alert]
        annotations = {key: told(text, labels) for key, text in rule["annotations"].items()}
        shown = {"exp_labels": {**rule["labels"], **labels}, "exp_annotations": annotations}
        expected.append({"eval_time": f"{MINUTES}m", "alertname": alert, "exp_alerts": [shown]})
    expected += [{"eval_time": f"{MINUTES}m", "alertname": alert, "exp_alerts": []} for alert in silent]
    return {
        "name": name,
        "interval": "1m",
        "input_series": [{"series": series, "values": values} for series, values in scene.items()],
        "alert_rule_test": expected,
    }


def told(text: str, labels: dict[str, str]) -> str:
    for name, value in labels.items():
        text = text.replace(f"{{{{ $labels.{name} }}}}", value)
    return text


def run_unit_tests(folder: Path, *tests: dict[str, Any]) -> None:
    file = folder / "tests.yaml"
    whole = {"rule_files": rule_files(folder), "evaluation_interval": "1m", "tests": list(tests)}
    file.write_text(yaml.safe_dump(whole, sort_keys=False, width=1000))
    promtool("test", "rules", str(file))


def test_promtool_finds_nothing_wrong_with_the_rules(tmp_path: Path) -> None:
    for file in rule_files(tmp_path):
        assert "SUCCESS" in promtool("check", "rules", "--lint-fatal", file)


def test_every_alert_has_a_bad_day() -> None:
    assert sorted(name for name, *_ in BAD) == sorted(alert["alert"] for alert in alerts())


def test_no_alert_fires_on_a_calm_day(tmp_path: Path) -> None:
    every = [alert["alert"] for alert in alerts()]
    there = [name for name in every if name not in AS_EXPECTED]
    run_unit_tests(
        tmp_path,
        unit_test("a pair", CALM, {}, silent=every),
        unit_test("a principal without a peer", ALONE, {}, silent=every),
        unit_test("the standby's region alone", STANDBY_ONLY, {}, silent=there),
    )


def test_each_alert_fires_on_its_bad_day(tmp_path: Path) -> None:
    run_unit_tests(
        tmp_path, *(unit_test(name, CALM | changed, {name: labels}) for name, changed, labels in BAD)
    )


@pytest.mark.parametrize(("name", "labels"), [(name, labels) for name, _, labels in BAD if labels])
def test_an_alert_names_what_it_is_about(name: str, labels: dict[str, str]) -> None:
    rule = next(each for each in alerts() if each["alert"] == name)
    summary = rule["annotations"]["summary"]
    assert [key for key in labels if key != "state" and f"{{{{ $labels.{key} }}}}" not in summary] == []
