"""Who an agent is: by Go's rules where administrators rely on them, refused where libraries disagree."""

from typing import Any

import pytest

from sidecars.wire.auth.go_subject import go_subject
from sidecars.wire.auth.methods import (
    CallCredentials,
    HeaderMethod,
    IdentityError,
    Method,
    NamePattern,
    Refusal,
    certificate_method,
    header_method,
    is_agent_name,
)
from tests.sidecars.wire.pki import issue, name
from tiphys.errors import CallError

RECOMMENDED = "CN=([^,]+)"

# The texts were written by Go 1.26's crypto/x509 for certificates with these subjects.
SUBJECTS: list[tuple[Any, str]] = [
    ([("CN", "agent-1"), ("O", "Acme")], "CN=agent-1,O=Acme"),
    ([("O", "Acme"), ("CN", "agent-1")], "CN=agent-1,O=Acme"),
    (
        [
            ("C", "DE"),
            ("ST", "Bavaria"),
            ("L", "Munich"),
            ("STREET", "Main 1"),
            ("POSTALCODE", "80331"),
            ("O", "Acme"),
            ("OU", "Ops"),
            ("CN", "agent-1"),
            ("SERIALNUMBER", "77"),
        ],
        "SERIALNUMBER=77,CN=agent-1,OU=Ops,O=Acme,POSTALCODE=80331,STREET=Main 1,L=Munich,ST=Bavaria,C=DE",
    ),
    ([("OU", "a"), ("OU", "b"), ("CN", "agent-1")], "CN=agent-1,OU=a+OU=b"),
    ([[("OU", "b"), ("CN", "agent-1")], ("OU", "a")], "CN=agent-1,OU=b+OU=a"),
    ([("CN", "agent-1"), ("O", "x,CN=agent-2")], "CN=agent-1,O=x\\,CN=agent-2"),
    ([("O", "x+CN=agent-2"), ("CN", "agent-1")], "CN=agent-1,O=x\\+CN=agent-2"),
    ([("SERIALNUMBER", "CN=agent-2"), ("CN", "agent-1")], "SERIALNUMBER=CN=agent-2,CN=agent-1"),
    ([("CN", "agent-2"), ("CN", "agent-1")], "CN=agent-1"),
    ([("CN", " agent-1 ")], "CN=\\ agent-1\\ "),
    ([("CN", "#agent-1")], "CN=\\#agent-1"),
    ([("CN", 'a"b\\c<d>e;f=g')], 'CN=a\\"b\\\\c\\<d\\>e\\;f=g'),
    ([("CN", "ä中😀")], "CN=ä中😀"),
    (
        [("CN", "agent-1"), ("EMAIL", "a@example.com"), ("TITLE", "CN=agent-2")],
        "CN=agent-1,2.5.4.12=#130a434e3d6167656e742d32,1.2.840.113549.1.9.1=#0c0d61406578616d706c652e636f6d",
    ),
    (
        [("OWN", "1"), ("EMAIL", "x"), ("CN", "agent-1")],
        "CN=agent-1,1.2.840.113549.1.9.1=#130178,1.2.3.4=#130131",
    ),
    ([("SERIALNUMBER", "1"), ("SERIALNUMBER", "2"), ("CN", "agent-1")], "SERIALNUMBER=2,CN=agent-1"),
    ([("O", "Acme")], "O=Acme"),
]


@pytest.mark.parametrize(("parts", "text"), SUBJECTS, ids=[text[:40] for _, text in SUBJECTS])
def test_a_subject_is_written_as_go_writes_it(parts: Any, text: str) -> None:
    assert go_subject(issue(name(*parts)).certificate.subject).text == text


def test_long_values_of_unknown_attributes_have_long_lengths() -> None:
    subject = go_subject(name(("CN", "agent-1"), ("OWN", "y" * 130)))
    assert subject.text == "CN=agent-1,1.2.3.4=#138182" + "79" * 130


async def identified(method: Method, **evidence: Any) -> str:
    return await method.identify(CallCredentials(**evidence))


async def refused(method: Method, **evidence: Any) -> Refusal:
    with pytest.raises(IdentityError) as caught:
        await method.identify(CallCredentials(**evidence))
    return caught.value.refusal


@pytest.mark.parametrize(
    ("parts", "agent"),
    [
        ([("CN", "agent-1"), ("O", "Acme")], "agent-1"),
        ([("O", "Acme"), ("CN", "agent-1")], "agent-1"),
        # As RFC 4514 writes it, agent-2 would come first.
        ([("CN", "agent-1"), ("O", "x,CN=agent-2")], "agent-1"),
        ([("OU", "CN=agent-2"), ("CN", "agent-1")], "agent-1"),
        ([("CN", "agent-1"), ("TITLE", "CN=agent-2")], "agent-1"),
    ],
)
async def test_a_subject_names_the_agent_that_go_would_see(parts: Any, agent: str) -> None:
    certificate = issue(name(*parts)).certificate
    assert await identified(certificate_method(f"subject:{RECOMMENDED}"), certificate=certificate) == agent
    assert await identified(certificate_method(RECOMMENDED), certificate=certificate) == agent


