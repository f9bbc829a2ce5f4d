"""A machine that slept for a year: everything has expired, and the leader's next steps put it right."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from certs.authority import LeafSubject
from certs.key_pair import verifies
from certs.rotation import Rotation, RotationStep
from kube.live import LiveStore
from kube.resources import VALIDATING_WEBHOOKS
from scripts.cluster.controlplane import Cluster
from tests.crowd import crowd
from webhook.registration.register import Upkeep, bundles_of, register
from webhook.registration.table import Registration

SECONDS = 60


@pytest.fixture
async def store(cluster: Cluster) -> AsyncIterator[LiveStore]:
    store = await LiveStore.connect(kubeconfig=cluster.kubeconfig)
    yield store
    await store.close()


async def test_after_a_year_of_sleep_leaf_authority_and_ca_bundle_are_new(
    cluster: Cluster, store: LiveStore
) -> None:
    home, argocd = cluster.create_namespace(), cluster.create_namespace()
    clock = [datetime.now(UTC)]
    woken = asyncio.Event()
    upkeep = Upkeep(store, home=home, written=woken.set)
    rotation = Rotation(
        store,
        namespace=home,
        name="tiphys-webhook",
        subject=LeafSubject("tiphys-webhook", dns_names=["localhost"]),
        published=upkeep.published,
        now=lambda: clock[0],
    )

    async def settle() -> RotationStep:
        """As the leader: a step, and another whenever the caBundle was written, until nothing is left to do."""
        async with asyncio.timeout(SECONDS):
            while True:
                woken.clear()
                outcome = await rotation.step()
                upkeep.want(outcome.bundle)
                held = await store.get(VALIDATING_WEBHOOKS, name="tiphys")
                if not outcome.did and set(bundles_of(held)) == {outcome.bundle}:
                    return outcome
                if set(bundles_of(held)) != {outcome.bundle}:
                    await woken.wait()

    first = await rotation.step()
    registration = Registration(home=home, argocd_namespace=argocd, url="https://localhost:1")
    await register(store, registration, bundle=first.bundle)
    caring = asyncio.create_task(upkeep.run())
    try:
        before = await settle()
        clock[0] += timedelta(days=366)
        assert not verifies(before.bundle, before.leaf.leaf, now=clock[0])
        begin = time.monotonic()
        after = await settle()
        took = time.monotonic() - begin
        [bundle] = set(bundles_of(await store.get(VALIDATING_WEBHOOKS, name="tiphys")))
        assert verifies(bundle, after.leaf.leaf, now=clock[0])
        assert after.leaf.leaf.not_valid_before_utc <= clock[0] < after.leaf.leaf.not_valid_after_utc
        assert took < 5 * crowd()
    finally:
        caring.cancel()
        for kind in ("validating", "mutating"):
            cluster.kubectl("delete", f"{kind}webhookconfiguration", "tiphys")
        for namespace in (home, argocd):
            cluster.drop_namespace(namespace)
