"""Tokens: what Go agents read, and every way in which somebody might make one up."""

import hashlib
import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

from argocd.agents.vocabulary import Mode
from sidecars.wire.auth import tokens as module
from sidecars.wire.auth.tokens import Audience, Holder, TokenError, Tokens, load_key, peek
from tiphys.errors import SurroundingsError

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
AGENT = Holder("agent-1", Mode.MANAGED)
START = 1_800_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tokens(clock: Clock) -> Tokens:
    return Tokens(KEY, now=clock)


def part(content: object) -> str:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def read(token: str, place: int) -> dict[str, Any]:
    text = token.split(".")[place]
    found: dict[str, Any] = json.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    return found


def claims(**changes: Any) -> dict[str, Any]:
    full = {
        "iss": "argocd-agent-server",
        "sub": AGENT.subject(),
        "aud": ["argocd-agent-server-access"],
        "exp": int(START) + 300,
        "nbf": int(START),
        "iat": int(START),
        "jti": "x",
        **changes,
    }
    return {name: value for name, value in full.items() if value is not None}


def forged(body: object, header: object = None, *, key: rsa.RSAPrivateKey = KEY, digest: Any = None) -> str:
    """A token with any content, signed properly."""
    signed = f"{part(header or {'alg': 'RS512', 'typ': 'JWT'})}.{part(body)}"
    return f"{signed}.{part(key.sign(signed.encode(), padding.PKCS1v15(), digest or hashes.SHA512()))}"


def test_tokens_have_exactly_the_claims_that_go_agents_read(tokens: Tokens) -> None:
    pair = tokens.issue(AGENT)
    assert read(pair.access, 0) == {"alg": "RS512", "typ": "JWT"}
    body = read(pair.access, 1)
    assert list(body) == ["iss", "sub", "aud", "exp", "nbf", "iat", "jti"]
    assert body["sub"] == '{"clientID":"agent-1","mode":"managed"}'
    assert body["aud"] == ["argocd-agent-server-access"]
    assert (body["exp"] - body["iat"], body["nbf"]) == (300, body["iat"])
    later = read(pair.refresh, 1)
    assert later["aud"] == ["argocd-agent-server-refresh"]
    assert later["exp"] - later["iat"] == 86400
    assert later["jti"] != body["jti"]


def test_a_token_is_written_without_a_space_and_its_header_as_go_writes_it(tokens: Tokens) -> None:
    access = tokens.issue(AGENT).access
    body = json.dumps(read(access, 1), separators=(",", ":")).encode()
    assert access == forged(body, b'{"alg":"RS512","typ":"JWT"}')


def test_a_token_names_its_holder(tokens: Tokens) -> None:
    assert tokens.verify(tokens.issue(AGENT).access) == AGENT
    assert tokens.verify(forged(claims())) == AGENT


def test_one_kind_of_token_is_never_taken_for_another(tokens: Tokens) -> None:
    pair = tokens.issue(AGENT)
    with pytest.raises(TokenError, match="audience"):
        tokens.verify(pair.refresh)
    with pytest.raises(TokenError, match="audience"):
        tokens.refresh(pair.access)
    with pytest.raises(TokenError, match="audience"):
        tokens.verify(pair.access, Audience.RESOURCE_PROXY)


def hmac_with_our_public_key() -> str:
    """The oldest confusion: the public key as the secret of a symmetric algorithm."""
    pem = KEY.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    signed = f"{part({'alg': 'HS512', 'typ': 'JWT'})}.{part(claims())}"
    return f"{signed}.{part(hmac.new(pem, signed.encode(), hashlib.sha512).digest())}"


def altered(place: int) -> str:
    parts = forged(claims()).split(".")
    parts[place] = part({**json.loads(urlsafe_b64decode(parts[place] + "==")), "x": 1})
    return ".".join(parts)


def with_spare_bits() -> str:
    """The last character of 256 bytes in base64 has four bits that no byte needs."""
    token = forged(claims())
    return token[:-1] + chr(ord(token[-1]) + 1)


