"""What the webhook's processes are told at their start."""

from dataclasses import dataclass
from pathlib import Path

from kube.live import LiveStore
from webhook.keeper.keeper import KeeperOptions
from webhook.registration.table import Registration


@dataclass(frozen=True, slots=True)
class ReviewPort:
    host: str = "0.0.0.0"  # noqa: S104 - the API server comes from another machine
    port: int = 8443
    workers: int = 1
    connections: int = 1024
    """Of one worker. Each may hold 80 KiB for good once it has carried a large review, so that all of them fit into
    the pod of our manifests; an API server keeps a few dozen open."""
    drain_seconds: float = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookOptions:
    """Everything that the processes are told; it is pickled on its way to them."""

    keeper: KeeperOptions
    review_port: ReviewPort
    registration: Registration
    pages_host: str = "0.0.0.0"  # noqa: S104 - the kubelet's probes come from outside the pod
    pages_port: int = 8080
    kubeconfig: Path | None = None
    context: str | None = None
    log_level: str = "info"
    log_format: str = "auto"

    async def connect(self) -> LiveStore:
        return await LiveStore.connect(kubeconfig=self.kubeconfig, context=self.context)
