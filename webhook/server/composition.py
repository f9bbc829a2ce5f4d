"""The composition root of a review worker: whatever answers a review is made and joined here, and nowhere else."""

from functools import partial

from webhook.admission.access_reviews import AccessReviews
from webhook.admission.cluster_state import ClusterState
from webhook.admission.decisions import Decisions
from webhook.keeper.worker_reports import WorkerReporter
from webhook.server.arbiters import ReviewArbiter
from webhook.server.asgi import Endpoint, ReviewApp
from webhook.server.background import WorkerBackground
from webhook.server.metrics import WorkerMetrics
from webhook.server.options import WebhookOptions


def endpoints_of(decisions: Decisions) -> dict[str, Endpoint]:
    return {
        "/validate": Endpoint(decisions.validate, patches=False),
        "/mutate": Endpoint(decisions.mutate, patches=True),
        "/inject": Endpoint(decisions.inject, patches=True),
    }


async def review_app(options: WebhookOptions) -> ReviewApp:
    """Made inside each worker, after the fork."""
    store = await options.connect()
    reporter = WorkerReporter(options.keeper.folder)
    metrics = WorkerMetrics(reporter)
    cluster_state = ClusterState(store, options.keeper.scope, told=metrics.troubled)
    access_reviews = AccessReviews(store, urls=(store.url, store.url.removesuffix(":443")))
    decisions = Decisions(cluster_state, access_reviews=access_reviews)
    return ReviewApp(
        endpoints=endpoints_of(decisions),
        folder=options.keeper.leaf_folder,
        background=WorkerBackground(cluster_state, metrics=metrics, reporter=reporter),
        observer=metrics,
        drain_seconds=options.review_port.drain_seconds,
        client_ca=options.review_port.client_ca,
    )


def run_workers(options: WebhookOptions) -> None:
    ReviewArbiter(partial(review_app, options), options.review_port).run()
