"""`--ha-admin-auth mtls:subject:<pattern> | mtls:uri:<pattern>`: whose certificate may change roles."""

from typing import Any

import grpc
import re2
from cryptography import x509

from sidecars.wire.auth.caller import Caller
from sidecars.wire.auth.go_subject import go_subject
from sidecars.wire.auth.methods import MAX_PATTERN_LENGTH, IdentityError
from sidecars.wire.auth.trust import Trust
from sidecars.wire.refusals import RefusedError, unauthenticated
from tiphys.errors import CallError

_FLAG = "--ha-admin-auth"


class AdminAccess:
    """The pattern is searched for, as in argocd-agent: anchor it where a part must not be enough."""

    def __init__(self, text: str, *, trust: Trust) -> None:
        method, _, rest = text.partition(":")
        part, _, pattern = rest.partition(":")
        if method != "mtls" or part not in {"subject", "uri"} or not pattern:
            raise CallError(f"{_FLAG} {text}: write mtls:subject:<pattern> or mtls:uri:<pattern>")
        if len(pattern) > MAX_PATTERN_LENGTH:
            raise CallError(f"{_FLAG}: the pattern is longer than {MAX_PATTERN_LENGTH} characters")
        options = re2.Options()
        options.log_errors = False
        try:
            self._pattern: Any = re2.compile(pattern, options)
        except re2.error as error:
            raise CallError(f"{_FLAG} {text}: {error.args[0]!r}") from error
        self._by_subject = part == "subject"
        self._trust = trust

    async def check(self, caller: Caller) -> str:
        """Who it is; raises RefusedError."""
        try:
            self._trust.check(caller.chain)
        except IdentityError as error:
            raise unauthenticated("authentication failed", reason=str(error), label=error.refusal) from error
        for name in self._names(caller.chain[0]):
            if self._pattern.search(name):
                return name
        raise RefusedError(
            grpc.StatusCode.PERMISSION_DENIED,
            f"this certificate is not one that {_FLAG} lets change roles",
            reason="the certificate does not match",
            label="no operator",
        )

    def _names(self, certificate: x509.Certificate) -> list[str]:
        if self._by_subject:
            return [go_subject(certificate.subject).text]
        try:
            found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return []
        return found.get_values_for_type(x509.UniformResourceIdentifier)
