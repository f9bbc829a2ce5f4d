"""Authority and certificates in argocd-agent's Secrets."""

from base64 import b64decode
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from argocd import names
from certs.authority import KeyType
from certs.key_pair import verifies
from certs.sources import Secrets
from kube.embedded import EmbeddedStore
from kube.resources import SECRETS
from sidecars.fleet.pki import AUTHORITY_LIFETIME, JWT_KEY, Pki, deliver_to_agent
from sidecars.wire.auth.tokens import load_key
from sidecars.wire.auth.trust import Trust
from tiphys.errors import CallError

NOW = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture
def store() -> EmbeddedStore:
    return EmbeddedStore(namespaces=["argocd", "elsewhere"])


@pytest.fixture
def pki(store: EmbeddedStore) -> Pki:
    return Pki(store=store, namespace="argocd")


async def init(pki: Pki, *, replace: bool = False) -> str:
    authority, _ = await pki.init(now=NOW, key_type=KeyType.EC, replace=replace)
    return authority.fingerprint


async def test_an_authority_is_made_with_a_key_for_tokens(store: EmbeddedStore, pki: Pki) -> None:
    told, fresh = await pki.init(now=NOW, key_type=KeyType.EC, replace=False)

    assert told.authority
    assert fresh
    assert told.ends - NOW == AUTHORITY_LIFETIME
    secret = await store.get(SECRETS, name=names.AGENT_CA_SECRET, namespace="argocd")
    assert secret["type"] == "kubernetes.io/tls"
    assert set(secret["data"]) == {"tls.crt", "tls.key"}
    tokens = await store.get(SECRETS, name=names.AGENT_JWT_SECRET, namespace="argocd")
    load_key(b64decode(tokens["data"][JWT_KEY]), origin="the test")


async def test_an_authority_is_not_overwritten_unasked(store: EmbeddedStore, pki: Pki) -> None:
    first = await init(pki)
    tokens = await store.get(SECRETS, name=names.AGENT_JWT_SECRET, namespace="argocd")

    with pytest.raises(CallError, match=r"argocd/argocd-agent-ca exists already: --replace"):
        await init(pki)
    assert [each.fingerprint for each in await pki.inspect()] == [first]
    assert await init(pki, replace=True) != first
    # Tokens outlive the authority: nobody has to log in again because of it.
    assert tokens == await store.get(SECRETS, name=names.AGENT_JWT_SECRET, namespace="argocd")


@pytest.mark.parametrize("key_type", list(KeyType))
async def test_a_principal_gets_a_certificate_that_its_settings_find(
    store: EmbeddedStore, pki: Pki, key_type: KeyType
) -> None:
    await pki.init(now=NOW, key_type=key_type, replace=False)
    told = await pki.issue_server(
        names.PRINCIPAL_TLS_SECRET,
        service=names.PRINCIPAL_SERVICE,
        dns_names=["agents.example.org"],
        addresses=["192.0.2.7"],
        now=NOW,
        key_type=key_type,
        replace=False,
    )

    assert told.names == (
        "argocd-agent-principal",
        "argocd-agent-principal.argocd",
        "argocd-agent-principal.argocd.svc",
        "agents.example.org",
        "192.0.2.7",
    )
    material = await Secrets(
        store=store,
        namespace="argocd",
        pair=names.PRINCIPAL_TLS_SECRET,
        authorities=names.AGENT_CA_SECRET,
    ).load()
    assert material.pair is not None
    assert verifies(material.roots, material.pair.leaf, now=NOW)


