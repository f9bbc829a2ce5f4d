"""Events of Kubernetes, where `kubectl describe` and people look."""

from dataclasses import dataclass
from datetime import UTC, datetime

from kube.resources import EVENTS
from kube.store import Object, Store
from tiphys.redaction import redacted_text

MESSAGE_LIMIT = 1024
"""The API server's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeEvent:
    """About an object; it stands in that object's namespace."""

    reason: str
    message: str
    kind: str
    namespace: str
    name: str
    api_version: str = ""
    """Empty where it is not known."""
    is_warning: bool = True


async def write_event(store: Store, event: KubeEvent, *, component: str, now: datetime) -> None:
    await store.create(EVENTS, _body(event, component=component, now=now), namespace=event.namespace)


def _body(event: KubeEvent, *, component: str, now: datetime) -> Object:
    moment = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    about = {"kind": event.kind, "namespace": event.namespace, "name": event.name}
    return {
        "metadata": {"generateName": "tiphys-", "namespace": event.namespace},
        "involvedObject": {"apiVersion": event.api_version, **about} if event.api_version else about,
        "reason": event.reason,
        "message": redacted_text(event.message)[:MESSAGE_LIMIT],
        "type": "Warning" if event.is_warning else "Normal",
        "source": {"component": component},
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }
