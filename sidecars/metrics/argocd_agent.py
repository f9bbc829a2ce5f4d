"""argocd-agent's metrics under argocd-agent's names, so that dashboards keep working.

Where its counters do not end in `_total` they are gauges here: a counter would get another name.
"""

from dataclasses import dataclass

from prometheus_client import Counter, Gauge

from tiphys import __version__, metrics


@dataclass(frozen=True, slots=True)
class Figures:
    """Events of one side; `errors` by the sort of object."""

    received: Gauge
    sent: Gauge
    errors: Gauge


@dataclass(frozen=True, slots=True)
class Changes:
    """Of one sort of object on the control plane; what is there at the start counts as created."""

    created: Gauge
    updated: Gauge
    deleted: Gauge

    @classmethod
    def of(cls, name: str, what: str) -> "Changes":
        def gauge(word: str) -> Gauge:
            return metrics.gauge(f"{name}_{word}", f"{what} {word} on the control plane.")

        return cls(gauge("created"), gauge("updated"), gauge("deleted"))


# Which revision a release was made of is told by its image.
BUILD = metrics.gauge("argocd_agent_build_info", "1, of this version.", labels=("version", "git_revision"))
BUILD.labels(__version__, "").set(1)

APPLICATION_CHANGES = Changes.of("principal_applications", "Applications")
PROJECT_CHANGES = Changes.of("principal_app_projects", "Projects")
REPOSITORY_CHANGES = Changes.of("principal_repositories", "Repositories")
KEYS = metrics.gauge("argocd_principal_gpg_keys_count", "GPG keys on the control plane.")

CONNECTED_AGENTS = metrics.gauge("argocd_principal_connected_agents", "Agents with an open stream.")
AGENT_CONNECTIONS: Counter = metrics.counter(
    "argocd_principal_agent_connections_total", "Streams that agents have begun.", labels=("agent_name",)
)
PRINCIPAL = Figures(
    received=metrics.gauge("principal_events_received", "Events that agents have sent."),
    sent=metrics.gauge("principal_events_sent", "Events for agents."),
    errors=metrics.gauge(
        "principal_errors", "Events that were given up, by sort of object.", labels=("resource_type",)
    ),
)

CONNECTION_STATUS = metrics.gauge("argocd_agent_connection_status", "1 while connected to the principal.")
CONNECTED_SINCE = metrics.gauge(
    "argocd_agent_connection_start_timestamp_seconds", "When the present connection began."
)
CONNECTIONS: Counter = metrics.counter(
    "argocd_agent_connections_total", "Connections to the principal since the start."
)
AUTH_FAILURES: Counter = metrics.counter(
    "argocd_agent_auth_failures_total", "Logins that the principal has refused."
)
PROPAGATION = metrics.histogram(
    "agent_event_propagation_latency_seconds",
    "From an event's first transmission, by the principal's clock, to its effect here.",
    labels=("resource_type",),
)
AGENT = Figures(
    received=metrics.gauge("agent_events_received", "Events that the principal has sent."),
    sent=metrics.gauge("agent_events_sent", "Events for the principal."),
    errors=metrics.gauge(
        "agent_errors", "Events that were given up, by sort of object.", labels=("resource_type",)
    ),
)

RESOURCE_REQUESTS: Counter = metrics.counter(
    "argocd_principal_resource_proxy_requests_total", "Requests for live objects.", labels=("agent_name",)
)
RESOURCE_ERRORS: Counter = metrics.counter(
    "argocd_principal_resource_proxy_errors_total",
    "Requests for live objects that failed, by reason.",
    labels=("agent_name", "reason"),
)
AGENT_RESOURCE_REQUESTS: Counter = metrics.counter(
    "argocd_agent_resource_proxy_requests_total", "Requests of the principal for live objects."
)
AGENT_RESOURCE_ERRORS: Counter = metrics.counter(
    "argocd_agent_resource_proxy_errors_total", "Requests of the principal for live objects that failed."
)
