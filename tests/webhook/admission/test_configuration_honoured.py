"""The ConfigMap is watched: what it says counts a moment later, and a broken one changes nothing."""

import json
import time

from tests.webhook.guarded_cluster import Guarded, until

BAD = """
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: %s}
spec: {sourceRepos: ["!*", "https://example.test"]}
"""
TRY = ("--dry-run=server",)


def is_refused(guarded: Guarded, name: str = "tried") -> bool:
    return guarded.write(BAD % name, *TRY, check=False).returncode != 0


def status(guarded: Guarded) -> dict[str, object]:
    found: dict[str, object] = json.loads(guarded.guard.page("/status.json")[1])
    return found


def test_a_change_counts_a_moment_later_and_its_removal_too(guarded: Guarded) -> None:
    assert is_refused(guarded)
    with guarded.configured("rules: {project/source-repo-format: warn}"):
        until(lambda: not is_refused(guarded), what="a rule that only warns")
        assert "Warning: project/source-repo-format" in guarded.write(BAD % "tried", *TRY).stderr
    until(lambda: is_refused(guarded), what="the default again")


def test_one_namespace_may_be_gentler(guarded: Guarded) -> None:
    with guarded.configured(f"namespaces: [{{match: {guarded.argocd}, rules: {{project/*: audit}}}}]"):
        until(lambda: not is_refused(guarded), what="a namespace of its own")
        assert guarded.write(BAD % "tried", *TRY).stderr == ""


def test_a_broken_configmap_keeps_the_last_good_one_and_says_so(guarded: Guarded) -> None:
    with guarded.configured("enforcement: warn"):
        until(lambda: not is_refused(guarded), what="enforcement: warn")
        with guarded.configured("enforcement: sometimes\nprofil: parity"):
            told = until(
                lambda: dict(status(guarded)["troubles"]).get("configuration"),  # type: ignore[call-overload]
                what="the status page tells of the broken configuration",
            )
            assert "enforcement" in told
            assert "the last good configuration stays" in told
            assert not is_refused(guarded)
            until(
                lambda: "the last good configuration stays" in guarded.guard.log, what="the log tells it too"
            )
            until(
                lambda: (
                    "BrokenConfiguration" in guarded.kubectl("get", "events", "-n", guarded.guard.home).stdout
                ),
                what="an event",
            )
            assert "tiphys_webhook_configuration_broken 1.0" in guarded.guard.page("/metrics")[1]
    until(lambda: is_refused(guarded), what="no configuration at all: the defaults")


def test_an_exemption_lets_one_object_through_and_every_use_is_reported(guarded: Guarded) -> None:
    reason = f"ticket {time.time_ns()}"
    exemption = f"{{rules: [project/*], names: ['legacy-*'], until: 2999-01-31, reason: {reason}}}"
    with guarded.configured(f"exemptions: [{exemption}]"):
        until(lambda: not is_refused(guarded, "legacy-web"), what="an exemption")
        assert is_refused(guarded, "web")
        assert guarded.write(BAD % "legacy-web", *TRY).stderr == ""
        used = until(
            lambda: [one for one in status(guarded)["exemptions"] if one["reason"] == reason],  # type: ignore[attr-defined]
            what="the status page lists the use",
        )
        assert used[0]["rule"] == "project/source-repo-format"
    _, metrics = guarded.guard.page("/metrics")
    assert 'tiphys_webhook_exemptions_total{rule="project/source-repo-format"}' in metrics


def test_an_exemption_that_has_ended_or_is_for_somebody_else_lets_nothing_through(guarded: Guarded) -> None:
    ended = "{rules: [project/*], until: 2001-01-31, reason: over}"
    others = "{rules: [project/*], users: [somebody-else], reason: theirs}"
    marker = "{rules: [project/*], names: [marker], reason: shows that this configuration counts}"
    with guarded.configured(f"exemptions: [{ended}, {others}, {marker}]"):
        until(lambda: not is_refused(guarded, "marker"), what="the new configuration")
        assert is_refused(guarded, "ended")
        assert guarded.write(BAD % "theirs", *TRY, writer="somebody-else").returncode == 0


def test_the_status_page_shows_denials_rules_and_caches(guarded: Guarded) -> None:
    guarded.write(BAD % "seen-on-the-page", check=False)
    found = until(
        lambda: [one for one in status(guarded)["denials"] if one["name"] == "seen-on-the-page"],  # type: ignore[attr-defined]
        what="the denial on the status page",
    )
    assert found[0]["findings"][0][0] == "project/source-repo-format"
    told = until(lambda: status(guarded)["caches"] and status(guarded), what="the caches")
    assert {cache["name"] for cache in told["caches"]} >= {"configuration", "argocd-cm", "namespaces"}
    assert any(rule["id"] == "project/deletion" for rule in told["rules"])
    code, page = guarded.guard.page("/")
    assert code == 200
    assert "seen-on-the-page" in page


def test_a_dry_run_leaves_no_trace(guarded: Guarded) -> None:
    assert is_refused(guarded, "only-tried")
    guarded.write(BAD % "tried-for-real", check=False)
    until(
        lambda: any(one["name"] == "tried-for-real" for one in status(guarded)["denials"]),  # type: ignore[attr-defined]
        what="the later denial",
    )
    assert "only-tried" not in json.dumps(status(guarded))
    assert "only-tried" not in guarded.guard.log