@pytest.mark.filterwarnings("ignore:Attribute's length")
@pytest.mark.parametrize(
    ("parts", "pattern", "refusal"),
    [
        ([("CN", "agent-1"), ("CN", "agent-2")], RECOMMENDED, Refusal.AMBIGUOUS),
        ([[("CN", "agent-1"), ("CN", "agent-2")]], RECOMMENDED, Refusal.AMBIGUOUS),
        ([("CN", "")], RECOMMENDED, Refusal.AMBIGUOUS),
        ([("O", "CN=agent-1")], RECOMMENDED, Refusal.AMBIGUOUS),
        ([("O", "Acme")], "O=([^,]+)", Refusal.AMBIGUOUS),
        # Go puts the serial number first and escapes no "=".
        ([("SERIALNUMBER", "CN=agent-2"), ("CN", "agent-1")], RECOMMENDED, Refusal.AMBIGUOUS),
        ([("CN", "agent-1"), ("O", "x,CN=agent-2")], ".*CN=([^,]+)", Refusal.AMBIGUOUS),
        ([("CN", "agent-1\n")], RECOMMENDED, Refusal.BAD_CERTIFICATE),
        ([("CN", "agent-1"), ("O", "a\0b")], RECOMMENDED, Refusal.BAD_CERTIFICATE),
        ([("CN", "agent-1")], "O=([^,]+)", Refusal.NO_MATCH),
        ([("CN", "agent-1")], "CN=agent-1(x?)", Refusal.EMPTY),
        ([("CN", "Agent-1")], RECOMMENDED, Refusal.BAD_NAME),
        ([("CN", "agent_1")], RECOMMENDED, Refusal.BAD_NAME),
        ([("CN", "agent.1")], RECOMMENDED, Refusal.BAD_NAME),
        ([("CN", "a" * 64)], RECOMMENDED, Refusal.BAD_NAME),
        ([("CN", "agent-1 ")], RECOMMENDED, Refusal.BAD_NAME),
        ([("CN", "аgent")], RECOMMENDED, Refusal.BAD_NAME),  # noqa: RUF001 - the first letter is Cyrillic
    ],
)
async def test_a_subject_that_could_mislead_is_refused(parts: Any, pattern: str, refusal: Refusal) -> None:
    method = certificate_method(f"subject:{pattern}")
    assert await refused(method, certificate=issue(name(*parts)).certificate) is refusal


async def test_no_certificate_is_nobody() -> None:
    assert await refused(certificate_method(RECOMMENDED)) is Refusal.ABSENT
    assert await refused(certificate_method("uri:(.+)")) is Refusal.ABSENT


SPIFFE = "uri:spiffe://acme/agent/([^/]+)"


@pytest.mark.parametrize(
    ("uris", "outcome"),
    [
        (["spiffe://acme/agent/agent-1"], "agent-1"),
        (["https://example.com/", "spiffe://acme/agent/agent-1"], "agent-1"),
        (["spiffe://acme/agent/agent-1", "spiffe://acme/agent/agent-1/x"], "agent-1"),
        (["spiffe://acme/agent/agent-1", "spiffe://acme/agent/agent-2"], Refusal.AMBIGUOUS),
        (["spiffe://other/agent/agent-1"], Refusal.NO_MATCH),
        (["spiffe://acme/agent/Agent"], Refusal.BAD_NAME),
        (["spiffe://acme/agent/agent 1"], Refusal.BAD_CERTIFICATE),
        ([], Refusal.ABSENT),
    ],
)
async def test_uris_name_one_agent_or_none(uris: list[str], outcome: str | Refusal) -> None:
    method = certificate_method(SPIFFE)
    certificate = issue(name(("O", "Acme")), uris=uris).certificate
    if isinstance(outcome, Refusal):
        assert await refused(method, certificate=certificate) is outcome
    else:
        assert await identified(method, certificate=certificate) == outcome


async def test_a_uri_does_not_hide_two_common_names() -> None:
    certificate = issue(name(("CN", "a"), ("CN", "b")), uris=["spiffe://acme/agent/agent-1"]).certificate
    assert await refused(certificate_method(SPIFFE), certificate=certificate) is Refusal.AMBIGUOUS


async def test_a_header_that_comes_twice_is_refused() -> None:
    """A mesh that adds its header would leave the caller's own in front."""
    method = header_method("x-client-id:^(.+)$")
    values = {"x-client-id": ["agent-2", "agent-1"]}
    assert await refused(method, metadata=values) is Refusal.AMBIGUOUS


async def test_a_headers_pattern_may_hold_colons() -> None:
    method = header_method("X-Forwarded-Client-Cert:URI=spiffe://acme/ns/([^/;,]+)")
    values = {"x-forwarded-client-cert": ["Hash=1;URI=spiffe://acme/ns/agent-1/sa/x"]}
    assert await identified(method, metadata=values) == "agent-1"


@pytest.mark.parametrize("config", ["", "x-client-id", ":(.+)"])
def test_a_header_method_without_its_parts_is_refused_at_the_start(config: str) -> None:
    with pytest.raises(CallError):
        header_method(config)


@pytest.mark.parametrize("pattern", ["", "agent", "(", "(?P<x", "a{2000}", "(" + "x" * 2000 + ")"])
def test_a_pattern_that_can_name_nobody_is_refused_at_the_start(pattern: str) -> None:
    with pytest.raises(CallError):
        NamePattern(pattern)


async def test_patterns_take_linear_time() -> None:
    method = HeaderMethod("x", NamePattern("(a*)*b"))
    assert await refused(method, metadata={"x": ["a" * 16_000]}) is Refusal.NO_MATCH


@pytest.mark.parametrize(
    ("text", "valid"),
    [("a", True), ("a-1", True), ("a" * 63, True), ("", False), ("-a", False), ("a-", False), ("a\n", False)],
)
def test_agents_are_named_by_labels(text: str, *, valid: bool) -> None:
    assert is_agent_name(text) is valid
