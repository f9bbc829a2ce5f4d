"""Events of Kubernetes about what could not be applied or sent, where `kubectl describe` and people look."""

from collections.abc import Callable
from datetime import datetime

from kube.resources import EVENTS
from kube.store import Store
from sidecars.delivery.outcomes import DeadLetter, DeadLetterReason
from sidecars.mirroring.kinds import SyncedKind

COMPONENT = "tiphys"
# The API server takes no longer ones.
LONGEST_MESSAGE = 1024


class EventReporter:
    def __init__(self, store: Store, *, now: Callable[[], datetime]) -> None:
        self._store = store
        self._now = now

    async def report(self, letter: DeadLetter, kind: SyncedKind, *, namespace: str, name: str) -> None:
        unsent = letter.reason is DeadLetterReason.UNSENDABLE
        moment = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        await self._store.create(
            EVENTS,
            {
                "metadata": {"generateName": "tiphys-"},
                "involvedObject": {
                    "apiVersion": kind.resource.api_version,
                    "kind": kind.resource.kind,
                    "namespace": namespace,
                    "name": name,
                },
                "type": "Warning",
                "reason": "NotSent" if unsent else "NotApplied",
                "message": f"{'to' if unsent else 'from'} {letter.peer}: {letter.message}"[:LONGEST_MESSAGE],
                "source": {"component": COMPONENT},
                "firstTimestamp": moment,
                "lastTimestamp": moment,
                "count": 1,
            },
            namespace=namespace,
        )
