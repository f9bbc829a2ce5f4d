"""The tokens that a principal hands to its agents: JWTs, RS512 and nothing else.

PyJWT signs and verifies. What is ours: a header with exactly two entries, exactly one audience, a subject that
is itself JSON, the principal's epoch, times by a clock that is handed in, and a reader of JSON whom Go cannot
contradict. Every refusal reads the same to the caller.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any
from uuid import uuid4

import jwt
import orjson
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.utils import base64url_decode

from argocd.agents.vocabulary import Mode
from sidecars.wire.auth.methods import is_agent_name
from sidecars.wire.errors import MalformedError
from sidecars.wire.json_objects import read_struct
from tiphys.errors import CallError, SurroundingsError

ISSUER = "argocd-agent-server"
ACCESS_SECONDS = 5 * 60
REFRESH_SECONDS = 24 * 60 * 60
# In a cluster Secret; the principal writes a new one when half of it is over.
PROXY_SECONDS = 7 * 24 * 60 * 60
# Clocks of two principals behind one address may differ by so much.
LEEWAY_SECONDS = 60

# Ours have 900 bytes with a key of 4096 bits.
MAX_TOKEN_LENGTH = 8 * 1024
# Shorter keys can be broken; Go agents do not care.
MIN_KEY_BITS = 2048
GENERATED_KEY_BITS = 3072

_ALGORITHM = "RS512"
_HEADER = {"alg": _ALGORITHM, "typ": "JWT"}
_CLAIMS = ("iss", "sub", "aud", "exp", "nbf", "iat", "jti", "epoch", "seal")
# PyJWT knows only the system's clock; the subject is read below, and nobody reads jti.
_OPTIONS = {f"verify_{claim}": False for claim in ("exp", "nbf", "iat", "sub", "jti")}
_ANOTHER_AUDIENCE = "the token has another issuer or audience"


class Audience(StrEnum):
    """One kind of token is never taken for another."""

    ACCESS = "argocd-agent-server-access"
    REFRESH = "argocd-agent-server-refresh"
    RESOURCE_PROXY = "argocd-agent-server-resource-proxy"


class TokenError(CallError):
    """Not a token of ours, or no longer; the reason is for the log."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Whom an access or refresh token names."""

    agent: str
    mode: Mode
    seal: str = ""
    """Of the password that earned it, if there was one: it ends with that."""

    def subject(self) -> str:
        # Go agents parse it back: exactly these keys, in this order.
        return orjson.dumps({"clientID": self.agent, "mode": self.mode.value}).decode()


@dataclass(frozen=True, slots=True)
class Pair:
    access: str
    refresh: str


def load_key(pem: bytes, *, origin: str) -> rsa.RSAPrivateKey:
    """A PKCS#8 RSA key, as stands in the Secret argocd-agent-jwt; `origin` names the Secret or file."""
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise SurroundingsError(f"{origin}: not an unencrypted private key in PEM") from error
    if not isinstance(key, rsa.RSAPrivateKey) or key.key_size < MIN_KEY_BITS:
        raise SurroundingsError(
            f"{origin}: tokens are signed with RSA keys of at least {MIN_KEY_BITS} bits, this is another key"
        )
    return key


def generate_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=GENERATED_KEY_BITS)


