"""The keeper's pages: Flask for people, and a small server with deadlines of its own for probes and metrics.

Two ports, so that nothing that somebody does to the status page keeps a probe waiting. Neither is on the path of a
review.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from flask import Flask, Response, abort, jsonify, render_template, request
from markupsafe import Markup

from argocd.judging.configuration import Configuration
from argocd.judging.profiles import where_and_why
from argocd.rules.catalogue import CATALOGUE
from tiphys import __version__, metrics
from tiphys.http_server import HttpPage
from tiphys.loopback import host_name, names_loopback
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


_FOREIGN = "ask for localhost, or by the name that pages.url of the configuration has\n"


def create_pages(keeper: Keeper, cluster_state: ClusterState, registration: Registration) -> Flask:
    pages = Flask("webhook", static_folder=None)
    pages.jinja_loader = layout.loader("webhook")
    pages.jinja_env.globals["chart"] = chart
    pages.jinja_env.filters["with_code"] = layout.with_code

    @pages.before_request
    def refuse_a_foreign_name() -> Response | None:
        """By which a page elsewhere would lead a browser to its own port-forward."""
        host, known = request.headers.get("Host", ""), cluster_state.configuration.pages.url
        if names_loopback(host) or (known and host_name(host) == urlsplit(known).hostname):
            return None
        return Response(_FOREIGN, status=403, content_type="text/plain; charset=utf-8")

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

    @pages.get("/rules/<group>/<name>")
    def rule(group: str, name: str) -> str:
        found = _RULES.get(f"{group}/{name}")
        if found is None:
            abort(404)
        configuration = cluster_state.configuration
        return render_template(
            "rule.html",
            root="../../",
            version=__version__,
            rule=found,
            action=configuration.action_for(found).value,
            kinds=sorted(kind.value for kind in found.kinds),
            where_and_why=where_and_why(found),
        )

    return pages


def chart(counts: Sequence[tuple[int, int]]) -> Markup:
    """Reviews of each minute with those denied in front, said in words to whoever does not see it."""
    highest = max((reviews for reviews, _ in counts), default=0)
    words = (
        f"{sum(reviews for reviews, _ in counts)} reviews in the last hour, {sum(denied for _, denied in counts)} of them"
        f" denied, {highest} in one minute at most"
    )
    drawn = [
        f'<rect class="part-{part}" x="{minute * 10 + 1}" y="{60 - height:.1f}" width="8" height="{height:.1f}"/>'
        for minute, (reviews, denied) in enumerate(counts)
        for part, count in (("reviews", reviews), ("denials", denied))
        if (height := 58 * count / highest if highest else 0)
    ]
    width = 10 * len(counts)
    return Markup(  # noqa: S704 - numbers alone
        f'<svg class="chart" viewBox="0 0 {width} 60" preserveAspectRatio="none" role="img" aria-label="{words}">'
        f'<path d="M0 59.5H{width}"/>{"".join(drawn)}</svg>'
    )


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
        "last_hour": _last_hour(keeper),
        "denials": [_denial(denial) for denial in list(reports.denials)],
        "caches": [
            {"worker": worker, "name": name, **cache}
            for worker, its in sorted(reports.workers.items())
            for name, cache in its.caches.items()
        ],
    }


_RULES = {rule.id: rule for rule in CATALOGUE}
_LOUDEST = 10


def _last_hour(keeper: Keeper) -> dict[str, Any]:
    counts = keeper.reports.last_hour.counts
    return {
        "reviews": sum(reviews for reviews, _ in counts),
        "denials": sum(denied for _, denied in counts),
        "minutes": counts,
        "rules": [
            {"id": rule, "count": count, "title": _title(rule)}
            for rule, count in keeper.reports.last_hour.loudest(_LOUDEST)
        ],
    }


def _title(rule: str) -> str:
    """Empty for what is none of the catalogue."""
    return _RULES[rule].title if rule in _RULES else ""


def _denial(denial: Denial) -> dict[str, Any]:
    """Rules, paths and names: what a finding says of a value is for whoever wrote it."""
    findings = [(rule, path, _title(rule)) for rule, path in denial.findings]
    return {**asdict(denial), "findings": findings}


def _rules(configuration: Configuration) -> list[dict[str, str]]:
    return [
        {"id": rule.id, "title": rule.title, "action": configuration.action_for(rule).value}
        for rule in CATALOGUE
    ]


def _time(moment: datetime | None) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC") if moment else ""
