"""Who calls the resource proxy, and for which agent's cluster: a token first, else the certificate's common name."""

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
        self._certificates: WeakKeyDictionary[object, x509.Certificate] = WeakKeyDictionary()

    def agent_of(self, request: web.BaseRequest) -> str:
        """Raises RefusedRequestError. A bad token is not made good by a certificate."""
        certificate = self._certificate(request)
        if certificate is not None:
            self._check(certificate)
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            try:
                return self._tokens.verify_for_proxy(token.strip())[0]
            except TokenError as error:
                log.info("a token for the resource proxy is refused", **{logs.REASON: str(error)})
                raise RefusedRequestError(FAILED, status=401) from error
        name = "" if certificate is None else _common_name(certificate)
        if not name:
            raise RefusedRequestError(FAILED, status=401)
        if not is_agent_name(name):
            raise RefusedRequestError("invalid agent name", status=400)
        return name

    def _certificate(self, request: web.BaseRequest) -> x509.Certificate | None:
        transport = request.transport
        tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object") if transport is not None else None
        if tls is None:
            return None
        held = self._certificates.get(tls)
        if held is None:
            shown = tls.getpeercert(binary_form=True)
            if not shown:
                return None
            held = self._certificates[tls] = x509.load_der_x509_certificate(shown)
        return held

    def _check(self, certificate: x509.Certificate) -> None:
        if self.blocklist.blocks(certificate) or self._now() > certificate.not_valid_after_utc:
            log.warning("a blocked or expired certificate at the resource proxy: refused")
            raise RefusedRequestError(FAILED, status=401)


def _common_name(certificate: x509.Certificate) -> str:
    found = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[-1].value) if found else ""
