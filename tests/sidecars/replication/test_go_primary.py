"""A primary of argocd-agent, followed: scripted, and once as recorded."""

import asyncio
import json
from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from grpc import aio

from argocd import names
from argocd.agents.routing import AgentMapping
from argocd.agents.vocabulary import Message, Target
from kube import queries
from kube.embedded import EmbeddedStore
from kube.resources import APP_PROJECTS, APPLICATION_SETS, APPLICATIONS, SECRETS
from sidecars.replication.kinds import ReplicationScope
from sidecars.replication.standby.follower import Follower
from sidecars.replication.standby.go_primary import GoConnector, health_page
from sidecars.replication.states import HaState
from tests.sidecars import pair_in_memory
from tests.sidecars.replication.hubs import (
    ARGOCD,
    SCOPE,
    Hub,
    ScriptedController,
    application,
    create,
    embedded,
    until,
)
from tests.sidecars.replication.scripted_go_primary import (
    ScriptedGoPrimary,
    event,
    resource,
    snapshot_of,
    stored,
)
from tiphys.errors import SurroundingsError

RECORDING = Path(__file__).resolve().parents[4] / "shared" / "oracle" / "wire" / "replication.jsonl"


@asynccontextmanager
async def following(
    store: EmbeddedStore, primary: ScriptedGoPrimary, *, scope: ReplicationScope = SCOPE
) -> AsyncIterator[Follower]:
    async with primary.running(), Hub(store, scope=scope).running() as hub:
        channel = aio.insecure_channel(f"127.0.0.1:{primary.port}")
        connector = GoConnector(lambda: channel, objects=hub.objects, health=primary.health)
        controller = ScriptedController("two", HaState.SYNCING)
        follower = Follower(store, hub.objects, controller=controller, connect=connector, timing=hub.timing)
        await follower.load()
        await follower.start()
        try:
            yield follower
        finally:
            await follower.stop()
            await channel.close()


async def there(store: EmbeddedStore, condition: Callable[[dict[str, Any]], Any]) -> None:
    await pair_in_memory.until(store, APPLICATIONS, condition, namespace="agent-a")


async def applications(store: EmbeddedStore) -> dict[str, str]:
    page = await store.list(APPLICATIONS)
    return {each["metadata"]["name"]: each["spec"]["source"]["targetRevision"] for each in page.items}


async def test_a_snapshot_and_the_events_after_it_are_written_and_then_acknowledged() -> None:
    store = embedded()
    changed = event(8, Message.SPEC_UPDATE, stored("web", revision="v2"))
    # An agent's status names the agent's own namespace.
    status = stored("web", revision="older", status={"sync": {"status": "Synced"}})
    status["metadata"]["namespace"] = "argocd"
    told = event(9, Message.STATUS_UPDATE, status, direction="inbound")
    primary = ScriptedGoPrimary(snapshot_of(stored("web")), changed, told)
    async with following(store, primary):
        await until(lambda: primary.acknowledged[-1:] == [9])
        web = await store.get(APPLICATIONS, name="web", namespace="agent-a")
        assert web["spec"]["source"]["targetRevision"] == "v2"
        assert web["status"] == {"sync": {"status": "Synced"}}
        assert web["metadata"]["annotations"][names.SOURCE_UID] == "uid-web"
        assert primary.acknowledged[0] == 7


async def test_a_status_is_written_where_applications_are_mapped_by_their_destination() -> None:
    """Then an Application has the same namespace on both sides."""
    store = embedded()
    web = stored("web", status={"sync": {"status": "Synced"}})
    told = event(8, Message.STATUS_UPDATE, web, direction="inbound", agent="agent-b")
    primary = ScriptedGoPrimary(snapshot_of(stored("web")), told)
    scope = ReplicationScope(
        namespace=ARGOCD, allowed_namespaces=("agent-*",), mapped_by=AgentMapping.DESTINATION
    )
    async with following(store, primary, scope=scope):
        await until(lambda: primary.acknowledged[-1:] == [8])
        web = await store.get(APPLICATIONS, name="web", namespace="agent-a")
        assert web["status"] == {"sync": {"status": "Synced"}}
        assert primary.asked == []


