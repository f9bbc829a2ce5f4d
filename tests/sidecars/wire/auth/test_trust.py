"""Whether a certificate counts now: authority, dates, purpose, blocklist, and what is announced."""

from datetime import UTC, datetime, timedelta

import pytest

from certs.key_pair import CertificateError, fingerprint
from sidecars.wire.auth.blocklist import Blocklist
from sidecars.wire.auth.methods import IdentityError, Refusal
from sidecars.wire.auth.trust import Trust
from sidecars.wire.capabilities import Capabilities, grouped
from tests.sidecars.wire.pki import CLIENT, SERVER, Issued, issue

AUTHORITY = issue("authority", authority=True, ends=timedelta(days=100))
OTHER = issue("authority", authority=True, ends=timedelta(days=100))
INTERMEDIATE = issue("intermediate", AUTHORITY, authority=True, ends=timedelta(days=50))


def trust(*roots: Issued, now: datetime | None = None) -> Trust:
    bundle = b"".join(root.pem for root in roots or (AUTHORITY,))
    return Trust(bundle, now=lambda: now or datetime.now(UTC))


def refused(trusted: Trust, *chain: Issued) -> Refusal:
    with pytest.raises(IdentityError) as caught:
        trusted.check([issued.certificate for issued in chain])
    return caught.value.refusal


@pytest.mark.parametrize(
    "chain",
    [
        [issue("agent-1", AUTHORITY)],
        [issue("agent-1", AUTHORITY, usage=[CLIENT])],
        [issue("agent-1", AUTHORITY, usage=[SERVER, CLIENT])],
        [issue("agent-1", INTERMEDIATE, usage=[CLIENT]), INTERMEDIATE],
    ],
    ids=["without a purpose", "for clients", "for both", "by an intermediate"],
)
def test_a_good_certificate_is_trusted(chain: list[Issued]) -> None:
    trust().check([issued.certificate for issued in chain])


@pytest.mark.parametrize(
    ("chain", "refusal"),
    [
        ([], Refusal.ABSENT),
        ([issue("agent-1", OTHER)], Refusal.UNTRUSTED),
        ([issue("agent-1")], Refusal.UNTRUSTED),
        ([issue("agent-1", INTERMEDIATE)], Refusal.UNTRUSTED),
        ([issue("agent-1", issue("mid", AUTHORITY)), issue("mid", AUTHORITY)], Refusal.UNTRUSTED),
        ([issue("agent-1", AUTHORITY, ends=timedelta(seconds=-1))], Refusal.UNTRUSTED),
        ([issue("agent-1", AUTHORITY, begins=timedelta(hours=1))], Refusal.UNTRUSTED),
        ([issue("agent-1", AUTHORITY, usage=[SERVER])], Refusal.BAD_CERTIFICATE),
    ],
)
def test_a_bad_certificate_is_not_trusted(chain: list[Issued], refusal: Refusal) -> None:
    assert refused(trust(), *chain) is refusal


def test_an_authority_that_is_replaced_vouches_no_longer() -> None:
    trusted, agent = trust(), issue("agent-1", AUTHORITY)
    trusted.swap_roots(AUTHORITY.pem + OTHER.pem)
    trusted.check([agent.certificate])
    trusted.swap_roots(OTHER.pem)
    assert refused(trusted, agent) is Refusal.UNTRUSTED


def test_an_authority_dies_with_its_own_certificate() -> None:
    short = issue("short", authority=True, ends=timedelta(minutes=1))
    agent = issue("agent-1", short, ends=timedelta(days=9))
    moment = datetime.now(UTC)
    trusted = Trust(short.pem, now=lambda: moment)
    trusted.check([agent.certificate])
    moment += timedelta(minutes=2)
    assert refused(trusted, agent) is Refusal.UNTRUSTED


@pytest.mark.parametrize(
    "bundle", [b"", b"no pem", issue("x", authority=True, ends=timedelta(seconds=-1)).pem]
)
def test_a_bundle_that_trusts_nobody_is_refused_and_the_old_one_stays(bundle: bytes) -> None:
    with pytest.raises(CertificateError, match="no valid certificate"):
        Trust(bundle, now=lambda: datetime.now(UTC))
    trusted = trust()
    with pytest.raises(CertificateError):
        trusted.swap_roots(bundle)
    trusted.check([issue("agent-1", AUTHORITY).certificate])


@pytest.mark.parametrize("spelled", [str.upper, str.lower])
def test_a_blocked_certificate_is_refused_whatever_the_case_of_its_entry(spelled: type[str]) -> None:
    agent, trusted = issue("agent-1", AUTHORITY), trust()
    trusted.swap_blocklist(Blocklist.of({"data": {spelled(fingerprint(agent.certificate)): ""}}))
    assert refused(trusted, agent) is Refusal.BLOCKED
    trusted.check([issue("agent-2", AUTHORITY).certificate])
    trusted.swap_blocklist(Blocklist())
    trusted.check([agent.certificate])


@pytest.mark.parametrize("config_map", [None, {}, {"data": None}, {"data": ["x"]}, {"data": {}}])
def test_no_list_blocks_nobody(config_map: dict[str, object] | None) -> None:
    assert Blocklist.of(config_map) == Blocklist()


def test_entries_that_block_nothing_are_reported() -> None:
    found = Blocklist.of({"data": {"ab" * 32: "", "agent-1": "", "ab" * 31: ""}})
    assert found.fingerprints == {"AB" * 32}
    assert found.unreadable == ("agent-1", "ab" * 31)


@pytest.mark.parametrize(
    ("pairs", "extensions", "epoch", "limit"),
    [
        ([], set(), 0, 0),
        ([("tiphys-extensions", "batches,ranges")], {"batches", "ranges"}, 0, 0),
        ([("tiphys-extensions", "gzip"), ("tiphys-max-message-bytes", "70000")], {"gzip"}, 0, 70_000),
        ([("tiphys-extensions", "gzip"), ("tiphys-max-message-bytes", "-1")], {"gzip"}, 0, 0),
        ([("tiphys-extensions", "gzip"), ("tiphys-max-message-bytes", "9" * 30)], set(), 0, 0),
        ([("tiphys-extensions", "epoch , ranges,"), ("tiphys-epoch", "7")], {"epoch", "ranges"}, 7, 0),
        ([("tiphys-extensions", "epoch"), ("tiphys-epoch", "-7")], {"epoch"}, 0, 0),
        ([("tiphys-extensions", "epoch"), ("tiphys-epoch", "٣")], {"epoch"}, 0, 0),
        ([("tiphys-extensions", "epoch"), ("tiphys-epoch", "9" * 30)], set(), 0, 0),
        ([("tiphys-extensions", "x" * 300)], set(), 0, 0),
        ([("tiphys-extensions", b"batches")], set(), 0, 0),
    ],
)
def test_an_announcement_is_read_or_ignored(
    pairs: list[tuple[str, str | bytes]], extensions: set[str], epoch: int, limit: int
) -> None:
    assert Capabilities.of(grouped(pairs)) == Capabilities(frozenset(extensions), epoch, limit)


def test_an_announcement_comes_back_as_it_was() -> None:
    for announced in (Capabilities(), Capabilities(frozenset({"epoch", "batches"}), 7, 70_000)):
        assert Capabilities.of(grouped(announced.metadata())) == announced
