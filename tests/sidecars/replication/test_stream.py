"""A primary and a standby over grpc with certificates, on embedded stores."""

import asyncio
from itertools import count

from argocd import names
from kube import queries
from kube.resources import APP_PROJECTS, APPLICATIONS, SECRETS
from kube.secrets import decoded_data
from sidecars.replication.kinds import CLUSTER
from tests.sidecars.replication.hubs import (
    ARGOCD,
    PATIENCE,
    Hub,
    Pair,
    application,
    cluster_secret,
    create,
    embedded,
    everything,
    until,
)


async def test_a_standby_gets_everything_that_is_there_and_everything_that_changes() -> None:
    one, two = embedded(), embedded()
    await everything(one)
    async with Pair(Hub(one), Hub(two)).running() as pair:
        await pair.equal()
        assert {kind: count for kind, count in pair.standby.objects.counts().items() if not count} == {}
        await create(one, APPLICATIONS, application("api"), namespace="agent-b")
        web = await one.get(APPLICATIONS, name="web", namespace="agent-a")
        web["spec"]["source"]["targetRevision"] = "v2"
        await one.replace(APPLICATIONS, web)
        await one.delete(APP_PROJECTS, name="team", namespace=ARGOCD)
        await until(lambda: pair.source.last_sequence == 3)
        await pair.equal()
        copy = await two.get(APPLICATIONS, name="web", namespace="agent-a")
        assert copy["spec"]["source"]["targetRevision"] == "v2"
        assert copy["metadata"]["annotations"][names.SOURCE_UID] == web["metadata"]["uid"]
        assert await queries.find(two, APP_PROJECTS, name="team", namespace=ARGOCD) is None
    assert pair.passive.told[0] == "syncing"
    assert "in sync" in pair.passive.told


async def test_a_cluster_s_token_stays_where_it_was_made() -> None:
    one, two = embedded(), embedded()
    await everything(one)
    async with Pair(Hub(one), Hub(two)).running() as pair:
        await pair.equal()
        secret = await two.get(SECRETS, name="cluster-agent-a", namespace=ARGOCD)
        assert decoded_data(secret)["config"] == b'{"tlsClientConfig":{}}'


async def test_a_renewed_token_of_a_cluster_is_no_change_for_a_replica() -> None:
    """A switchover hands over the last sequence, and an active one renews tokens at any time."""
    one, two = embedded(), embedded()
    await create(one, SECRETS, cluster_secret("agent-a", token="first"))
    async with Pair(Hub(one), Hub(two)).running() as pair:
        await pair.equal()
        renewed = cluster_secret("agent-a", token="second")
        renewed["metadata"]["namespace"] = ARGOCD
        stored = await one.replace(SECRETS, renewed)
        await pair.primary.objects.reached(CLUSTER, stored["metadata"]["resourceVersion"])
        assert pair.source.last_sequence == 0
        assert (
            b"second"
            in decoded_data(await one.get(SECRETS, name="cluster-agent-a", namespace=ARGOCD))["config"]
        )


async def test_what_is_the_last_is_reached_although_somebody_always_writes() -> None:
    """The way there and back takes longer than the next write, so at no moment is the replica up to date."""
    one, two = embedded(), embedded()
    async with Pair(Hub(one), Hub(two)).running() as pair:
        await pair.equal()

        async def write() -> None:
            for number in count():
                await create(one, APPLICATIONS, application(f"app-{number}"), namespace="agent-a")
                await asyncio.sleep(0)

        writer = asyncio.ensure_future(write())
        try:
            await until(lambda: pair.source.last_sequence > 10)
            last = pair.source.last_sequence
            async with asyncio.timeout(PATIENCE):
                await pair.source.reached("standby")
            (replica,) = pair.source.replicas()
            assert last <= replica.acknowledged < pair.source.last_sequence
            assert not writer.done()
        finally:
            writer.cancel()
