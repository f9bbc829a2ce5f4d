"""The webhook's metrics, and the observer that feeds them."""

import asyncio
from collections import Counter as Counted
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from argocd.engine.judge import Judgement
from argocd.judging.case import Action
from certs.key_pair import CertificateError, KeyPair
from kube.cache import Health
from tiphys import logs, metrics
from webhook.admission.review import Review, ReviewAnswer
from webhook.keeper.worker_reports import Denial, WorkerReporter

if TYPE_CHECKING:
    from prometheus_client import Counter, Histogram

REVIEWS = metrics.counter(
    "tiphys_webhook_reviews_total", "Reviews answered.", labels=("endpoint", "kind", "operation", "result")
)
REVIEW_SECONDS = metrics.histogram(
    "tiphys_webhook_review_seconds", "Time from the whole body to the answer.", labels=("endpoint",)
)
REFUSALS = metrics.counter(
    "tiphys_webhook_refused_calls_total",
    "Calls answered with an HTTP error; with failurePolicy Ignore the object passed unjudged.",
    labels=("endpoint", "status"),
)
FINDINGS = metrics.counter(
    "tiphys_webhook_findings_total", "Findings, by rule and what was done.", labels=("rule", "action")
)
EXEMPTIONS = metrics.counter(
    "tiphys_webhook_exemptions_total", "Findings that an exemption silenced, by rule.", labels=("rule",)
)
INJECTIONS = metrics.counter(
    "tiphys_webhook_injections_total", "Pods seen by /inject, by reason.", labels=("reason",)
)
CERTIFICATE_EXPIRY = metrics.gauge(
    "tiphys_webhook_certificate_expiry_timestamp_seconds",
    "When the certificate that a worker serves expires, in seconds since 1970.",
    across="livemin",
)
CERTIFICATE_REFUSED = metrics.counter(
    "tiphys_webhook_certificate_refused_total", "Times that a worker met a certificate it must not serve."
)
CACHE_SILENCE = metrics.gauge(
    "tiphys_webhook_cache_silence_seconds",
    "Seconds since a cache last heard of the API server, of the worst worker; rules on neighbours end at 180.",
    labels=("cache",),
    across="livemax",
)
CONFIGURATION_BROKEN = metrics.gauge(
    "tiphys_webhook_configuration_broken",
    "1 while the ConfigMap cannot be read and the last good configuration counts.",
    across="livemax",
)

JUDGED_KINDS = frozenset({"AppProject", "Application", "ApplicationSet", "Secret", "ConfigMap", "Pod"})
"""Kinds that are a metric's label; others count as `other`, whatever an admin registers."""

TELL_SECONDS = 0.05
"""Between two times that counts are told to the metrics: a worker that is killed takes those of so long with it."""

log = logs.get_logger()


