"""Whether this principal serves: agents, proxies and replicas ask before they are answered.

Without high availability it is always open. A standby's is closed, and says in which state.
"""

import asyncio

from tiphys import metrics

REJECTED = metrics.counter(
    "argocd_agent_ha_connections_rejected_total",
    "Calls refused because this principal is not the active one, by its state and by what was called.",
    labels=("state", "reason"),
)

OPEN = "active"
STARTING = "starting"
STOPPING = "stopping"


class ServingGate:
    def __init__(self, state: str = OPEN) -> None:
        """`state` as argocd-agent names it."""
        self._state = state
        self.changed = asyncio.Event()
        """Cleared by the one who waits for it."""

    @property
    def state(self) -> str:
        return self._state

    @state.setter
    def state(self, state: str) -> None:
        self._state = state
        self.changed.set()

    @property
    def is_open(self) -> bool:
        return self.state == OPEN

    def refusal(self, call: str) -> str | None:
        """What the caller reads; None where it may come in. `call` is one of few words, for the metric."""
        if self.is_open:
            return None
        REJECTED.labels(self.state, call).inc()
        return f"not accepting connections in state {self.state}"