async def test_a_deletion_counts_once_the_primary_confirms_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sidecars.replication.standby.go_primary.TICK_SECONDS", 0.1)
    store = embedded()
    primary = ScriptedGoPrimary(
        snapshot_of(stored("web"), stored("kept")), event(8, Message.DELETE, stored("web"))
    )
    async with following(store, primary):
        await until(lambda: len(primary.asked) > 2)
        assert await applications(store) == {"web": "v1", "kept": "v1"}
        assert primary.acknowledged[-1] == 7
        primary.deleted.add(("Application", "web"))
        await until(lambda: primary.acknowledged[-1] == 8)
        assert await applications(store) == {"kept": "v1"}


async def test_many_deletions_that_wait_are_asked_about_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sidecars.replication.standby.go_primary.TICK_SECONDS", 0.1)
    monkeypatch.setattr("sidecars.replication.standby.go_primary.MOST_ASKED", 20)
    many = [stored(f"app-{number}") for number in range(50)]
    events = [event(8 + number, Message.DELETE, item) for number, item in enumerate(many)]
    store, primary = embedded(), ScriptedGoPrimary(snapshot_of(*many), *events)
    async with following(store, primary):
        # Each when it comes; then together, as often as the primary cannot tell.
        await until(lambda: len(primary.questions) >= 56)
        assert primary.questions[:56] == [1] * 50 + [20, 20, 10] * 2
        primary.deleted = {("Application", item["metadata"]["name"]) for item in many}
        await until(lambda: primary.acknowledged[-1] == 57)
        assert await applications(store) == {}


async def test_a_refused_deletion_of_an_agent_deletes_nothing() -> None:
    """argocd-agent forwards a managed agent's delete although its primary keeps the object."""
    store = embedded()
    primary = ScriptedGoPrimary(
        snapshot_of(stored("web")), event(8, Message.DELETE, stored("web"), direction="inbound")
    )
    primary.exists["Application", "web"] = resource("Application", stored("web", revision="v3"))
    async with following(store, primary):
        await until(lambda: primary.acknowledged[-1:] == [8])
        assert await applications(store) == {"web": "v3"}


async def test_nothing_is_deleted_because_a_snapshot_lacks_it() -> None:
    store = embedded()
    for name in ("mine", "too"):
        await create(store, APPLICATIONS, application(name), namespace="agent-a")
    primary = ScriptedGoPrimary(snapshot_of(stored("web")))
    async with following(store, primary) as follower:
        await until(lambda: primary.acknowledged == [7])
        assert set(await applications(store)) == {"mine", "too", "web"}
        assert not follower.progress().is_complete  # nobody has compared anything: a promotion needs force


async def test_a_copy_that_went_during_an_outage_is_asked_about_and_nothing_else_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sidecars.replication.standby.go_primary.TICK_SECONDS", 0.1)
    store = embedded()
    await create(store, APPLICATIONS, application("mine"), namespace="agent-a")
    primary = ScriptedGoPrimary(snapshot_of(stored("web"), stored("gone"), stored("unsaid")))
    async with following(store, primary):
        await until(lambda: primary.acknowledged == [7])
    # It was away meanwhile, and its numbers begin anew.
    primary.snapshot, primary.deleted = snapshot_of(stored("web"), sequence=3), {("Application", "gone")}
    primary.state = "replicating"
    async with following(store, primary) as follower:
        await until(lambda: "not active" in follower.progress().problem)
        primary.state = "active"
        await until(lambda: primary.acknowledged[-1:] == [3])
        await there(store, lambda found: set(found) == {"mine", "unsaid", "web"})
        assert ("Application", "mine") not in primary.asked


async def test_many_copies_that_went_during_an_outage_wait_for_an_operator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sidecars.replication.standby.go_primary.TICK_SECONDS", 0.1)
    store = embedded()
    many = [stored(f"app-{number}") for number in range(40)]
    primary = ScriptedGoPrimary(snapshot_of(stored("web"), *many))
    async with following(store, primary):
        await until(lambda: primary.acknowledged == [7])
    primary.snapshot = snapshot_of(stored("web"), sequence=8)
    primary.deleted = {("Application", item["metadata"]["name"]) for item in many}
    async with following(store, primary) as follower:
        await until(lambda: follower.progress().held_deletions == {"applications": 40})
        assert len(await applications(store)) == 41
        assert follower.accept_deletions("applications") == 40
        await there(store, lambda found: set(found) == {"web"})
        await until(lambda: primary.acknowledged[-1:] == [8])


