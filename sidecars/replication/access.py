"""Who may replicate: whoever shows a certificate of the fleet's authority whose name is on the list, and no agent."""

from collections.abc import Callable

import grpc

from sidecars.wire.auth.caller import Caller
from sidecars.wire.auth.methods import CallCredentials, IdentityError, Method
from sidecars.wire.auth.trust import Trust
from sidecars.wire.refusals import RefusedError, unauthenticated
from sidecars.wire.tls import TLS_13


class ReplicationAccess:
    def __init__(
        self, *, method: Method, trust: Trust, allowed: frozenset[str], is_agent: Callable[[str], bool]
    ) -> None:
        self._method = method
        self._trust = trust
        self._allowed = allowed
        self._is_agent = is_agent

    async def check(self, caller: Caller) -> str:
        """The name of the peer's certificate; raises RefusedError, with argocd-agent's words where it has some."""
        if caller.tls_version not in {TLS_13, ""}:
            raise _failed(f"{caller.tls_version} is not accepted", label="old TLS")
        try:
            self._trust.check(caller.chain)
            evidence = CallCredentials(certificate=caller.chain[0], metadata=caller.metadata)
            identity = await self._method.identify(evidence)
        except IdentityError as error:
            raise _failed(str(error), label=error.refusal) from error
        if identity not in self._allowed:
            raise _denied(f'identity "{identity}" not in allowed replication clients')
        if self._is_agent(identity):
            raise _denied(f'identity "{identity}" is an agent\'s: a principal needs a name of its own')
        return identity


def _failed(reason: str, *, label: str) -> RefusedError:
    return unauthenticated(f"replication auth failed: {reason}", reason=reason, label=label)


def _denied(words: str) -> RefusedError:
    return RefusedError(grpc.StatusCode.PERMISSION_DENIED, words, reason=words, label="no replica")
