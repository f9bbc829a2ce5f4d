"""The keeper's pages: Flask for people, and a small server with deadlines of its own for probes and metrics.

Two ports, so that nothing that somebody does to the status page keeps a probe waiting. Neither is on the path of a
review.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from flask import Flask, Response, jsonify, render_template

from argocd.judging.configuration import Configuration
from argocd.rules.catalogue import CATALOGUE
from tiphys import __version__, metrics
from tiphys.http_server import HttpPage
from tiphys.pages import layout
from tiphys.redaction import redacted_text
from webhook.admission.cluster_state import ClusterState
from webhook.keeper.keeper import Keeper
from webhook.keeper.worker_reports import Denial
from webhook.registration.table import Registration, mutating, validating


def probe_pages(keeper: Keeper) -> Mapping[str, Callable[[], HttpPage]]:
    def ready() -> HttpPage:
        reasons = keeper.reasons_not_ready
        return HttpPage("\n".join([*reasons, ""]).encode(), status=503) if reasons else HttpPage(b"ready\n")

    return {
        "/healthz": lambda: HttpPage(b"ok\n"),
        "/readyz": ready,
        "/metrics": lambda: HttpPage(metrics.exposition(), content_type=metrics.CONTENT_TYPE),
    }


def create_pages(keeper: Keeper, cluster_state: ClusterState, registration: Registration) -> Flask:
    pages = Flask("webhook", static_folder=None)
    pages.jinja_loader = layout.loader("webhook")

    @pages.after_request
    def with_headers(response: Response) -> Response:
        response.headers.update(layout.HEADERS)
        return response

    @pages.get(f"/{layout.STYLE_PATH}")
    def style_sheet() -> Response:
        return Response(layout.style_sheet(), content_type=layout.STYLE_TYPE)

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
    troubles = {what: redacted_text(text) for each in told for what, text in each.items() if text}
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
        "denials": [_denial(denial) for denial in list(reports.denials)],
        "caches": [
            {"worker": worker, "name": name, **cache}
            for worker, its in sorted(reports.workers.items())
            for name, cache in its.caches.items()
        ],
    }


_TITLES = {rule.id: rule.title for rule in CATALOGUE}


def _denial(denial: Denial) -> dict[str, Any]:
    """Rules, paths and names: what a finding says of a value is for whoever wrote it."""
    findings = [(rule, path, _TITLES.get(rule, "")) for rule, path in denial.findings]
    return {**asdict(denial), "findings": findings}


def _rules(configuration: Configuration) -> list[dict[str, str]]:
    return [
        {"id": rule.id, "title": rule.title, "action": configuration.action_for(rule).value}
        for rule in CATALOGUE
    ]


def _time(moment: datetime | None) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC") if moment else ""
