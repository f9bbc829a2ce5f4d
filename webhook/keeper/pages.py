"""The keeper's pages for people and probes: Flask on a plain port, never on the path of a review."""

from datetime import UTC, datetime
from typing import Any

from flask import Flask, Response, jsonify, render_template

from argocd.judging.configuration import Configuration
from argocd.rules.catalogue import CATALOGUE
from tiphys import __version__, metrics
from webhook.admission.cluster_state import ClusterState
from webhook.keeper.keeper import Keeper
from webhook.registration.table import Registration, mutating, validating


def create_pages(keeper: Keeper, cluster_state: ClusterState, registration: Registration) -> Flask:
    pages = Flask("webhook", static_folder=None)

    @pages.get("/healthz")
    def healthz() -> tuple[str, int]:
        return "ok\n", 200

    @pages.get("/readyz")
    def readyz() -> tuple[str, int]:
        reasons = keeper.reasons_not_ready
        return ("ready\n", 200) if not reasons else ("\n".join(reasons) + "\n", 503)

    @pages.get("/metrics")
    def exposition() -> Response:
        return Response(metrics.exposition(), content_type=metrics.CONTENT_TYPE)

    @pages.get("/status.json")
    def status_json() -> Response:
        return jsonify(_status(keeper, cluster_state, registration))

    @pages.get("/")
    def status() -> str:
        return render_template("status.html", **_status(keeper, cluster_state, registration))

    return pages


def _status(keeper: Keeper, cluster_state: ClusterState, registration: Registration) -> dict[str, Any]:
    state, reports, configuration = keeper.state, keeper.reports, cluster_state.configuration
    told = [
        *(worker.troubles for worker in list(reports.workers.values())),
        cluster_state.troubles,
        state.troubles,
    ]
    troubles = {what: text for each in told for what, text in each.items() if text}
    return {
        "version": __version__,
        "now": _time(datetime.now(UTC)),
        "started": _time(state.started),
        "leader": state.leader,
        "leads": state.leads,
        "not_ready": keeper.reasons_not_ready,
        "troubles": troubles,
        "certificate": {"fingerprint": state.fingerprint, "expiry": _time(state.expiry)},
        "configuration": {
            "profile": configuration.profile,
            "enforcement": configuration.enforcement,
            "role": configuration.role,
            "argocd_version": ".".join(map(str, configuration.argocd.version)),
        },
        "guarded": [
            {"name": entry["name"], "fails": "closed" if entry["failurePolicy"] == "Fail" else "open"}
            for made in (validating, mutating)
            for entry in made(registration)["webhooks"]
        ],
        "rules": _rules(configuration),
        "exemptions": [
            {"rule": rule, "reason": reason, "count": count}
            for (rule, reason), count in sorted(reports.exemptions.items())
        ],
        "denials": list(reports.denials),
        "caches": [
            {"worker": worker, "name": name, **cache}
            for worker, its in sorted(reports.workers.items())
            for name, cache in its.caches.items()
        ],
    }


def _rules(configuration: Configuration) -> list[dict[str, str]]:
    return [
        {"id": rule.id, "title": rule.title, "action": configuration.action_for(rule).value}
        for rule in CATALOGUE
    ]


def _time(moment: datetime | None) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC") if moment else ""
