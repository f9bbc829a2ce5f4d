"""What the Redis proxy counts, on either end."""

from tiphys import metrics

REQUESTS = metrics.counter(
    "argocd_principal_redis_proxy_requests_total",
    "Questions of argocd-server that agents' Redis were asked.",
    labels=("agent_name", "command"),
)
ERRORS = metrics.counter(
    "argocd_principal_redis_proxy_errors_total",
    "Those that were answered with an error.",
    labels=("agent_name", "command"),
)
SECONDS = metrics.histogram(
    "tiphys_proxies_redis_get_seconds", "From a GET of an agent's tree or managed resources to its answer."
)
CONNECTIONS = metrics.gauge("tiphys_proxies_redis_connections", "Open connections to the Redis proxy.")
REFUSED = metrics.counter(
    "tiphys_proxies_redis_refused_connections_total",
    "Connections that the Redis proxy closed: too many, too slow to log in, no protocol.",
)
SUBSCRIPTIONS = metrics.gauge(
    "tiphys_proxies_redis_subscriptions", "Channels of agents that somebody follows, on either end."
)

AGENT_REQUESTS = metrics.counter(
    "argocd_agent_redis_proxy_requests_total",
    "Questions of the principal about this cluster's Redis.",
    labels=("command",),
)
AGENT_ERRORS = metrics.counter(
    "argocd_agent_redis_proxy_errors_total", "Those that were answered with an error.", labels=("command",)
)