FORGERIES = {
    "of another key": forged(claims(), key=OTHER_KEY),
    "without a signature": f"{part({'alg': 'none'})}.{part(claims())}.",
    "with a header of no algorithm": forged(claims(), {"alg": "none", "typ": "JWT"}),
    "with the public key as a secret": hmac_with_our_public_key(),
    "by RS256": forged(claims(), {"alg": "RS256", "typ": "JWT"}, digest=hashes.SHA256()),
    "said to be RS256": forged(claims(), {"alg": "RS256", "typ": "JWT"}),
    "with critical extensions": forged(claims(), {"alg": "RS512", "typ": "JWT", "crit": ["b64"]}),
    "with a key of its own": forged(claims(), {"alg": "RS512", "typ": "JWT", "jwk": {"kty": "RSA"}}),
    "with a link to a key": forged(claims(), {"alg": "RS512", "typ": "JWT", "jku": "https://x"}),
    "with a key id": forged(claims(), {"alg": "RS512", "typ": "JWT", "kid": "../../dev/null"}),
    "with two algorithms": forged(claims(), b'{"alg":"none","alg":"RS512","typ":"JWT"}'),
    "with ALG beside alg": forged(claims(), b'{"ALG":"none","alg":"RS512","typ":"JWT"}'),
    "with an altered header": altered(0),
    "with altered claims": altered(1),
    "of another issuer": forged(claims(iss="x")),
    "for two audiences": forged(claims(aud=["argocd-agent-server-access", "x"])),
    "with the audience as text": forged(claims(aud="argocd-agent-server-access")),
    "without audience": forged(claims(aud=None)),
    "without an end": forged(claims(exp=None)),
    "without a beginning": forged(claims(nbf=None)),
    "without a date": forged(claims(iat=None)),
    "ending in words": forged(claims(exp="tomorrow")),
    "ending in a boolean": forged(claims(exp=True)),
    "without a subject": forged(claims(sub=None)),
    "with a bare name as subject": forged(claims(sub="agent-1")),
    "with two names": forged(claims(sub='{"clientID":"agent-1","clientID":"agent-2","mode":"managed"}')),
    "with another spelling": forged(
        claims(sub='{"clientID":"agent-1","clientid":"agent-2","mode":"managed"}')
    ),
    "with more in the subject": forged(claims(sub='{"clientID":"agent-1","mode":"managed","x":1}')),
    "of no agent": forged(claims(sub='{"clientID":"../x","mode":"managed"}')),
    "of a number": forged(claims(sub='{"clientID":7,"mode":"managed"}')),
    "in no mode": forged(claims(sub='{"clientID":"agent-1","mode":"admin"}')),
    "that is no object": forged(["x"]),
    "with repeated claims": forged(b'{"exp":1,"exp":9999999999}'),
    "with padding": forged(claims()) + "=",
    "with all its padding": forged(claims()) + "==",
    "with spare bits": with_spare_bits(),
    "in half a character": "\ud800.x.x",
    "with a line break": forged(claims()) + "\n",
    "with a fourth part": forged(claims()) + ".x",
    "with a bearer": "Bearer " + forged(claims()),
    "that is empty": "",
    "of dots": "..",
    "beyond all size": forged(claims(jti="x" * 9000)),
    "not in ASCII": "é.é.é",
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_token_is_refused(name: str, tokens: Tokens) -> None:
    with pytest.raises(TokenError):
        tokens.verify(FORGERIES[name])


def test_a_token_ends_on_time_and_not_before(tokens: Tokens, clock: Clock) -> None:
    access = tokens.issue(AGENT).access
    clock.now = START + 299.9
    assert tokens.verify(access) == AGENT
    clock.now = START + 300
    with pytest.raises(TokenError, match="expired 0 s ago"):
        tokens.verify(access)


def test_clocks_may_differ_by_a_minute_and_no_more(tokens: Tokens, clock: Clock) -> None:
    access = tokens.issue(AGENT).access
    clock.now = START - 60
    assert tokens.verify(access) == AGENT
    clock.now = START - 61
    with pytest.raises(TokenError, match="check the clocks"):
        tokens.verify(access)


def test_what_can_be_had_by_refreshing_ends_a_day_after_the_login(tokens: Tokens, clock: Clock) -> None:
    first = tokens.issue(AGENT)
    clock.now = START + 86400 - 1
    holder, pair = tokens.refresh(first.refresh)
    assert (holder, pair.refresh) == (AGENT, "")
    assert tokens.verify(pair.access) == AGENT
    clock.now = START + 86400
    with pytest.raises(TokenError, match="expired"):
        tokens.verify(pair.access)
    with pytest.raises(TokenError, match="expired"):
        tokens.refresh(first.refresh)


def test_a_token_of_an_earlier_epoch_is_refused(clock: Clock) -> None:
    old, new = Tokens(KEY, now=clock, epoch=3), Tokens(KEY, now=clock, epoch=4)
    assert read(old.issue(AGENT).access, 1)["epoch"] == 3
    with pytest.raises(TokenError, match="epoch 3, now is 4"):
        new.verify(old.issue(AGENT).access)
    with pytest.raises(TokenError, match="epoch 0, now is 4"):
        new.verify(forged(claims()))
    assert old.verify(new.issue(AGENT).access) == AGENT


def test_an_agent_reads_its_own_tokens_without_a_key(tokens: Tokens) -> None:
    assert peek(tokens.issue(AGENT).access) == (AGENT, START + 300)
    for name in ("without an end", "with a bare name as subject", "that is empty"):
        with pytest.raises(TokenError):
            peek(FORGERIES[name])


def pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def test_a_key_comes_from_pem() -> None:
    assert load_key(pem(KEY), origin="Secret argocd-agent-jwt").private_numbers() == KEY.private_numbers()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        pem(ec.generate_private_key(ec.SECP256R1())),
        pem(rsa.generate_private_key(public_exponent=65537, key_size=1024)),
    ],
)
def test_another_key_is_refused_and_named_by_its_origin(text: bytes) -> None:
    with pytest.raises(SurroundingsError, match="Secret argocd-agent-jwt"):
        load_key(text, origin="Secret argocd-agent-jwt")


def test_a_generated_key_is_long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.generate_key().key_size >= 3072
