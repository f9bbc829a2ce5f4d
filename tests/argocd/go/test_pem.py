import base64

import pytest

from argocd.go import pem
from tests.processor_time import ProcessorTime

ASN1 = base64.b64encode(b"\x30\x03\x02\x01\x00").decode()
OPENSSH = base64.b64encode(b"openssh-key-v1\0\0\0\0\x04none").decode()
LOCKED = base64.b64encode(b"openssh-key-v1\0\0\0\0\x0aaes256-ctr").decode()


def block(content: str, *, label: str = "PRIVATE KEY", end: str = "") -> str:
    return f"-----BEGIN {label}-----\n{content}\n-----END {end or label}-----\n"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (block(ASN1), ""),
        (block(ASN1, label="RSA PRIVATE KEY"), ""),
        (block(OPENSSH, label="OPENSSH PRIVATE KEY"), ""),
        ("some words\n" + block(ASN1), ""),
        (block(LOCKED, label="OPENSSH PRIVATE KEY"), "passphrase"),
        (block("Proc-Type: 4,ENCRYPTED\n\n" + ASN1, label="RSA PRIVATE KEY"), "passphrase"),
        (block(ASN1, label="ENCRYPTED PRIVATE KEY"), "passphrase"),
        ("ssh-ed25519 AAAA", "no -----BEGIN line"),
        ("-----BEGIN PRIVATE KEY-----\n" + ASN1, "is broken"),
        (block(ASN1, end="CERTIFICATE"), "different things"),
        (block(ASN1, label="PUBLIC KEY"), "it is a PUBLIC KEY, not a PRIVATE KEY"),
        (block("no base64!"), "not base64"),
        (block(""), "not base64"),
        (block(base64.b64encode(b"words").decode()), "no key and no certificate"),
    ],
)
def test_a_key_is_a_block_of_its_kind_without_a_passphrase(text: str, part: str) -> None:
    found = pem.problem(text, label="PRIVATE KEY")
    assert (part in found) if part else (found == "")


@pytest.mark.parametrize("part", ["-----BEGIN ", "-----BEGIN A-----\n", "-----END A-----\n", "A", "\n"])
def test_a_long_text_is_looked_at_once(part: str) -> None:
    with ProcessorTime() as taken:
        pem.problem(part * (250_000 // len(part)), label="PRIVATE KEY")
    assert taken.seconds < 1