class WorkerMetrics:
    """Observes one worker: counts, logs, and reports to the keeper."""

    def __init__(self, reporter: WorkerReporter) -> None:
        self._reporter = reporter
        self._answers: list[tuple[str, str, str, bool, float]] = []
        """Path, kind, operation, whether it was allowed, and how long it took: of TELL_SECONDS at most."""
        self._told = float("-inf")
        self._reviewed = self._denied = 0
        self._spoke: Counted[str] = Counted()
        """For the status page, since the last report."""
        # A metric's child is looked up once for each combination of labels: that is what costs.
        self._reviews: dict[tuple[str, str, str, bool], Counter] = {}
        self._review_seconds: dict[str, Histogram] = {}
        self._findings: dict[tuple[str, Action], Counter] = {}

    def answered(self, path: str, review: Review, answer: ReviewAnswer, seconds: float) -> None:
        """Counted here, and told to the metrics at once where little comes, else now and then.

        Processes share these metrics, and each touch of one costs a review as much as reading its fields.
        """
        if not self._answers:
            loop = asyncio.get_running_loop()
            loop.call_at(max(loop.time(), self._told + TELL_SECONDS), self._tell)
        kind = review.kind if review.kind in JUDGED_KINDS else "other"
        self._answers.append((path, kind, review.operation, answer.allowed, seconds))
        if answer.judgements:
            self._judged(review, answer.judgements)
        if answer.injection is not None:
            INJECTIONS.labels(answer.injection.value).inc()

    def _tell(self) -> None:
        self._told = asyncio.get_running_loop().time()
        answers, self._answers = self._answers, []
        counts: Counted[tuple[str, str, str, bool]] = Counted()
        durations: dict[str, list[float]] = {}
        for path, kind, operation, allowed, seconds in answers:
            counts[path, kind, operation, allowed] += 1
            durations.setdefault(path, []).append(seconds)
        for key, count in counts.items():
            child = self._reviews.get(key)
            if child is None:
                path, kind, operation, allowed = key
                result = "allowed" if allowed else "denied"
                child = self._reviews[key] = REVIEWS.labels(path.lstrip("/"), kind, operation, result)
            child.inc(count)
            self._reviewed += count
            self._denied += 0 if key[-1] else count
        for path, all_seconds in durations.items():
            histogram = self._review_seconds.get(path)
            if histogram is None:
                histogram = self._review_seconds[path] = REVIEW_SECONDS.labels(path.lstrip("/"))
            metrics.observe_all(histogram, all_seconds)

    def refused(self, path: str, status: int, reason: str) -> None:
        REFUSALS.labels(path.lstrip("/"), str(status)).inc()
        log.debug("refused a call", **{logs.CODE: status, logs.REASON: reason})

    def crashed(self, path: str, error: Exception) -> None:
        log.error("a decision failed", **{logs.OPERATION: path, logs.ERROR: error})

    def certificate_loaded(self, pair: KeyPair) -> None:
        expiry = pair.leaf.not_valid_after_utc
        CERTIFICATE_EXPIRY.set(expiry.timestamp())
        self._reporter.certificate(pair.fingerprint, expiry)
        self._reporter.trouble("certificate", "")
        log.info("serving a new certificate", **{logs.KEY: pair.fingerprint[:16]})

    def certificate_refused(self, error: CertificateError) -> None:
        CERTIFICATE_REFUSED.inc()
        self._reporter.trouble("certificate", str(error))
        log.error("a certificate was refused, the last good one stays", **{logs.ERROR: error})

    def _judged(self, review: Review, judgements: Sequence[Judgement]) -> None:
        # Thousands may be of one rule, and each touch of a metric costs as much as finding one of them.
        for (rule, action), count in Counted(
            (judgement.finding.rule, judgement.action) for judgement in judgements
        ).items():
            self._spoke[rule] += count
            found = self._findings.get((rule, action))
            if found is None:  # as many as there are rules and actions
                found = self._findings[rule, action] = FINDINGS.labels(rule, action.value)
            found.inc(count)
        for judgement in judgements:
            if judgement.exemption is not None:
                EXEMPTIONS.labels(judgement.finding.rule).inc()
                self._reporter.exempted(judgement.finding.rule, judgement.exemption.reason)
        denied = [judgement.finding for judgement in judgements if judgement.action is Action.DENY]
        if denied and not review.dry_run:
            denial = Denial.of(review, denied)
            self._reporter.denied(denial)
            log.info(
                "denied",
                **{
                    logs.KIND: review.kind,
                    logs.NAMESPACE: review.namespace,
                    logs.NAME: review.name,
                    logs.USER: review.user,
                    logs.RULE: ",".join(sorted({finding.rule for finding in denied})),
                },
            )

    def troubled(self, what: str, trouble: str) -> None:
        """Something became wrong, or with an empty text right again."""
        self._reporter.trouble(what, trouble)
        if what == "configuration":
            CONFIGURATION_BROKEN.set(bool(trouble))
        if trouble:
            log.error("trouble", **{logs.NAME: what, logs.REASON: trouble})

    def report(self, health: Mapping[str, Health], *, troubles: Mapping[str, str]) -> None:
        """Of the caches and of what was counted, now and then."""
        self._reporter.caches(health)
        if self._reviewed:
            self._reporter.counted(reviews=self._reviewed, denials=self._denied, rules=self._spoke)
            self._reviewed = self._denied = 0
            self._spoke.clear()
        for what, trouble in troubles.items():
            self._reporter.trouble(what, trouble)
        for name, cache in health.items():
            CACHE_SILENCE.labels(name).set(cache.silence)
