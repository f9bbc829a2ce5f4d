"""Figures of all links of a process together; `per_peer.py` has those of each."""

from itertools import product

from sidecars.delivery.outcomes import DeadLetterReason
from sidecars.metrics.per_peer import KIND_LABELS
from tiphys import metrics

COMPARED = metrics.counter("tiphys_sidecars_compared_keys_total", "Keys in comparisons that were finished.")
DIFFERENT = metrics.counter("tiphys_sidecars_repaired_keys_total", "Keys that differed and were sent again.")
DEAD_LETTERS = metrics.counter(
    "tiphys_sidecars_dead_letters_total",
    "Events that were given up, by target and reason.",
    labels=("target", "reason"),
)
for _kind, _reason in product(KIND_LABELS, DeadLetterReason):
    DEAD_LETTERS.labels(
        _kind, _reason
    )  # 0 from the start: Prometheus sees no increase in a counter's first value
OVERFLOWS = metrics.counter(
    "tiphys_sidecars_overflows_total", "Events without room, whose keys were left to a comparison."
)
RESENT = metrics.counter("tiphys_sidecars_resent_events_total", "Events sent again without an answer.")
PROPAGATION = metrics.histogram(
    "tiphys_sidecars_propagation_seconds",
    "From a change seen here to the other end's word that it is applied there (sent), or from the other end's"
    " first transmission, by its clock, to the effect here (received).",
    labels=("kind", "direction"),
)