async def test_a_repository_that_no_agent_has_any_more_is_not_deleted() -> None:
    """argocd-agent says "deleted" to an agent that a project no longer reaches, and to its replica too."""
    store = embedded()
    labels = {names.SECRET_TYPE: names.SECRET_TYPE_REPOSITORY}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "repo", "namespace": ARGOCD, "uid": "uid-repo", "labels": labels},
        "data": {"url": "aHR0cHM6Ly9naXQ="},
    }
    first = event(8, Message.SPEC_UPDATE, secret, target=Target.REPOSITORY)
    primary = ScriptedGoPrimary(
        snapshot_of(stored("web")), first, event(9, Message.DELETE, secret, target=Target.REPOSITORY)
    )
    primary.exists["Repository", "repo"] = resource("Repository", secret)
    async with following(store, primary):
        await until(lambda: primary.acknowledged[-1:] == [9])
        assert primary.asked == [("Repository", "repo")]
        assert await queries.find(store, SECRETS, name="repo", namespace=ARGOCD) is not None


async def test_nothing_is_written_any_more_once_a_standby_has_stopped_in_a_snapshot() -> None:
    """argocd-agent's replica writes on after its promotion, over what operators change then."""
    store = embedded()
    many = [stored(f"app-{number:03}") for number in range(200)]
    primary = ScriptedGoPrimary(snapshot_of(*many))
    async with following(store, primary) as follower:
        await there(store, bool)
        await follower.stop()
        assert len(await applications(store)) < len(many)
        version = (await store.list(APPLICATIONS)).resource_version
        for _ in range(20):
            await asyncio.sleep(0)
        assert (await store.list(APPLICATIONS)).resource_version == version


@pytest.mark.parametrize("state", ["replicating", ""])
async def test_a_primary_that_is_not_active_is_not_followed(state: str) -> None:
    store = embedded()
    primary = ScriptedGoPrimary(snapshot_of(stored("web")))
    primary.state = state
    async with following(store, primary) as follower:
        await until(lambda: "not active" in follower.progress().problem)
        assert await applications(store) == {}


async def test_without_a_health_page_it_waits_and_says_why() -> None:
    with pytest.raises(SurroundingsError, match="--ha-peer-health-url"):
        await health_page("")()


async def test_a_gap_ends_the_stream_and_begins_with_a_snapshot() -> None:
    store = embedded()
    primary = ScriptedGoPrimary(
        snapshot_of(stored("web")), event(10, Message.SPEC_UPDATE, stored("web", revision="v9"))
    )
    async with following(store, primary) as follower:
        await until(lambda: "event 10 came where 8 was due" in follower.progress().problem)
        primary.snapshot, primary.events = snapshot_of(stored("web", revision="v9"), sequence=10), []
        await until(lambda: primary.acknowledged[-1:] == [10])
        assert await applications(store) == {"web": "v9"}


@pytest.mark.oracle
@pytest.mark.skipif(not RECORDING.exists(), reason="the recording is not beside the repository")
async def test_the_recorded_primary_s_words_leave_what_it_stored() -> None:
    lines = [json.loads(line) for line in RECORDING.read_text().splitlines()]
    first = [line for line in lines if line.get("what") == "response" and line.get("call") in {1, 2}]
    snapshot = b64decode(first[0]["raw"])
    events = [b64decode(line["raw"]) for line in first[1:]]
    store = EmbeddedStore(namespaces=(ARGOCD, "agent-a"))
    primary = ScriptedGoPrimary(snapshot, *events)
    primary.deleted.add(("AppProject", "team2"))
    async with following(store, primary):
        await until(lambda: primary.acknowledged[-1:] == [17])
        web = await store.get(APPLICATIONS, name="web", namespace="agent-a")
        assert web["spec"]["source"]["targetRevision"] == "v2"
        assert web["status"]["health"] == {"status": "Healthy"}
        projects = {each["metadata"]["name"] for each in (await store.list(APP_PROJECTS)).items}
        assert projects == {"elsewhere", "team"}
        assert await queries.find(store, APPLICATION_SETS, name="set", namespace=ARGOCD) is not None
        assert await queries.find(store, SECRETS, name="repo-9", namespace=ARGOCD) is not None
