"""Two replicas behind a Service in miniature: restarts and rotations under load lose no call."""

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from certs.authority import Authority
from kube.errors import ApiError, ForbiddenError
from kube.live import LiveStore
from kube.resources import APP_PROJECTS, LEASES, SECRETS, VALIDATING_WEBHOOKS
from kube.secrets import decoded_data
from kube.store import Object, PatchKind
from scripts.cluster.controlplane import Cluster
from scripts.ports import free_port
from tests.crowd import crowd
from tests.webhook.server.balancer import Balancer
from tests.webhook.webhook_process import Guard
from webhook.registration.register import LEADER_LEASE

CALLS = 10_000
AT_ONCE = 16
BAD: Object = {"metadata": {"name": "bad"}, "spec": {"sourceRepos": ["!*"]}}

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def pair(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Guard]]:
    home, argocd = cluster.create_namespace(), cluster.create_namespace()
    replicas = [
        Guard(cluster=cluster, folder=tmp_path_factory.mktemp("replica"), home=home, argocd=argocd).start()
        for _ in range(2)
    ]
    yield replicas
    replicas[0].unregister()
    for replica in replicas:
        replica.stop()
    for namespace in (home, argocd):
        cluster.drop_namespace(namespace)


@pytest.fixture
async def guarded(pair: list[Guard]) -> AsyncIterator[tuple[list[Guard], LiveStore]]:
    """Both replicas registered through the balancer, and a store that calls the API server."""
    port = free_port()
    async with Balancer(lambda: pair, port=port):
        await asyncio.to_thread(pair[0].register, f"https://localhost:{port}")
        store = await LiveStore.connect(kubeconfig=pair[0].cluster.kubeconfig, concurrency=AT_ONCE)
        await until_refused(store, pair[0].argocd)
        yield pair, store
        await store.close()


async def until_refused(store: LiveStore, namespace: str) -> None:
    await until(lambda: call(store, namespace), lambda outcome: outcome == "refused")


async def until(
    read: Callable[[], Awaitable[Any]], holds: Callable[[Any], bool], *, seconds: float = 90
) -> float:
    """Asks until it holds, and says how long that took."""
    begin = time.monotonic()
    async with asyncio.timeout(seconds):
        while True:
            if holds(await read()):
                return time.monotonic() - begin
            await asyncio.sleep(0.05)


async def call(store: LiveStore, namespace: str) -> str:
    """What the API server did with a bad project; anything but a refusal of ours is a failed call."""
    try:
        await store.create(APP_PROJECTS, BAD, namespace=namespace, dry_run=True)
    except ForbiddenError as error:
        return "refused" if "Tiphys refuses" in str(error) else str(error)
    except ApiError as error:
        return str(error)
    return "accepted"


async def under_load(store: LiveStore, namespace: str, disturb: Callable[[], Awaitable[None]]) -> list[str]:
    """At least `CALLS` calls, and as many more as the disturbance needs to end; the failed ones."""
    failed: list[str] = []
    disturbance = asyncio.ensure_future(disturb())
    done = 0

    async def caller() -> None:
        nonlocal done
        while done < CALLS or not disturbance.done():
            done += 1
            outcome = await call(store, namespace)
            if outcome != "refused":
                failed.append(outcome)

    await asyncio.gather(*(caller() for _ in range(AT_ONCE)))
    await disturbance
    return failed


async def test_ten_thousand_calls_during_a_rolling_restart_all_get_their_answer(
    guarded: tuple[list[Guard], LiveStore],
) -> None:
    replicas, store = guarded

    async def restart_each() -> None:
        for replica in replicas:
            await asyncio.to_thread(replica.stop)
            await asyncio.to_thread(replica.start)

    assert await under_load(store, replicas[0].argocd, restart_each) == []


async def test_ten_thousand_calls_during_a_rotation_of_leaf_and_authority_all_get_their_answer(
    guarded: tuple[list[Guard], LiveStore],
) -> None:
    replicas, store = guarded
    home = replicas[0].home

    async def rotate() -> None:
        await rotate_leaf(store, home)
        await rotate_authority(store, home)

    assert await under_load(store, replicas[0].argocd, rotate) == []


async def rotate_leaf(store: LiveStore, home: str) -> None:
    before = await leaf(store, home)
    await store.delete(SECRETS, name="tiphys-webhook-tls", namespace=home)
    await changed(lambda: leaf(store, home), before)


