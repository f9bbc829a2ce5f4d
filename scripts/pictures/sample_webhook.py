"""The webhook's status page after an hour at work, for its picture.

Keeper and pages are the real ones; the hour's reviews are played.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from werkzeug.serving import WSGIRequestHandler, make_server

from kube.embedded import EmbeddedStore
from webhook.admission.cluster_state import ClusterState, Scope
from webhook.keeper.keeper import Keeper, KeeperOptions
from webhook.keeper.last_hour import MINUTES, LastHour
from webhook.keeper.pages import create_pages
from webhook.keeper.worker_reports import Denial, WorkerState
from webhook.registration.table import Registration

REPLICA = "tiphys-webhook-6c9f7d5b48-x7k2q"
REVIEWS = (18, 22, 27, 31, 24, 19, 26, 38, 52, 61, 47, 33)
"""Of one minute after another, over and over: a roll-out every twelve minutes."""
DENIALS = {8: "project/source-repo-format", 19: "application/destination-twice", 20: "agent/mirror-changed"}
DENIALS |= {21: "project/source-repo-format", 33: "project/policy-object", 44: "ignore-sync/value"}
DENIALS |= {45: "application/destination-twice", 56: "project/source-repo-format"}
"""By the minute."""
WARNED = {"application/floating-revision": 9, "tracking/copied-id": 4}
WRITTEN = (
    (11, "AppProject", "argocd", "payments", "ada@example.org", ("project/policy-object", "spec.roles[0].policies[2]")),
    (4, "AppProject", "argocd", "billing", "ci-billing", ("project/source-repo-format", "spec.sourceRepos[1]")),
)  # fmt: skip
"""Minutes ago, kind, namespace, name, user, finding."""


class _Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002 - werkzeug's signature
        """A picture has one caller."""


@contextmanager
def sample_webhook(folder: Path) -> Iterator[str]:
    """Its address."""
    now = datetime.now(UTC)
    options = KeeperOptions(scope=Scope(), folder=folder, identity=REPLICA, review_port=1)
    keeper = Keeper(EmbeddedStore(), options)
    _play(keeper, now)
    state = ClusterState(EmbeddedStore(), Scope(), told=lambda _what, _trouble: None)
    pages = create_pages(keeper, state, Registration(argocd_namespace="argocd", home="tiphys-system"))
    server = make_server("127.0.0.1", 0, pages, threaded=True, request_handler=_Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _play(keeper: Keeper, now: datetime) -> None:
    status = keeper.state
    status.started = now - timedelta(days=12, hours=5)
    status.leader, status.leads = REPLICA, True
    status.fingerprint, status.answers = "B95A7DC22B97D296", True
    status.expiry = now + timedelta(days=5)
    cache = {"objects": 412, "silence": 3.0, "synced": True, "error": ""}
    keeper.reports.workers = {pid: WorkerState(caches={"applications": cache}) for pid in (7, 8)}
    clock = [now.timestamp()]
    hour = keeper.reports.last_hour = LastHour(lambda: clock[0])
    for minute in range(MINUTES):
        clock[0] = now.timestamp() - 60 * (MINUTES - 1 - minute)
        denied = DENIALS.get(minute)
        rules = {denied: 1} if denied else {}
        hour.add(reviews=REVIEWS[minute % len(REVIEWS)], denials=len(rules), rules=rules)
    hour.add(reviews=0, denials=0, rules=WARNED)
    for ago, kind, namespace, name, user, finding in WRITTEN:
        when = (now - timedelta(minutes=ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
        keeper.reports.denials.appendleft(Denial(when, kind, namespace, name, user, [finding]))
