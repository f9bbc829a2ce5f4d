"""The rotation of an authority and its leaf, step by step on a fake clock."""

import base64
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from certs.authority import BACKDATING, LeafSubject
from certs.key_pair import split_bundle, verifies
from certs.rotation import Lifetimes, Rotation, RotationStep
from kube.embedded import EmbeddedStore
from kube.errors import ConflictError, NotFoundError
from kube.resources import NAMESPACES, SECRETS
from kube.store import Object, PatchKind

NAMESPACE = "tiphys-system"
AUTHORITY, LEAF = "tiphys-webhook-ca", "tiphys-webhook-tls"
NAMES = ["tiphys-webhook.tiphys-system.svc"]


class House:
    """A rotation with its clock, and what clients trust: the bundle that was published last."""

    def __init__(self, store: EmbeddedStore) -> None:
        self.store = store
        self.time = datetime(2026, 11, 1, tzinfo=UTC)
        self.trusted: bytes | None = None
        self.publishing = True

    def rotation(self) -> Rotation:
        return Rotation(
            self.store,
            namespace=NAMESPACE,
            name="tiphys-webhook",
            subject=LeafSubject("tiphys-webhook", dns_names=NAMES),
            published=self.published,
            now=lambda: self.time,
            lifetimes=Lifetimes(authority=timedelta(days=365), leaf=timedelta(days=7)),
        )

    async def published(self, certificate: bytes) -> bool:
        return self.trusted is None or certificate in self.trusted

    async def step(self, after: timedelta = timedelta()) -> RotationStep:
        """One step; then whoever publishes the bundle does so, and clients must trust the served leaf."""
        self.time += after
        before = self.trusted
        outcome = await self.rotation().step()
        assert before is None or verifies(before, outcome.leaf.leaf, now=self.time), (
            "clients met a leaf too early"
        )
        if self.publishing:
            self.trusted = outcome.bundle
        assert outcome.leaf.leaf.not_valid_before_utc <= self.time < outcome.leaf.leaf.not_valid_after_utc
        return outcome

    async def secret(self, name: str) -> Object:
        return await self.store.get(SECRETS, name=name, namespace=NAMESPACE)


@pytest.fixture
async def house() -> AsyncIterator[House]:
    store = EmbeddedStore()
    await store.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    yield House(store)
    await store.close()


async def test_the_first_step_makes_both_secrets_and_the_next_changes_nothing(house: House) -> None:
    first = await house.step()
    assert first.did == ("created the authority", "issued the leaf")
    versions = [(await house.secret(name))["metadata"]["resourceVersion"] for name in (AUTHORITY, LEAF)]
    second = await house.step(timedelta(minutes=1))
    assert second.did == ()
    assert second.leaf == first.leaf
    assert versions == [
        (await house.secret(name))["metadata"]["resourceVersion"] for name in (AUTHORITY, LEAF)
    ]
    names = first.leaf.leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == NAMES


async def test_a_leaf_is_backdated_and_renewed_at_two_thirds_of_its_life(house: House) -> None:
    first = await house.step()
    assert first.leaf.leaf.not_valid_before_utc == house.time - BACKDATING
    due = first.leaf.leaf.not_valid_before_utc + (timedelta(days=7) + BACKDATING) * 2 / 3
    assert (await house.step(due - house.time - timedelta(seconds=1))).did == ()
    renewed = await house.step(timedelta(seconds=1))
    assert renewed.did == ("issued the leaf",)
    assert renewed.bundle == first.bundle


async def test_the_wall_clock_is_read_at_least_every_minute(house: House) -> None:
    outcome = await house.step()
    assert outcome.again <= house.time + timedelta(minutes=1)


async def test_a_new_authority_joins_the_bundle_signs_when_it_is_read_back_and_the_old_one_leaves_last(
    house: House,
) -> None:
    first = await house.step()
    house.publishing = False
    joined = await house.step(timedelta(days=250))
    assert "added the next authority to the bundle" in joined.did
    assert len(split_bundle(joined.bundle)) == 2
    assert verifies(first.bundle, joined.leaf.leaf, now=house.time)
    waiting = await house.step(timedelta(minutes=1))
    assert waiting.did == ()
    house.trusted = joined.bundle
    moved = await house.step(timedelta(minutes=1))
    assert moved.did == ("moved to the next authority", "issued the leaf")
    assert not verifies(first.bundle, moved.leaf.leaf, now=house.time)
    assert len(split_bundle(moved.bundle)) == 2
    house.publishing = True
    assert len(split_bundle((await house.step(timedelta(days=6))).bundle)) == 2
    assert len(split_bundle((await house.step(timedelta(days=1, hours=1))).bundle)) == 1


async def test_a_deleted_leaf_is_issued_again_by_the_same_authority(house: House) -> None:
    first = await house.step()
    await house.store.delete(SECRETS, name=LEAF, namespace=NAMESPACE)
    again = await house.step(timedelta(minutes=1))
    assert again.did == ("issued the leaf",)
    assert again.bundle == first.bundle


async def test_a_deleted_authority_is_replaced_and_the_old_leaf_served_until_clients_trust_the_new_one(
    house: House,
) -> None:
    first = await house.step()
    await house.store.delete(SECRETS, name=AUTHORITY, namespace=NAMESPACE)
    repaired = await house.step(timedelta(minutes=1))
    assert repaired.did == ("created the authority",)
    assert repaired.leaf == first.leaf
    assert len(split_bundle(repaired.bundle)) == 2
    moved = await house.step(timedelta(minutes=1))
    assert moved.did == ("issued the leaf",)
    assert len(split_bundle((await house.step(timedelta(days=8))).bundle)) == 1


@pytest.mark.parametrize("key", ["tls.crt", "tls.key"])
@pytest.mark.parametrize("secret", [AUTHORITY, LEAF])
async def test_a_half_written_secret_is_repaired(house: House, secret: str, key: str) -> None:
    await house.step()
    half = base64.b64encode(b"-----BEGIN CERTIFICATE-----\nMIIB").decode()
    await house.store.patch(
        SECRETS, {"data": {key: half}}, name=secret, namespace=NAMESPACE, kind=PatchKind.MERGE
    )
    house.trusted = None
    repaired = await house.step(timedelta(minutes=1))
    assert repaired.did
    assert (await house.step(timedelta(minutes=2))).did == ()


async def test_a_clock_a_year_ahead_leaves_nothing_expired_in_use(house: House) -> None:
    await house.step()
    house.trusted = None
    outcome = await house.step(timedelta(days=400))
    assert outcome.did == ("created the authority", "issued the leaf")
    assert len(split_bundle(outcome.bundle)) == 1


async def test_a_secret_of_another_type_is_replaced(house: House) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {"name": LEAF, "namespace": NAMESPACE},
    }
    await house.store.create(SECRETS, body, namespace=NAMESPACE)
    await house.step()
    assert (await house.secret(LEAF))["type"] == "kubernetes.io/tls"


async def test_of_two_leaders_at_once_one_is_told_of_the_conflict(house: House) -> None:
    class Late(EmbeddedStore):
        """Sees no Secret, as somebody who asked a moment before the other wrote."""

        async def get(self, *args: object, **kwargs: object) -> Object:
            raise NotFoundError("not yet")

    await house.step()
    late = Late.__new__(Late)
    late.__dict__.update(house.store.__dict__)
    house.store = late
    with pytest.raises(ConflictError):
        await house.rotation().step()


async def test_the_key_never_shows_in_a_representation(house: House) -> None:
    outcome = await house.step()
    assert b"PRIVATE" in outcome.leaf.key
    assert "PRIVATE" not in repr(outcome)