async def rotate_authority(store: LiveStore, home: str) -> None:
    """An authority that is nearly at its end, as time would make it: the next one must take over."""
    secret = await store.get(SECRETS, name="tiphys-webhook-ca", namespace=home)
    data = decoded_data(secret)
    coming = Authority.create("next", now=datetime.now(UTC))
    added = {
        "next.crt": coming.pair.certificate,
        "next.key": coming.pair.key,
        "ca.crt": data["ca.crt"] + coming.pair.certificate,
    }
    before = await leaf(store, home)
    await store.patch(
        SECRETS,
        {"data": {key: base64.b64encode(value).decode() for key, value in added.items()}},
        name="tiphys-webhook-ca",
        namespace=home,
        kind=PatchKind.MERGE,
    )
    await changed(lambda: leaf(store, home), before)


async def leaf(store: LiveStore, home: str) -> Any:
    try:
        secret = await store.get(SECRETS, name="tiphys-webhook-tls", namespace=home)
    except ApiError:
        return None
    return decoded_data(secret).get("tls.crt")


async def changed(read: Callable[[], Awaitable[Any]], before: Any) -> float:
    return await until(read, lambda now: now is not None and now != before)


async def test_damage_to_the_registration_is_repaired_within_seconds(
    guarded: tuple[list[Guard], LiveStore],
) -> None:
    replicas, store = guarded
    right = await bundle(store)
    took = {}
    for name, damaged in (("overwritten", "Zm9yZWlnbg=="), ("emptied", "")):
        patch = [{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": damaged}]
        if not damaged:
            patch = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
        await store.patch(VALIDATING_WEBHOOKS, patch, name="tiphys", kind=PatchKind.JSON)
        took[name] = await until(lambda: bundle(store), lambda now: now == right)
    assert max(took.values()) < 5 * crowd(), took
    await until_refused(store, replicas[0].argocd)


async def bundle(store: LiveStore) -> Any:
    held = await store.get(VALIDATING_WEBHOOKS, name="tiphys")
    return held["webhooks"][0]["clientConfig"].get("caBundle")


async def test_lost_and_half_written_secrets_are_replaced_and_reviews_go_on(
    guarded: tuple[list[Guard], LiveStore],
) -> None:
    replicas, store = guarded
    home = replicas[0].home
    for name in ("tiphys-webhook-ca", "tiphys-webhook-tls"):
        before = await leaf(store, home)
        await store.delete(SECRETS, name=name, namespace=home)
        await changed(lambda: leaf(store, home), before)
        await until_refused(store, replicas[0].argocd)
    half = {"data": {"tls.key": base64.b64encode(b"-----BEGIN").decode()}}
    before = await leaf(store, home)
    await store.patch(SECRETS, half, name="tiphys-webhook-tls", namespace=home, kind=PatchKind.MERGE)
    await changed(lambda: leaf(store, home), before)
    await until_refused(store, replicas[0].argocd)


async def test_a_leader_that_is_killed_or_robbed_is_followed_by_one_that_renews(
    guarded: tuple[list[Guard], LiveStore],
) -> None:
    replicas, store = guarded
    home = replicas[0].home
    stolen = {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 1}}
    await store.patch(LEASES, stolen, name=LEADER_LEASE, namespace=home, kind=PatchKind.MERGE)
    await changed(lambda: holder(store, home), "thief")
    leader = await holder(store, home)
    assert leader is not None
    victim = next(replica for replica in replicas if f"-{leader_pid(replica)}" in leader)
    await asyncio.to_thread(victim.kill)
    await changed(lambda: holder(store, home), leader)
    before = await leaf(store, home)
    await store.delete(SECRETS, name="tiphys-webhook-tls", namespace=home)
    await changed(lambda: leaf(store, home), before)
    await until_refused(store, replicas[0].argocd)
    await asyncio.to_thread(victim.start)
    status = await asyncio.to_thread(replicas[0].status)
    assert len([replica for replica in status["replicas"] if replica["alive"]]) >= 2


async def holder(store: LiveStore, home: str) -> str | None:
    lease = await store.get(LEASES, name=LEADER_LEASE, namespace=home)
    return lease["spec"].get("holderIdentity") or None


def leader_pid(replica: Guard) -> int:
    assert replica.process is not None
    return replica.process.pid