class Tokens:
    """Issues and verifies. `epoch` is the principal's term: a token of a lower one is refused."""

    def __init__(self, key: rsa.RSAPrivateKey, *, now: Callable[[], float], epoch: int = 0) -> None:
        self._key = key
        self._public = key.public_key()
        self._now = now
        self.epoch = epoch

    def issue(self, holder: Holder) -> Pair:
        """At a login: what can be had by refreshing ends a refresh token's lifetime from now."""
        now = int(self._now())
        return Pair(
            access=self._of(holder, Audience.ACCESS, ends=now + ACCESS_SECONDS),
            refresh=self._of(holder, Audience.REFRESH, ends=now + REFRESH_SECONDS),
        )

    def refresh(self, token: str) -> tuple[Holder, Pair]:
        """A new access token, which ends with the refresh token at the latest. No new refresh token: a chain of
        them would never end. Whoever has lost both logs in again, as argocd-agent's agents do.
        """
        holder, claims = self._verified(token, Audience.REFRESH)
        ends = min(int(self._now()) + ACCESS_SECONDS, int(claims["exp"]))
        return holder, Pair(self._of(holder, Audience.ACCESS, ends=ends), "")

    def verify(self, token: str, audience: Audience = Audience.ACCESS) -> Holder:
        """Whom the token names; raises TokenError."""
        return self._verified(token, audience)[0]

    def issue_for_proxy(self, agent: str) -> str:
        """With which Argo CD asks the resource proxy for this agent's cluster."""
        ends = int(self._now()) + PROXY_SECONDS
        return self._signed(agent, Audience.RESOURCE_PROXY, ends=ends)

    def verify_for_proxy(self, token: str) -> tuple[str, float]:
        """The agent, and the seconds that are left. argocd-agent's own, which have no end, are refused."""
        claims = self._claims(token, Audience.RESOURCE_PROXY)
        agent = claims.get("sub")
        if not isinstance(agent, str) or not is_agent_name(agent):
            raise TokenError("the token's subject names no agent")
        return agent, float(claims["exp"]) - self._now()

    def _signed(self, subject: str, audience: Audience, *, ends: int, seal: str = "") -> str:
        now = int(self._now())
        claims: dict[str, Any] = {
            "iss": ISSUER,
            "sub": subject,
            "aud": [audience.value],
            "exp": ends,
            "nbf": now,
            "iat": now,
            "jti": str(uuid4()),
        }
        if self.epoch:
            claims["epoch"] = self.epoch
        if seal:
            claims["seal"] = seal
        return _JWT.encode(claims, self._key, algorithm=_ALGORITHM)

    def _of(self, holder: Holder, audience: Audience, *, ends: int) -> str:
        return self._signed(holder.subject(), audience, ends=ends, seal=holder.seal)

    def _verified(self, token: str, audience: Audience) -> tuple[Holder, dict[str, Any]]:
        claims = self._claims(token, audience)
        seal = claims.get("seal", "")
        return replace(_holder(claims.get("sub")), seal=seal if isinstance(seal, str) else ""), claims

    def _claims(self, token: str, audience: Audience) -> dict[str, Any]:
        """The signature first: nothing inside is believed or even reported before it holds."""
        claims = _decoded(
            token,
            key=self._public,
            algorithms=[_ALGORITHM],
            issuer=ISSUER,
            audience=audience.value,
            options=_OPTIONS,
        )
        # PyJWT lets further entries and repeated ones pass.
        header = base64url_decode(token.partition(".")[0])
        if _struct(header, keys=(*_HEADER, "crit")) != _HEADER:
            raise TokenError("the token's header is not ours")
        self._check(claims, audience)
        return claims

    def _check(self, claims: dict[str, Any], audience: Audience) -> None:
        if claims["aud"] != [audience.value]:  # one among others is enough for PyJWT
            raise TokenError(_ANOTHER_AUDIENCE)
        expires, begins, issued = (_time(claims, name) for name in ("exp", "nbf", "iat"))
        now = self._now()
        if now >= expires:
            raise TokenError(f"the token expired {int(now - expires)} s ago")
        if begins > now + LEEWAY_SECONDS or issued > now + LEEWAY_SECONDS:
            raise TokenError(
                f"the token begins {int(max(begins, issued) - now)} s from now: check the clocks"
            )
        epoch = claims.get("epoch", 0)
        if type(epoch) is not int or epoch < self.epoch:
            raise TokenError(f"the token is of epoch {epoch!r}, now is {self.epoch}")


def peek(token: str) -> tuple[Holder, float]:
    """Whom an agent's own token names and when it ends. Not verified: the agent has no key to do so."""
    body = _decoded(token, options={"verify_signature": False})
    return _holder(body.get("sub")), _time(body, "exp")


def issued_at(token: str) -> float:
    """By the clock of the principal that issued it; not verified, as above."""
    return _time(_decoded(token, options={"verify_signature": False}), "iat")


def _time(claims: dict[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TokenError(f"the token lacks {name}")
    return value


def _holder(subject: object) -> Holder:
    if not isinstance(subject, str):
        raise TokenError("the token lacks sub")
    body = _struct(subject.encode(errors="replace"), keys=("clientID", "mode"))
    agent, mode = body.get("clientID"), body.get("mode")
    if set(body) != {"clientID", "mode"} or not isinstance(agent, str) or not is_agent_name(agent):
        raise TokenError("the token's subject names no agent")
    if mode not in list(Mode):
        raise TokenError("the token's subject has no mode")
    return Holder(agent, Mode(mode))


def _struct(text: bytes, *, keys: tuple[str, ...]) -> dict[str, Any]:
    try:
        return read_struct(text, keys=keys)
    except MalformedError as error:
        raise TokenError(f"the token's content: {error}") from error


class _StrictJWT(jwt.PyJWT):
    def _decode_payload(self, decoded: dict[str, Any]) -> dict[str, Any]:
        """PyJWT's place for another reader: its own takes the last of repeated claims."""
        return _struct(decoded["payload"], keys=_CLAIMS)


_JWT = _StrictJWT()


def _decoded(token: str, **how: Any) -> dict[str, Any]:
    """The claims; `how` is for PyJWT, whose errors become ours."""
    # One token, one spelling: PyJWT would take padding too.
    if len(token) > MAX_TOKEN_LENGTH or not token.isascii() or "=" in token:
        raise TokenError("not a token")
    try:
        return _JWT.decode(token, **how)
    except jwt.InvalidSignatureError:
        raise TokenError("the token's signature is not ours") from None
    except jwt.DecodeError:
        raise TokenError("not a token") from None
    except (jwt.InvalidIssuerError, jwt.InvalidAudienceError, jwt.MissingRequiredClaimError):
        raise TokenError(_ANOTHER_AUDIENCE) from None
    except jwt.InvalidTokenError:
        raise TokenError("the token's header is not ours") from None
