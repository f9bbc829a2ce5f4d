"""The tokens that a principal hands to its agents: JWTs, RS512 and nothing else.

Written on `cryptography` because what must hold is shorter than the general library's options: one
algorithm that the verifier chooses, a header with exactly two entries, an audience for each kind of token,
and a subject that is itself JSON. Every refusal reads the same to the caller.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import uuid4

import orjson
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from argocd.agents.vocabulary import Mode
from sidecars.wire.auth.methods import is_agent_name
from sidecars.wire.errors import MalformedError
from sidecars.wire.json_objects import read_struct
from tiphys.errors import CallError, SurroundingsError

ISSUER = "argocd-agent-server"
ACCESS_SECONDS = 5 * 60
REFRESH_SECONDS = 24 * 60 * 60
# A refresh token with less than this left is replaced together with the access token.
REFRESH_RENEWAL_SECONDS = 10 * 60
# Clocks of two principals behind one address may differ by so much.
LEEWAY_SECONDS = 60

# Ours have 900 bytes with a key of 4096 bits.
MAX_TOKEN_LENGTH = 8 * 1024
# Shorter keys can be broken; Go agents do not care.
MIN_KEY_BITS = 2048
GENERATED_KEY_BITS = 3072

_HEADER = {"alg": "RS512", "typ": "JWT"}


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
        return Pair(
            access=self._signed(holder.subject(), Audience.ACCESS, ACCESS_SECONDS),
            refresh=self._signed(holder.subject(), Audience.REFRESH, REFRESH_SECONDS),
        )

    def refresh(self, token: str) -> tuple[Holder, Pair]:
        """A new access token, and a new refresh token (else "") when the old one is about to end."""
        holder, claims = self._verified(token, Audience.REFRESH)
        if claims["exp"] - self._now() < REFRESH_RENEWAL_SECONDS:
            return holder, self.issue(holder)
        return holder, Pair(self._signed(holder.subject(), Audience.ACCESS, ACCESS_SECONDS), "")

    def verify(self, token: str, audience: Audience = Audience.ACCESS) -> Holder:
        """Whom the token names; raises TokenError."""
        return self._verified(token, audience)[0]

    def _signed(self, subject: str, audience: Audience, lifetime: int) -> str:
        now = int(self._now())
        claims: dict[str, Any] = {
            "iss": ISSUER,
            "sub": subject,
            "aud": [audience.value],
            "exp": now + lifetime,
            "nbf": now,
            "iat": now,
            "jti": str(uuid4()),
        }
        if self.epoch:
            claims["epoch"] = self.epoch
        signed = f"{_encoded(orjson.dumps(_HEADER))}.{_encoded(orjson.dumps(claims))}"
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA512())
        return f"{signed}.{_encoded(signature)}"

    def _verified(self, token: str, audience: Audience) -> tuple[Holder, dict[str, Any]]:
        header, claims, signature = _parts(token)
        # The signature first: nothing inside is believed or even reported before it holds.
        signed = token.rpartition(".")[0].encode()
        try:
            self._public.verify(signature, signed, padding.PKCS1v15(), hashes.SHA512())
        except InvalidSignature:
            raise TokenError("the token's signature is not ours") from None
        if _struct(header, keys=("alg", "typ", "crit")) != _HEADER:
            raise TokenError("the token's header is not ours")
        body = _struct(claims, keys=("iss", "sub", "aud", "exp", "nbf", "iat", "jti", "epoch"))
        self._check(body, audience)
        return _holder(body.get("sub")), body

    def _check(self, claims: dict[str, Any], audience: Audience) -> None:
        if claims.get("iss") != ISSUER or claims.get("aud") != [audience.value]:
            raise TokenError("the token has another issuer or audience")
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
    body = _struct(_parts(token)[1], keys=("sub", "exp"))
    return _holder(body.get("sub")), _time(body, "exp")


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


def _parts(token: str) -> tuple[bytes, bytes, bytes]:
    parts = token.split(".")
    if len(token) > MAX_TOKEN_LENGTH or len(parts) != 3:  # noqa: PLR2004 - header, claims, signature
        raise TokenError("not a token")
    try:
        header, claims, signature = map(_decoded, parts)
    except (ValueError, Base64Error):
        raise TokenError("not a token") from None
    return header, claims, signature


def _encoded(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    content = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    # The decoder skips what it does not know and ignores spare bits: one token, one spelling.
    if _encoded(content) != text:
        raise ValueError("not base64url")
    return content