async def test_an_agents_certificate_has_its_name_and_no_other(store: EmbeddedStore, pki: Pki) -> None:
    await init(pki)
    pair, authority = await pki.issue_client("agent-a", now=NOW, key_type=KeyType.EC)
    told = await deliver_to_agent(store, pair, authority, namespace="elsewhere", replace=False)

    assert told.common_names == ("agent-a",)
    usage = pair.leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    Trust(authority, now=lambda: NOW).check([pair.leaf])
    there = await store.get(SECRETS, name=names.AGENT_CA_SECRET, namespace="elsewhere")
    assert set(there["data"]) == {"ca.crt"}
    material = await Secrets(
        store=store, namespace="elsewhere", pair=names.AGENT_TLS_SECRET, authorities=names.AGENT_CA_SECRET
    ).load()
    assert material.pair == pair


async def test_an_agent_beside_its_principal_leaves_the_authority_alone(
    store: EmbeddedStore, pki: Pki
) -> None:
    await init(pki)
    pair, authority = await pki.issue_client("agent-a", now=NOW, key_type=KeyType.EC)
    before = await store.get(SECRETS, name=names.AGENT_CA_SECRET, namespace="argocd")
    await deliver_to_agent(store, pair, authority, namespace="argocd", replace=True)

    assert await store.get(SECRETS, name=names.AGENT_CA_SECRET, namespace="argocd") == before


async def test_another_authoritys_key_is_never_overwritten(store: EmbeddedStore, pki: Pki) -> None:
    await init(pki)
    other = Pki(store=store, namespace="elsewhere")
    await init(other)
    pair, authority = await pki.issue_client("agent-a", now=NOW, key_type=KeyType.EC)

    with pytest.raises(CallError, match="the key of another authority"):
        await deliver_to_agent(store, pair, authority, namespace="elsewhere", replace=True)


async def test_a_leaf_ends_with_its_authority_at_the_latest(pki: Pki) -> None:
    await pki.init(now=NOW, lifetime=timedelta(days=10), key_type=KeyType.EC, replace=False)
    pair, _ = await pki.issue_client("agent-a", now=NOW, key_type=KeyType.EC)

    assert pair.leaf.not_valid_after_utc == NOW + timedelta(days=10)


@pytest.mark.parametrize("name", ["Agent", "a.b", "-a", "a" * 64, "", "argocd", "a/b", "a,CN=b"])
async def test_a_name_that_no_agent_may_have_gets_no_certificate(pki: Pki, name: str) -> None:
    await init(pki)
    with pytest.raises(CallError):
        await pki.issue_client(name, now=NOW, key_type=KeyType.EC)


async def test_without_an_authority_nothing_is_issued(pki: Pki) -> None:
    with pytest.raises(CallError, match="begin with `tiphys pki init`"):
        await pki.issue_client("agent-a", now=NOW, key_type=KeyType.EC)


async def test_states_follow_the_clock(pki: Pki) -> None:
    await init(pki)
    (told,) = await pki.inspect()

    assert told.state(NOW) == "valid"
    assert told.state(NOW - timedelta(days=1)) == "not yet valid"
    assert told.state(NOW + AUTHORITY_LIFETIME * 0.7) == "renew it soon"
    assert told.state(NOW + AUTHORITY_LIFETIME) == "expired"


async def test_the_authoritys_key_may_live_out_of_the_principals_reach(
    store: EmbeddedStore, pki: Pki
) -> None:
    await pki.init(now=NOW, key_type=KeyType.EC, replace=False, key_secret="elsewhere/fleet-key")
    secret = await store.get(SECRETS, name=names.AGENT_CA_SECRET, namespace="argocd")
    assert set(secret["data"]) == {"ca.crt"}
    pair, authority = await pki.issue_client("agent-1", now=NOW, key_type=KeyType.EC)
    assert verifies(authority, pair.leaf, now=NOW)
    source = Secrets(store=store, namespace="argocd", pair="", authorities=names.AGENT_CA_SECRET)
    assert (await source.load()).roots == authority


async def test_a_place_for_the_key_that_is_none_is_refused(pki: Pki) -> None:
    with pytest.raises(CallError, match="NAMESPACE/NAME"):
        await pki.init(now=NOW, key_type=KeyType.EC, replace=False, key_secret="fleet-key")
