"""The port at which the control plane's Argo CD asks for live objects, opened once there is a certificate for it."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime

from argocd import names
from certs.key_pair import Material
from certs.sources import CertificateSource
from sidecars.process.serving_gate import ServingGate
from sidecars.proxies.proxy_callers import ProxyCallers
from sidecars.proxies.requests import Requests
from sidecars.proxies.resource_listener import ResourceListener
from sidecars.proxies.resource_proxy import ResourceProxy, SubresourceProxy
from sidecars.wire.auth.blocklist import Blocklist
from sidecars.wire.auth.tokens import Tokens
from tiphys import logs
from tiphys.errors import TiphysError

log = logs.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourcePortOptions:
    source: CertificateSource
    """The server's pair, and the authorities of callers."""
    host: str = ""
    port: int = 9090
    drop_impersonation: bool = False


class ResourcePort:
    """`run` until cancelled. `port` is known once `listening` is set."""

    def __init__(
        self,
        options: ResourcePortOptions,
        *,
        requests: Requests,
        tokens: Tokens,
        gate: ServingGate,
        subresources: Mapping[str, SubresourceProxy],
    ) -> None:
        self._options = options
        self.callers = ProxyCallers(tokens, now=_now)
        proxy = ResourceProxy(
            requests,
            callers=self.callers,
            standing_by=lambda: gate.refusal("resource-proxy"),
            drop_impersonation=options.drop_impersonation,
            subresources=subresources,
        )
        self.came = proxy.came
        self._listener = ResourceListener(proxy.serve, host=options.host, port=options.port)
        self.listening = asyncio.Event()
        self._held: Material | None = None
        self._complaint = ""

    @property
    def port(self) -> int:
        return self._listener.port

    @property
    def authorities(self) -> bytes:
        """Of the certificate that it shows: the fleet's own."""
        return b"" if self._held is None else self._held.roots

    def swap_blocklist(self, blocklist: Blocklist) -> None:
        """Every request asks it; what a blocked caller has open, a log or a terminal, ends."""
        self.callers.blocklist = blocklist
        self._listener.abort(self.callers.is_blocked)

    async def run(self) -> None:
        async with AsyncExitStack() as stack:

            async def take(material: Material) -> None:
                if material == self._held:
                    return
                if self._held is None:
                    port = await stack.enter_async_context(self._listener.listening(material))
                    self.listening.set()
                    log.info("listening for requests for live objects", **{logs.COUNT: port})
                else:
                    self._listener.swap(material)
                self._held, self._complaint = material, ""

            await self._options.source.follow(take, refuse=self._refuse)

    def _refuse(self, error: TiphysError) -> None:
        """Said once: whoever has no use for live objects has no certificate for them."""
        if str(error) == self._complaint:
            return
        self._complaint = str(error)
        if self._held is not None:
            log.warning(
                "the resource proxy's new certificate cannot be used: the old one stays",
                **{logs.SECRET_NAME: names.RESOURCE_PROXY_TLS_SECRET, logs.ERROR: str(error)},
            )
        else:
            log.warning(
                "no certificate for the resource proxy: live objects are not served;"
                " `tiphys pki issue resource-proxy` makes one, --enable-resource-proxy=false ends this",
                **{logs.SECRET_NAME: names.RESOURCE_PROXY_TLS_SECRET, logs.ERROR: str(error)},
            )


def _now() -> datetime:
    return datetime.now(UTC)
