"""Who calls the resource proxy, and for which agent's cluster: a token first, else the certificate's common name."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from aiohttp import web
from cryptography import x509
from cryptography.x509.oid import NameOID

from sidecars.proxies.refusals import RefusedRequestError
from sidecars.wire.auth.blocklist import Blocklist
from sidecars.wire.auth.methods import is_agent_name
from sidecars.wire.auth.tokens import TokenError, Tokens
from tiphys import logs

if TYPE_CHECKING:
    import ssl

FAILED = "authentication failed"

log = logs.get_logger()


class ProxyCallers:
    """The handshake has verified the certificate, if there is one; every request asks whether it still counts."""

    def __init__(self, tokens: Tokens, *, now: Callable[[], datetime]) -> None:
        self._tokens = tokens
        self._now = now
        self.blocklist = Blocklist()
        self.token_counts: Callable[[str, str], bool] = lambda _agent, _token: False
        """Whether a token of an agent is one that Argo CD was given and that nobody has taken away since."""
        self._shown: WeakKeyDictionary[object, _ShownCertificate] = WeakKeyDictionary()

    def agent_of(self, request: web.BaseRequest) -> str:
        """Raises RefusedRequestError. A bad token is not made good by a certificate."""
        shown = None if request.transport is None else self._shown_by(request.transport)
        if shown is not None:
            self._check(shown)
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self._holder(token.strip())
        if shown is None or not shown.name:
            raise RefusedRequestError(FAILED, status=401)
        if not shown.names_agent:
            raise RefusedRequestError("invalid agent name", status=400)
        return shown.name

    def _holder(self, token: str) -> str:
        try:
            agent, _ = self._tokens.verify_for_proxy(token)
        except TokenError as error:
            log.info("a token for the resource proxy is refused", **{logs.REASON: str(error)})
            raise RefusedRequestError(FAILED, status=401) from error
        if not self.token_counts(agent, token):
            log.info("a token that is in no cluster Secret is refused", **{logs.AGENT: agent})
            raise RefusedRequestError(FAILED, status=401)
        return agent

    def is_blocked(self, transport: asyncio.BaseTransport) -> bool:
        """Whoever is at the other end of an open connection."""
        shown = self._shown_by(transport)
        return shown is not None and self.blocklist.blocks(shown.certificate)

    def _shown_by(self, transport: asyncio.BaseTransport) -> "_ShownCertificate | None":
        tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        if tls is None:
            return None
        held = self._shown.get(tls)
        if held is None:
            shown = tls.getpeercert(binary_form=True)
            if not shown:
                return None
            held = self._shown[tls] = _ShownCertificate(x509.load_der_x509_certificate(shown))
        return held

    def _check(self, shown: "_ShownCertificate") -> None:
        if self.blocklist.blocks(shown.certificate) or self._now() > shown.not_after:
            log.warning("a blocked or expired certificate at the resource proxy: refused")
            raise RefusedRequestError(FAILED, status=401)


class _ShownCertificate:
    """What every request of a connection asks of its certificate, read once."""

    __slots__ = ("certificate", "name", "names_agent", "not_after")

    def __init__(self, certificate: x509.Certificate) -> None:
        self.certificate = certificate
        self.name = _common_name(certificate)
        self.names_agent = is_agent_name(self.name)
        self.not_after = certificate.not_valid_after_utc


def _common_name(certificate: x509.Certificate) -> str:
    found = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[-1].value) if found else ""
