"""What the webhook's processes are told at their start."""

from dataclasses import dataclass
from pathlib import Path

from kube.live import LiveStore
from webhook.keeper.keeper import KeeperOptions
from webhook.registration.table import Registration
from webhook.server.arbiters import ReviewPort


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookOptions:
    """Everything that the processes are told; it is pickled on its way to them."""

    keeper: KeeperOptions
    review_port: ReviewPort
    registration: Registration
    probes_host: str = "0.0.0.0"  # noqa: S104 - the kubelet's probes come from outside the pod
    probes_port: int = 8080
    pages_host: str = "127.0.0.1"
    pages_port: int = 8081
    kubeconfig: Path | None = None
    context: str | None = None
    log_level: str = "info"
    log_format: str = "auto"

    async def connect(self) -> LiveStore:
        return await LiveStore.connect(kubeconfig=self.kubeconfig, context=self.context)
