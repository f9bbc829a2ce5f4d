"""Everything that can be wrong with a certificate and its key is said in one line that names it."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from certs.authority import Authority, LeafSubject
from certs.key_pair import CertificateError, KeyPair, due, split_bundle, trusted, verifies

NOW = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.create("one", now=NOW)


def test_a_leaf_is_signed_by_its_authority_and_by_no_other(authority: Authority) -> None:
    leaf = authority.issue(
        LeafSubject("a", dns_names=["a"], addresses=["127.0.0.1"], uris=["spiffe://a/b"]), now=NOW
    )
    other = Authority.create("two", now=NOW)
    assert verifies(authority.pair.certificate, leaf.leaf, now=NOW)
    assert not verifies(other.pair.certificate, leaf.leaf, now=NOW)
    assert verifies(other.pair.certificate + authority.pair.certificate, leaf.leaf, now=NOW)
    assert not verifies(authority.pair.certificate, leaf.leaf, now=NOW + timedelta(days=400))


def test_a_leaf_never_outlives_its_authority(authority: Authority) -> None:
    late = NOW + timedelta(days=364)
    leaf = authority.issue(LeafSubject("a"), now=late, lifetime=timedelta(days=30), server=False, client=True)
    assert leaf.leaf.not_valid_after_utc == authority.certificate.not_valid_after_utc
    assert leaf.leaf.not_valid_after_utc - late == timedelta(days=1)


@pytest.mark.parametrize(
    ("certificate", "key", "said"),
    [
        (b"", None, "the certificate is not PEM"),
        (None, b"nonsense", "the key is not an unencrypted PEM key"),
    ],
)
def test_what_does_not_parse_is_refused(
    authority: Authority, certificate: bytes | None, key: bytes | None, said: str
) -> None:
    pair = authority.issue(LeafSubject("a"), now=NOW)
    with pytest.raises(CertificateError, match=f"somewhere: {said}"):
        KeyPair.checked(
            certificate=pair.certificate if certificate is None else certificate,
            key=pair.key if key is None else key,
            origin="somewhere",
        )


def test_a_certificate_that_does_not_match_its_key_is_refused(authority: Authority) -> None:
    one, two = (authority.issue(LeafSubject("a"), now=NOW) for _ in range(2))
    with pytest.raises(CertificateError, match="does not belong to the key"):
        KeyPair.checked(certificate=one.certificate, key=two.key, origin="x")


def test_an_expired_and_a_not_yet_valid_certificate_say_when(authority: Authority) -> None:
    pair = authority.issue(LeafSubject("a"), now=NOW)
    pair.check_valid(now=NOW, origin="x")
    with pytest.raises(CertificateError, match="x: the certificate expired at 2026-11-08T00:00:00Z"):
        pair.check_valid(now=NOW + timedelta(days=7), origin="x")
    with pytest.raises(CertificateError, match=r"not valid before 2026-10-31T23:00:00Z; check the clock"):
        pair.check_valid(now=NOW - timedelta(hours=2), origin="x")


def test_a_leaf_cannot_act_as_an_authority(authority: Authority) -> None:
    leaf = authority.issue(LeafSubject("a"), now=NOW)
    with pytest.raises(CertificateError, match="is not an authority"):
        Authority.from_pair(leaf, origin="x")
    assert Authority.from_pair(authority.pair, origin="x").certificate == authority.certificate
    assert "PRIVATE" not in repr(authority)


def test_a_key_that_we_cannot_sign_with_is_refused(authority: Authority) -> None:
    key = ed25519.Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with pytest.raises(CertificateError, match="use an EC or RSA key"):
        Authority.from_pair(KeyPair(certificate=authority.pair.certificate, key=key), origin="x")


def test_a_bundle_is_read_past_what_is_broken_in_it(authority: Authority) -> None:
    broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"
    bundle = b"# a comment\n" + authority.pair.certificate + broken
    assert len(split_bundle(bundle)) == 2
    assert trusted(bundle, now=NOW) == [authority.certificate]


def test_renewal_is_due_after_two_thirds(authority: Authority) -> None:
    leaf = authority.issue(LeafSubject("a"), now=NOW, lifetime=timedelta(hours=23)).leaf
    assert due(leaf) == NOW + timedelta(hours=15)
