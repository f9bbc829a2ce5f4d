"""Figures by peer: plain numbers while events pass, made into metrics when somebody asks.

A thousand agents with a metric object for each kind and direction would cost more memory than their queues.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from argocd.agents.vocabulary import OBJECT_TARGETS, PREFIX, Target
from sidecars.wire.events import Event
from tiphys import metrics

if TYPE_CHECKING:
    from sidecars.mirroring.link import Link

SENT, RECEIVED = "sent", "received"
SUCCESS, FAILURE = "success", "failure"
UNSENDABLE, STREAM_LOST = "unsendable", "stream_lost"

# As client libraries have it by default, argocd-agent's too.
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_BOUNDS = (*(str(bound) for bound in BUCKETS), "+Inf")

_KINDS = OBJECT_TARGETS | {Target.RESOURCE_RESYNC}
OTHER_KIND = "other"
KIND_LABELS = (*sorted(str(kind) for kind in _KINDS), OTHER_KIND)
"""All that `kind_of` answers."""

_SYNC = ("agent", "kind", "direction")
ATTEMPTS = metrics.describe(
    "tiphys_sidecars_sync_attempts_total",
    "counter",
    "Changes told to the other end and told again (sent), or tried to be applied (received).",
    labels=_SYNC,
)
FAILURES = metrics.describe(
    "tiphys_sidecars_sync_failures_total",
    "counter",
    "Attempts without room, without an answer or never to be sent (sent), or not applied (received).",
    labels=_SYNC,
)
QUEUE_EVENTS = metrics.describe(
    "tiphys_sidecars_queue_events", "gauge", "Events that are not acknowledged yet.", labels=("agent",)
)
QUEUE_BYTES = metrics.describe(
    "tiphys_sidecars_queue_bytes",
    "gauge",
    "Bytes of events that are not acknowledged yet.",
    labels=("agent",),
)
QUEUE_AGE = metrics.describe(
    "tiphys_sidecars_queue_age_seconds",
    "gauge",
    "Age of the oldest event that is not acknowledged yet.",
    labels=("agent",),
)
PRINCIPAL_TIME = metrics.describe(
    "principal_event_processing_time",
    "histogram",
    "Seconds that applying an agent's event took.",
    labels=("status", "agent_name", "resource_type"),
)
AGENT_TIME = metrics.describe(
    "agent_event_processing_time",
    "histogram",
    "Seconds that applying an event of the principal took.",
    labels=("status", "agent_mode", "resource_type"),
)
PRINCIPAL_SEND_ERRORS = metrics.describe(
    "principal_event_writer_send_errors_total",
    "counter",
    "Events that can never be sent, and streams that broke.",
    labels=("agent_name", "reason"),
)
PRINCIPAL_DISCARDED = metrics.describe(
    "argocd_principal_event_writer_events_discarded_total",
    "counter",
    "Events that can never be sent.",
    labels=("agent_name", "event_type", "resource_type"),
)
AGENT_DISCARDED = metrics.describe(
    "argocd_agent_event_writer_events_discarded_total",
    "counter",
    "Events that can never be sent.",
    labels=("event_type", "resource_type"),
)
CONNECTED = metrics.describe(
    "agent_connected_with_principal", "gauge", "Agents with an open stream, as argocd-agent 0.9 calls it."
)
CONNECTION_TIME = metrics.describe(
    "principal_agent_avg_connection_time", "gauge", "Minutes that connected agents have been so, on average."
)


def kind_of(event: Event) -> str:
    """A peer may name anything: as a label it is one of few."""
    return str(event.target) if event.target in _KINDS else OTHER_KIND


class Times:
    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * len(_BOUNDS)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.total += seconds


class PerPeerMetrics:
    """Of one peer, since this process knows it."""

    __slots__ = ("discarded", "send_errors", "times", "told", "untold")

    def __init__(self) -> None:
        self.told: Counter[str] = Counter()
        self.untold: Counter[str] = Counter()
        self.times: dict[tuple[str, str], Times] = {}
        self.send_errors: Counter[str] = Counter()
        self.discarded: Counter[tuple[str, str]] = Counter()

    def applied(self, event: Event, seconds: float, *, status: str) -> None:
        key = status, kind_of(event)
        times = self.times.get(key)
        if times is None:
            times = self.times[key] = Times()
        times.add(seconds)

    def sent(self, event: Event, *, taken: bool) -> None:
        kind = kind_of(event)
        self.told[kind] += 1
        if not taken:
            self.untold[kind] += 1

    def resent(self, event: Event) -> None:
        """The other end did not answer."""
        kind = kind_of(event)
        self.told[kind] += 1
        self.untold[kind] += 1

    def abandoned(self, event: Event) -> None:
        kind = kind_of(event)
        self.untold[kind] += 1
        self.send_errors[UNSENDABLE] += 1
        self.discarded[event.type.removeprefix(PREFIX), kind] += 1

    def attempts(self) -> Iterator[tuple[str, str, int, int]]:
        """By kind and direction: how many, and how many failed."""
        for kind, count in self.told.items():
            yield kind, SENT, count, self.untold[kind]
        received: Counter[str] = Counter()
        for (_, kind), times in self.times.items():
            received[kind] += sum(times.counts)
        for kind, count in received.items():
            failed = self.times.get((FAILURE, kind))
            yield kind, RECEIVED, count, sum(failed.counts) if failed else 0


Links = Sequence[tuple[str, "Link"]]
"""With the names of their agents, on either side."""


def principal_figures(links: Links) -> bytes:
    minutes = [link.connected_seconds / 60 for _, link in links if link.connected]
    return _page(
        *_shared(links),
        _histogram(
            PRINCIPAL_TIME,
            (
                ((status, agent, kind), times)
                for agent, link in links
                for (status, kind), times in link.per_peer.times.items()
            ),
        ),
        _rows(
            PRINCIPAL_SEND_ERRORS,
            (
                ((agent, reason), count)
                for agent, link in links
                for reason, count in link.per_peer.send_errors.items()
            ),
        ),
        _rows(
            PRINCIPAL_DISCARDED,
            (
                ((agent, *what), count)
                for agent, link in links
                for what, count in link.per_peer.discarded.items()
            ),
        ),
        _rows(CONNECTED, [((), len(minutes))]),
        _rows(CONNECTION_TIME, [((), sum(minutes) / len(minutes) if minutes else 0.0)]),
    )


def agent_figures(links: Links, *, mode: str) -> bytes:
    return _page(
        *_shared(links),
        _histogram(
            AGENT_TIME,
            (
                ((status, mode, kind), times)
                for _, link in links
                for (status, kind), times in link.per_peer.times.items()
            ),
        ),
        _rows(AGENT_DISCARDED, (each for _, link in links for each in link.per_peer.discarded.items())),
    )


def _shared(links: Links) -> Iterator[Iterator[str]]:
    """Walks over what waits: once per scrape, and no more than the queues may hold."""
    queues = [(agent, link.outbox.figures()) for agent, link in links]
    yield _rows(QUEUE_EVENTS, (((agent,), each.waiting + each.under_way) for agent, each in queues))
    yield _rows(QUEUE_BYTES, (((agent,), each.bytes) for agent, each in queues))
    yield _rows(
        QUEUE_AGE,
        (((agent,), each.oldest_seconds if each.waiting or each.under_way else 0) for agent, each in queues),
    )
    attempts = [(agent, *each) for agent, link in links for each in link.per_peer.attempts()]
    yield _rows(ATTEMPTS, ((each[:3], each[3]) for each in attempts))
    yield _rows(FAILURES, ((each[:3], each[4]) for each in attempts))


# Written here: the library takes six times as long, and a scrape of a thousand agents must not hold up
# their events. No value needs quoting: names of agents are DNS labels, the rest are words of ours.


def _page(*families: Iterable[str]) -> bytes:
    return "".join(line for family in families for line in family).encode()


def _head(line: metrics.Described) -> str:
    return f"# HELP {line.name} {line.text}\n# TYPE {line.name} {line.kind}\n"


def _rows(line: metrics.Described, rows: Iterable[tuple[Sequence[str], float]]) -> Iterator[str]:
    yield _head(line)
    for values, number in rows:
        yield f"{line.name}{{{_labels(line, values)}}} {number}\n"


def _histogram(line: metrics.Described, rows: Iterable[tuple[Sequence[str], Times]]) -> Iterator[str]:
    yield _head(line)
    for values, times in rows:
        labels = _labels(line, values)
        begin, seen = f"{line.name}_bucket{{{labels},le=", 0
        for bound, count in zip(_BOUNDS, times.counts, strict=True):
            seen += count
            yield f'{begin}"{bound}"}} {seen}\n'
        yield f"{line.name}_sum{{{labels}}} {times.total}\n{line.name}_count{{{labels}}} {seen}\n"


def _labels(line: metrics.Described, values: Sequence[str]) -> str:
    return ",".join([f'{label}="{each}"' for label, each in zip(line.labels, values, strict=True)])
