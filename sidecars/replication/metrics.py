"""Metrics of a pair, under argocd-agent's names where it has them; argocd-agent leaves several of those empty."""

from prometheus_client import Counter, Gauge

from tiphys import metrics

# The pair.

STATE: Gauge = metrics.gauge(
    "argocd_agent_ha_state", "1 for the state that this principal is in.", labels=("state",)
)
TRANSITIONS: Counter = metrics.counter(
    "argocd_agent_ha_transitions_total", "Changes of state.", labels=("from_state", "to_state")
)
FAILOVERS: Counter = metrics.counter("argocd_agent_ha_failovers_total", "Promotions of this principal.")
FAILBACKS: Counter = metrics.counter("argocd_agent_ha_failbacks_total", "Demotions of this principal.")
EPOCH: Gauge = metrics.gauge(
    "tiphys_replication_epoch", "The epoch in this principal's record.", across="livemax"
)
PEER_UNKNOWN: Counter = metrics.counter(
    "tiphys_replication_unanswered_words_total",
    "Times that an agent had obeyed the peer while this principal serves, and the peer could not be asked.",
)
LAG_SECONDS: Gauge = metrics.gauge(
    "argocd_agent_ha_replication_lag_seconds",
    "Age of the oldest change that this standby knows of and has not written, or that a replica has not.",
)
REPLICATED: Counter = metrics.counter(
    "argocd_agent_ha_replication_events_total",
    "Changes that this standby has written, or found to be written.",
)
REPLICATION_ERRORS: Counter = metrics.counter(
    "argocd_agent_ha_replication_errors_total", "Writes of this standby that failed, each attempt."
)
OPERATION_ERRORS: Counter = metrics.counter(
    "argocd_agent_ha_resource_operation_errors_total",
    "Writes of this standby that failed, by kind.",
    labels=("kind", "operation"),
)

# The primary.

QUEUED: Counter = metrics.counter(
    "argocd_agent_replication_events_queued_total", "Changes that came into the replication log."
)
OVERFLOWS: Counter = metrics.counter(
    "argocd_agent_replication_events_dropped_total",
    "Times that a replica fell behind the log; it is compared then, nothing is lost.",
)
FORWARDED: Counter = metrics.counter(
    "argocd_agent_replication_events_forwarded_total", "Changes sent to replicas."
)
FORWARDING_ERRORS: Counter = metrics.counter(
    "argocd_agent_replication_forwarding_errors_total", "Streams of replicas that ended with an error."
)
REPLICAS: Gauge = metrics.gauge(
    "argocd_agent_replication_replicas_connected", "Replicas with an open stream."
)
LOG_ENTRIES: Gauge = metrics.gauge("argocd_agent_replication_queue_size", "Changes that the log holds.")
LOG_BYTES: Gauge = metrics.gauge("tiphys_replication_log_bytes", "Bytes that the log holds.")
LAST_SEQUENCE: Gauge = metrics.gauge(
    "argocd_agent_replication_last_sequence_number", "The number of the newest change.", across="livemax"
)
REPLICA_LAG_EVENTS: Gauge = metrics.gauge(
    "tiphys_replication_replica_lag_events",
    "Changes that a replica has not acknowledged.",
    labels=("replica",),
)
REPLICA_LAG_BYTES: Gauge = metrics.gauge(
    "tiphys_replication_replica_lag_bytes", "Bytes of what it has not acknowledged.", labels=("replica",)
)
REPLICA_LAG_SECONDS: Gauge = metrics.gauge(
    "tiphys_replication_replica_lag_seconds",
    "Age of the oldest that it has not acknowledged.",
    labels=("replica",),
)
REPLICA_EQUAL: Gauge = metrics.gauge(
    "tiphys_replication_replica_equal",
    "1 where the last comparison found the kind equal, 0 where not.",
    labels=("replica", "kind"),
)
SENT_BYTES: Counter = metrics.counter(
    "tiphys_replication_sent_bytes_total", "Bytes sent to replicas, before TLS."
)
RESUMES: Counter = metrics.counter(
    "tiphys_replication_resumes_total", "Streams of replicas that went on from where they were."
)
RESYNCS: Counter = metrics.counter(
    "tiphys_replication_resyncs_total", "Streams that began with a comparison or a snapshot instead."
)
COMPARISONS: Counter = metrics.counter(
    "tiphys_replication_comparisons_total", "Comparisons by range hashes, one for all kinds."
)
SNAPSHOTS: Counter = metrics.counter("tiphys_replication_snapshots_total", "Kinds that were sent as a whole.")
SNAPSHOT_OBJECTS: Counter = metrics.counter(
    "tiphys_replication_snapshot_objects_total", "Objects sent by snapshots and repairs."
)
GO_REFUSED: Counter = metrics.counter(
    "tiphys_replication_go_snapshots_refused_total",
    "Snapshots larger than a Go replica takes (4 MiB), which it was refused.",
)

