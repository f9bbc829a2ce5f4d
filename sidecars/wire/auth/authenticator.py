"""Logins, refreshes and the check of every call, free of the server that asks for them.

Callers always read the same few words. The reason goes to the log, once a minute for each caller and reason:
an agent that is refused comes back ten times a second.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import grpc
from cryptography import x509
from cryptography.x509.oid import NameOID

from argocd.agents.vocabulary import Mode
from certs.key_pair import fingerprint
from sidecars.wire.auth.caller import Caller
from sidecars.wire.auth.methods import CallCredentials, IdentityError, Method, Refusal
from sidecars.wire.auth.passwords import PasswordMethod, TooManyLoginsError
from sidecars.wire.auth.tokens import Holder, Pair, TokenError, Tokens
from sidecars.wire.auth.trust import Trust
from sidecars.wire.refusals import RefusalLog, RefusedError, unauthenticated
from sidecars.wire.tls import TLS_13
from tiphys import __version__, logs, metrics

REFUSALS = metrics.counter(
    "tiphys_wire_refusals_total", "Calls of agents refused, by reason.", labels=("reason",)
)
OTHER_VERSIONS = metrics.counter(
    "tiphys_wire_other_versions_total", "Logins of agents of a version that was not tried with this one."
)

FAILED = "authentication failed"
INVALID = "invalid authentication data"

# Upstream's releases and development builds that the tests' recordings and proxies cover, and our own.
_TRIED = re.compile(r"0\.9\.\d+|99\.9\.9-unreleased")
MAX_VERSION_LENGTH = 128

log = logs.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginRequest:
    method: str
    mode: str
    version: str
    agent_namespace: str
    credentials: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """An agent that has shown who it is and asks to be let in."""

    agent: str
    mode: Mode
    version: str
    agent_namespace: str
    address: str
    fingerprint: str


class Gate(Protocol):
    """What the principal decides; each answer is a reason for the log, or None to let it pass."""

    async def admit(self, admission: Admission) -> str | None:
        """At login, where an agent may register itself; raises RefusedError where it may read why not."""
        ...

    def knows(self, agent: str, mode: Mode) -> str | None:
        """At every later call: whether the agent is still one of ours, and what its token says."""
        ...

    def refusal(self, call: str) -> str | None:
        """Before anything else is looked at: what agents read while none is served, as on a standby."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """`trust` is None for a plaintext listener and where no client certificates are asked for."""

    method: Method
    tokens: Tokens
    trust: Trust | None
    namespace: str
    version: str
    gate: Gate
    match_common_name: bool = False
    require_tls_13: bool = True


class Authenticator:
    def __init__(self, rules: Rules, *, monotonic: Callable[[], float]) -> None:
        self._rules = rules
        self._refusals = RefusalLog(monotonic)

    async def login(self, caller: Caller, request: LoginRequest) -> Pair:
        rules = self._rules
        if request.mode not in list(Mode):
            raise RefusedError(
                grpc.StatusCode.UNKNOWN,
                f"unknown agent mode: {request.mode[:32]!r}",
                reason="unknown mode",
                label="unknown mode",
            )
        if request.method != rules.method.name:
            raise unauthenticated(
                FAILED, reason=f"method {request.method[:32]!r} is not configured", label="unknown method"
            )
        agent = await self._identified(caller, request.credentials)
        if not request.version:
            raise RefusedError(
                grpc.StatusCode.INVALID_ARGUMENT,
                "agent version is required",
                reason="login without a version",
                label="no version",
            )
        admission = Admission(
            agent=agent,
            mode=Mode(request.mode),
            version=request.version[:MAX_VERSION_LENGTH],
            agent_namespace=request.agent_namespace[:MAX_VERSION_LENGTH],
            address=caller.address,
            fingerprint=fingerprint(caller.chain[0]) if caller.chain else "",
        )
        self._note_version(admission)
        objection = await rules.gate.admit(admission)
        if objection is not None:
            raise unauthenticated(FAILED, reason=objection, label="not admitted")
        seal = rules.method.seal(agent) if isinstance(rules.method, PasswordMethod) else ""
        return rules.tokens.issue(Holder(agent, admission.mode, seal))

    async def refresh(self, caller: Caller, token: str) -> Pair:
        """Everything is asked again: a refresh must not outlive what the login rested on."""
        try:
            holder, pair = self._rules.tokens.refresh(token)
        except TokenError as error:
            raise unauthenticated(INVALID, reason=str(error), label="bad token") from error
        await self._check_holder(caller, holder)
        return pair

    async def check(self, caller: Caller) -> Holder:
        """Whom a call's access token names, if it may be used here and now."""
        values = caller.metadata.get("authorization", ())
        if len(values) != 1:
            raise unauthenticated(
                INVALID, reason=f"{len(values)} authorization headers instead of one", label="no token"
            )
        try:
            holder = self._rules.tokens.verify(values[0])
        except TokenError as error:
            raise unauthenticated(INVALID, reason=str(error), label="bad token") from error
        await self._check_holder(caller, holder)
        return holder

    def complaint(self, chain: Sequence[x509.Certificate], holder: Holder) -> str | None:
        """What speaks against an open stream now."""
        method = self._rules.method
        if isinstance(method, PasswordMethod) and method.seal(holder.agent) != holder.seal:
            return f"{holder.agent} has not this password any more"
        if self._rules.trust is not None:
            try:
                self._rules.trust.check(chain)
            except IdentityError as error:
                return str(error)
        return self._rules.gate.knows(holder.agent, holder.mode)

    def note(self, caller: Caller, error: RefusedError, *, call: str) -> None:
        """Into the log and the metrics."""
        REFUSALS.labels(error.label).inc()
        # By the label: a reason may hold a number that changes with each call.
        if (missed := self._refusals.turn((caller.address.rpartition(":")[0], error.label))) is not None:
            context = {logs.PEER: caller.address, logs.CODE: error.code.name, logs.REASON: error.reason}
            log.warning("call refused", **context, **{logs.OPERATION: call, "again": missed})

    async def _check_holder(self, caller: Caller, holder: Holder) -> None:
        """A token is good only in the hands of the agent that it names."""
        rules = self._rules
        if isinstance(rules.method, PasswordMethod):
            self._check_connection(caller, words=INVALID)
            if rules.method.seal(holder.agent) != holder.seal:
                raise unauthenticated(
                    INVALID,
                    reason=f"{holder.agent} has not the password any more that earned this token",
                    label=Refusal.BAD_PASSWORD,
                )
        else:
            agent = await self._identified(caller, {}, words=INVALID)
            if agent != holder.agent:
                raise unauthenticated(
                    INVALID,
                    reason=f"a token of {holder.agent} in the hands of {agent}",
                    label="foreign token",
                )
        if holder.agent == rules.namespace:
            raise unauthenticated(
                INVALID, reason="the agent is named like the principal's namespace", label="reserved name"
            )
        if rules.match_common_name and rules.trust is not None:
            names = caller.chain[0].subject.get_attributes_for_oid(NameOID.COMMON_NAME)
            if [name.value for name in names] != [holder.agent]:
                raise unauthenticated(
                    INVALID, reason=f"the certificate is not that of {holder.agent}", label="foreign token"
                )
        objection = rules.gate.knows(holder.agent, holder.mode)
        if objection is not None:
            raise unauthenticated(INVALID, reason=objection, label="not admitted")

    def _check_connection(self, caller: Caller, *, words: str) -> None:
        rules = self._rules
        if rules.require_tls_13 and caller.tls_version not in {TLS_13, ""}:
            raise unauthenticated(words, reason=f"{caller.tls_version} is not accepted", label="old TLS")
        if rules.trust is not None:
            try:
                rules.trust.check(caller.chain)
            except IdentityError as error:
                raise unauthenticated(words, reason=str(error), label=error.refusal) from error

    async def _identified(
        self, caller: Caller, credentials: Mapping[str, str], *, words: str = FAILED
    ) -> str:
        self._check_connection(caller, words=words)
        evidence = CallCredentials(
            certificate=caller.chain[0] if caller.chain else None,
            metadata=caller.metadata,
            credentials=credentials,
        )
        try:
            agent = await self._rules.method.identify(evidence)
        except IdentityError as error:
            raise unauthenticated(words, reason=str(error), label=error.refusal) from error
        except TooManyLoginsError as error:
            raise RefusedError(
                grpc.StatusCode.UNAVAILABLE, str(error), reason=str(error), label="busy"
            ) from error
        if agent == self._rules.namespace:
            raise unauthenticated(
                words, reason="the agent is named like the principal's namespace", label="reserved name"
            )
        return agent

    def _note_version(self, admission: Admission) -> None:
        # Our own agents tell our version, the Go ones argocd-agent's.
        if admission.version in {self._rules.version, __version__} or _TRIED.fullmatch(admission.version):
            return
        OTHER_VERSIONS.inc()
        if self._refusals.turn((admission.agent, admission.version)) is not None:
            log.warning(
                "an agent of another version joins; what it does not know it ignores",
                **{logs.AGENT: admission.agent, "version": admission.version},
            )
