"""Events of Kubernetes about what could not be applied or sent."""

from collections.abc import Callable
from datetime import datetime

from kube.events import KubeEvent, write_event
from kube.store import Store
from sidecars.delivery.outcomes import DeadLetter, DeadLetterReason
from sidecars.mirroring.kinds import SyncedKind

COMPONENT = "tiphys"


class EventReporter:
    def __init__(self, store: Store, *, now: Callable[[], datetime]) -> None:
        self._store = store
        self._now = now

    async def report(self, letter: DeadLetter, kind: SyncedKind, *, namespace: str, name: str) -> None:
        unsent = letter.reason is DeadLetterReason.UNSENDABLE
        event = KubeEvent(
            reason="NotSent" if unsent else "NotApplied",
            message=f"{'to' if unsent else 'from'} {letter.peer}: {letter.message}",
            kind=kind.resource.kind,
            namespace=namespace,
            name=name,
            api_version=kind.resource.api_version,
        )
        await write_event(self._store, event, component=COMPONENT, now=self._now())