GO_FORGOTTEN: Counter = metrics.counter(
    "tiphys_replication_go_deletions_forgotten_total",
    "Deletions that a Go replica did not acknowledge and that were too many to be kept for it.",
)

# The standby.

CONNECTED: Gauge = metrics.gauge(
    "argocd_agent_replication_client_connected", "1 while there is a stream from the primary."
)
RECEIVED: Counter = metrics.counter(
    "argocd_agent_replication_client_events_received_total", "Changes that came from the primary."
)
PROCESSED: Counter = metrics.counter(
    "argocd_agent_replication_client_events_processed_total", "Changes that are written or dead letters."
)
ERRORS: Counter = metrics.counter(
    "argocd_agent_replication_client_events_errors_total", "Changes whose write failed, each attempt."
)
DROPPED: Counter = metrics.counter(
    "argocd_agent_replication_client_events_dropped_total", "Changes that became dead letters."
)
CLIENT_LAG: Gauge = metrics.gauge(
    "argocd_agent_replication_client_lag_seconds",
    "How long this standby has not had everything that it knows of.",
)
RECONNECTS: Counter = metrics.counter(
    "argocd_agent_replication_client_reconnect_attempts_total", "Attempts to connect to the primary."
)
CLIENT_SEQUENCE: Gauge = metrics.gauge(
    "argocd_agent_replication_client_last_sequence_number",
    "The sequence up to which everything is written.",
    across="livemax",
)
CLIENT_AGENTS: Gauge = metrics.gauge(
    "argocd_agent_replication_client_snapshot_agents", "Agents whose cluster Secrets this standby has."
)
RECONCILIATIONS: Counter = metrics.counter(
    "argocd_agent_replication_client_reconciliations_total",
    "Comparisons that this standby answered to their end.",
)
GAPS: Counter = metrics.counter(
    "argocd_agent_replication_client_sequence_gaps_total",
    "Messages that were missing, doubled or changed; the stream began anew.",
)
SNAPSHOT_ERRORS: Counter = metrics.counter(
    "argocd_agent_replication_client_snapshot_fetch_errors_total",
    "Snapshots and repairs whose count or hash was wrong.",
)
SNAPSHOT_APPLY_ERRORS: Counter = metrics.counter(
    "argocd_agent_replication_client_snapshot_apply_errors_total",
    "Dead letters of a snapshot or repair, before this standby had all of it.",
)
EQUAL: Gauge = metrics.gauge(
    "tiphys_replication_equal",
    "1 where the last comparison found the kind equal, 0 where not.",
    labels=("kind",),
)
HELD_DELETIONS: Gauge = metrics.gauge(
    "tiphys_replication_held_deletions",
    "Deletions that wait for `tiphys ha accept-deletions`.",
    labels=("kind",),
)
DEAD_LETTERS: Gauge = metrics.gauge(
    "tiphys_replication_dead_letters", "Objects that this standby could not write.", labels=("kind",)
)
FENCED: Gauge = metrics.gauge(
    "tiphys_replication_fenced", "1 while this principal's cluster refuses the writes of a deposed one."
)
HELD_OBJECTS: Gauge = metrics.gauge(
    "tiphys_replication_held_objects",
    "Objects of agents that a promoted principal does not know and leaves alone until `tiphys ha release`.",
)
