"""One registry, and the conventions that keep its names and its size predictable.

    DENIALS = metrics.counter("tiphys_webhook_denials_total", "Reviews refused, by rule.", labels=("rule",))

Names are written whole, so that they can be searched for. Labels have few values: rules, kinds, results,
configured agents; never names of objects, users or addresses, whose number nobody bounds.
"""

import os
import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_1_0_0
from prometheus_client.multiprocess import MultiProcessCollector

from tiphys import __version__

CONTENT_TYPE = CONTENT_TYPE_PLAIN_1_0_0
REGISTRY = CollectorRegistry()

LATENCY_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""From a review's half millisecond to an admission timeout of ten seconds."""

UNBOUNDED_LABELS = frozenset(
    {"name", "namespace", "uid", "user", "username", "url", "path", "message", "error"}
)

_NAME = re.compile(r"tiphys(_[a-z0-9]+){2,}|(argocd_)?(principal|agent)(_[a-z0-9]+)+|argocd_app_info")
"""The latter are argocd-agent's and Argo CD's own, under which their dashboards look for them."""


@dataclass(frozen=True, slots=True)
class Described:
    """A line of the metrics page."""

    name: str
    kind: str
    text: str
    labels: tuple[str, ...]


described: list[Described] = []


def counter(name: str, text: str, *, labels: tuple[str, ...] = ()) -> Counter:
    if not name.endswith("_total"):
        raise ValueError(f"the counter {name} does not end in _total")
    describe(name, "counter", text, labels=labels)
    return Counter(name, text, labels, registry=REGISTRY)


def gauge(name: str, text: str, *, labels: tuple[str, ...] = (), across: str = "livesum") -> Gauge:
    """`across` tells how the values of several worker processes become one: livesum, livemax, mostrecent…"""
    describe(name, "gauge", text, labels=labels)
    return Gauge(name, text, labels, registry=REGISTRY, multiprocess_mode=across)  # type: ignore[arg-type]  # a Literal there


def histogram(
    name: str, text: str, *, labels: tuple[str, ...] = (), buckets: tuple[float, ...] = LATENCY_SECONDS
) -> Histogram:
    if not name.endswith(("_seconds", "_bytes", "_objects")):
        raise ValueError(f"the histogram {name} does not end in its unit")
    describe(name, "histogram", text, labels=labels)
    return Histogram(name, text, labels, registry=REGISTRY, buckets=buckets)


def observe_all(child: Histogram, values: Iterable[float]) -> None:
    """What `observe` would do with each of many values, touching each bucket once.

    prometheus_client has no such call; where several processes share a metric each touch takes microseconds.
    """
    bounds, buckets = child._upper_bounds, child._buckets  # noqa: SLF001 - a test compares with `observe`
    counts, total = [0] * len(bounds), 0.0
    for value in values:
        counts[bisect_left(bounds, value)] += 1
        total += value
    child._sum.inc(total)  # noqa: SLF001 - as above
    for bucket, count in zip(buckets, counts, strict=True):
        if count:
            bucket.inc(count)


def exposition() -> bytes:
    """What `/metrics` answers, with `CONTENT_TYPE`.

    Where `PROMETHEUS_MULTIPROC_DIR` was set before the first import of prometheus_client, worker processes
    write their values to that folder and this adds them up.
    """
    if folder := os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        together = CollectorRegistry()
        MultiProcessCollector(together, path=folder)  # type: ignore[no-untyped-call]
        return generate_latest(together)
    return generate_latest(REGISTRY)


def describe(
    name: str, kind: str, text: str, *, labels: tuple[str, ...] = (), bounded: bool = False
) -> Described:
    """For the metrics page, of a figure that is not in the registry; those that are describe themselves. One that is
    `bounded` in another way may have labels that have no bound of their own.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"the metric {name} is not named tiphys_<room>_<what>")
    if not bounded and (unbounded := UNBOUNDED_LABELS.intersection(labels)):
        raise ValueError(f"the metric {name} has a label without bound: {', '.join(sorted(unbounded))}")
    described.append(line := Described(name, kind, text, labels))
    return line


BUILD = gauge("tiphys_build_info", "1, of this version.", labels=("version",), across="max")
BUILD.labels(__version__).set(1)
