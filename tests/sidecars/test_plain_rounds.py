"""Peers that do not compare are asked now and then, with argocd-agent's resync messages: scripted ones here, by a
virtual clock.
"""

import asyncio
import json
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from argocd import names
from argocd.agents.checksums import ResourceKey, inventory_checksum, spec_checksum
from argocd.agents.project_copies import project_at_principal
from argocd.agents.resync import UpdateRequest
from argocd.agents.vocabulary import PREFIX, Message, Mode, Target
from kube.embedded import EmbeddedStore
from kube.resources import APP_PROJECTS, APPLICATIONS, SECRETS
from kube.store import Object
from sidecars.mirroring.kinds import APPLICATION, PROJECT, SyncedKind
from sidecars.mirroring.resync_events import ResyncEvents
from sidecars.principal.principal import Principal
from sidecars.wire.auth.authenticator import Admission
from sidecars.wire.events import AGENT_SOURCE, Event, fresh_id, object_event
from tests.sidecars.pair_in_memory import (
    ARGOCD,
    PLAIN,
    Hub,
    application,
    change,
    pipes,
    project,
    running_agent,
)
from tests.sidecars.recorded_peer import in_background
from tests.sidecars.recorded_script import ScriptedPeer, said
from tests.sidecars.virtual_clock import runtime
from tests.simulation.virtual_time import run

AGENT = "agent-a"
INTERVAL = 600.0
ROUND = 3 * 1.25 * INTERVAL
"""Within this, at the latest, there was one."""
EVENTS = ResyncEvents(source=AGENT_SOURCE, new_id=fresh_id)


def repository() -> Object:
    return {
        "metadata": {"name": "repo", "labels": {names.SECRET_TYPE: "repository"}},
        "data": {"project": b64encode(b"web").decode(), "url": b64encode(b"https://git").decode()},
    }


class Told:
    """What the peer heard since the last look."""

    def __init__(self, peer: ScriptedPeer) -> None:
        self._peer = peer

    def take(self) -> list[Event]:
        taken, self._peer.heard[:] = list(self._peer.heard), []
        return taken

    def words(self) -> list[tuple[str, str]]:
        return sorted((each.message, each.subject) for each in map(said, self.take()))


@asynccontextmanager
async def to_principal(mode: Mode, prepare: Callable[[Hub], Any]) -> AsyncIterator[tuple[Hub, ScriptedPeer]]:
    hub = Hub(EmbeddedStore(namespaces=[ARGOCD, AGENT]), allowed_namespaces=(AGENT,))
    await hub.know(AGENT)
    await prepare(hub)
    async with hub.running(runtime()) as principal, scripted_agent(principal, mode) as peer:
        yield hub, peer


@asynccontextmanager
async def scripted_agent(principal: Principal, mode: Mode) -> AsyncIterator[ScriptedPeer]:
    here, there = pipes()
    peer = ScriptedPeer(there, source=AGENT_SOURCE)
    async with in_background(peer.run()), in_background(principal.serve(AGENT, mode, here, extensions=PLAIN)):
        await asyncio.sleep(10)
        yield peer


@asynccontextmanager
async def to_agent(mode: Mode, store: EmbeddedStore) -> AsyncIterator[ScriptedPeer]:
    async with running_agent(store, runtime=runtime(), mode=mode) as agent:
        here, there = pipes()
        peer = ScriptedPeer(there, source="")
        serving = agent.serve(here, name=AGENT, principal_namespace=ARGOCD, extensions=PLAIN)
        async with in_background(peer.run()), in_background(serving):
            await asyncio.sleep(10)
            yield peer


def request(kind: str, name: str, *, checksum: bytes | None = b"otherwise", uid: str = "u") -> Event:
    return EVENTS.update_request(UpdateRequest(kind, name, ARGOCD, uid, checksum))


def checksum_of(event: Event, kind: str) -> bytes:
    return spec_checksum({**json.loads(event.payload), "kind": kind})


def told_of(events: list[Event], target: str) -> Event:
    return next(event for event in events if event.target == target)


async def with_everything(hub: Hub) -> None:
    await hub.store.create(APP_PROJECTS, project(), namespace=ARGOCD)
    await hub.store.create(APPLICATIONS, application(), namespace=AGENT)
    await hub.store.create(SECRETS, repository(), namespace=ARGOCD)


def test_a_managed_agent_is_asked_and_gets_only_what_differs_or_is_missing() -> None:
    async def program() -> None:
        async with to_principal(Mode.MANAGED, with_everything) as (_, peer):
            told = Told(peer)
            first = told.take()
            assert len(first) == 4  # three objects, and the question
            await asyncio.sleep(ROUND)
            assert told.words() == [("request-resource-resync", "/")]
            # A project as it is at the agent, an Application that drifted, and one that is gone on the hub.
            same = checksum_of(told_of(first, "appproject"), "AppProject")
            await peer.say(request("AppProject", "web", checksum=same))
            await peer.say(request("Application", "shop"))
            await peer.say(request("Application", "old"))
            await asyncio.sleep(1)
            assert told.words() == [("delete", "argocd/old"), ("spec-update", "agent-a/shop")]
            # It did not ask about the repository: it does not have it.
            await asyncio.sleep(ROUND)
            assert told.words() == [("create", "argocd/repo"), ("request-resource-resync", "/")]

    run(program())


def test_a_drifted_or_orphaned_repository_is_repaired_too() -> None:
    async def program() -> None:
        async with to_principal(Mode.MANAGED, with_everything) as (_, peer):
            told = Told(peer)
            told.take()
            await peer.say(request("Repository", "repo"))
            await peer.say(request("Repository", "orphan"))
            await asyncio.sleep(1)
            assert told.words() == [("delete", "argocd/orphan"), ("spec-update", "argocd/repo")]

    run(program())


def test_an_agent_that_did_not_hear_the_question_is_not_told_everything() -> None:
    async def program() -> None:
        hub = Hub(EmbeddedStore(namespaces=[ARGOCD, AGENT]), allowed_namespaces=(AGENT,))
        await hub.know(AGENT)
        await with_everything(hub)
        async with hub.running(runtime()) as principal:
            async with scripted_agent(principal, Mode.MANAGED):
                pass
            await asyncio.sleep(3 * ROUND)  # nobody there to ask
            async with scripted_agent(principal, Mode.MANAGED) as peer:
                assert "create" not in {said(event).message for event in peer.heard}

    run(program())


def test_an_application_is_listed_where_its_agent_has_it() -> None:
    """argocd-agent's looks there, and would take what it does not find for missing."""

    async def program() -> None:
        async with to_principal(Mode.MANAGED, with_everything) as (hub, peer):
            told = Told(peer)
            told.take()
            for home in (AGENT, "argocd-agent"):
                await peer.say(EVENTS.list_request(b"another"))
                await asyncio.sleep(1)
                listed = {
                    one["kind"]: one["namespace"] for one in (json.loads(e.payload) for e in told.take())
                }
                assert listed == {"AppProject": ARGOCD, "Repository": ARGOCD, "Application": home}
                await hub.gate.admit(
                    Admission(
                        agent=AGENT,
                        mode=Mode.MANAGED,
                        version="0.9.0",
                        agent_namespace="argocd-agent",
                        address="",
                        fingerprint="",
                    )
                )

    run(program())


async def with_mirrors(hub: Hub) -> None:
    own = {**project(), "metadata": {"name": "web", "uid": "project-uid"}}
    mirror = project_at_principal(own, agent=AGENT, namespace=ARGOCD)
    mirror["metadata"]["annotations"] = {names.SOURCE_UID: "project-uid"}
    await hub.store.create(APP_PROJECTS, mirror, namespace=ARGOCD)
    shop = application(metadata={"annotations": {names.SOURCE_UID: "shop-uid"}})
    await hub.store.create(APPLICATIONS, shop, namespace=AGENT)


def test_an_autonomous_agent_is_asked_by_its_own_names_and_whole_where_it_was_silent() -> None:
    async def program() -> None:
        async with to_principal(Mode.AUTONOMOUS, with_mirrors) as (hub, peer):
            told = Told(peer)
            own = [
                ResourceKey("AppProject", "web", "project-uid"),
                ResourceKey("Application", "shop", "shop-uid"),
            ]
            for silent in (False, False, True):
                asked: dict[str, list[Any]] = {}
                for event in told.take():
                    asked.setdefault(event.type.removeprefix(PREFIX), []).append(json.loads(event.payload))
                (listed,) = asked[Message.REQUEST_SYNCED_RESOURCE_LIST.word]
                assert b64decode(listed["checksum"]) == inventory_checksum(own)
                checksums = {each["name"]: each["checksum"] for each in asked[Message.REQUEST_UPDATE.word]}
                assert set(checksums) == {"agent-a-web", "shop"}
                assert (checksums["shop"] is None) is silent
                assert checksums["agent-a-web"]
                await asyncio.sleep(ROUND)
            # One that told of it lately is asked with a checksum again.
            mirror = await hub.store.get(APPLICATIONS, name="shop", namespace=AGENT)
            metadata = {"name": "shop", "namespace": ARGOCD, "uid": "shop-uid"}
            status = {"health": {"status": "Healthy"}}
            own_app = {**mirror, "metadata": metadata, "status": status}
            told.take()
            await peer.say(
                object_event(Message.SPEC_UPDATE, target=Target.APPLICATION, obj=own_app, source=AGENT_SOURCE)
            )
            await asyncio.sleep(ROUND)
            asked_again = [json.loads(each.payload) for each in told.take() if b'"shop"' in each.payload]
            assert asked_again
            assert all(each["checksum"] for each in asked_again)

    run(program())


async def copied_at(store: EmbeddedStore, kind: SyncedKind, item: Object) -> Object:
    annotations = {names.SOURCE_UID: f"{item['metadata']['name']}-uid"}
    body = {**item, "metadata": {**item["metadata"], "annotations": annotations}}
    return await store.create(kind.resource, body, namespace=ARGOCD)


def test_a_managed_agent_asks_slowly_and_tells_the_status_that_no_checksum_shows() -> None:
    async def program() -> None:
        store = EmbeddedStore(namespaces=[ARGOCD])
        await copied_at(store, PROJECT, project())
        for number in range(20):
            await copied_at(store, APPLICATION, application(f"app-{number}"))
        async with to_agent(Mode.MANAGED, store) as peer:
            loop = asyncio.get_running_loop()
            told = Told(peer)
            told.take()
            end = loop.time() + 2 * ROUND
            asked: dict[str, list[float]] = {}
            statuses: Counter[str] = Counter()
            while loop.time() < end:
                await change(store, APPLICATIONS, "app-0", status={"at": loop.time()})
                await asyncio.sleep(60)
                for word in map(said, told.take()):
                    if word.message == Message.REQUEST_UPDATE.word:
                        asked.setdefault(word.subject, []).append(loop.time())
                    elif word.message == "status-update":
                        statuses[word.subject] += 1
            names_of = {f"app-{number}" for number in range(20)}
            assert set(asked) == {"AppProject/web", *(f"Application/{name}" for name in names_of)}
            # Spread over the interval, not in one breath.
            firsts = [moments[0] for moments in asked.values()]
            assert max(firsts) - min(firsts) > INTERVAL / 2
            assert set(statuses) == {f"argocd/{name}" for name in names_of}
            assert statuses["argocd/app-1"] <= 2
            assert statuses["argocd/app-0"] <= 2 * ROUND / 60 + 1  # as often as it changed

    run(program())


def test_a_managed_agents_inventory_can_match_that_of_argocd_agents_principal() -> None:
    """Which does not track projects by agent."""

    async def program() -> None:
        store = EmbeddedStore(namespaces=[ARGOCD])
        await copied_at(store, PROJECT, project())
        await copied_at(store, APPLICATION, application())
        async with to_agent(Mode.MANAGED, store) as peer:
            lists = [event for event in peer.heard if event.type == Message.REQUEST_SYNCED_RESOURCE_LIST]
            wanted = inventory_checksum([ResourceKey("Application", "shop", "shop-uid")])
            assert [b64decode(json.loads(each.payload)["checksum"]) for each in lists] == [wanted]

    run(program())


def test_an_autonomous_agent_has_itself_asked_and_tells_what_is_missing() -> None:
    async def program() -> None:
        store = EmbeddedStore(namespaces=[ARGOCD])
        await store.create(APP_PROJECTS, project(), namespace=ARGOCD)
        await store.create(APPLICATIONS, application(), namespace=ARGOCD)
        async with to_agent(Mode.AUTONOMOUS, store) as peer:
            told = Told(peer)
            told.take()
            await asyncio.sleep(ROUND)
            words = told.words()
            assert ("request-resource-resync", "/") in words
            assert ("create", "argocd/web") not in words
            await peer.say(request("Application", "shop", checksum=b"otherwise"))
            await asyncio.sleep(1)
            assert ("spec-update", "argocd/shop") in told.words()
            # The principal never asked about the project: it has no mirror of it.
            words = []
            while ("request-resource-resync", "/") not in words:
                await asyncio.sleep(10)
                words += told.words()
            assert ("create", "argocd/web") in words
            assert ("create", "argocd/shop") not in words

    run(program())


def test_an_autonomous_agents_inventory_matches_by_either_name() -> None:
    async def program() -> None:
        store = EmbeddedStore(namespaces=[ARGOCD])
        uid = (await store.create(APP_PROJECTS, project(), namespace=ARGOCD))["metadata"]["uid"]
        async with to_agent(Mode.AUTONOMOUS, store) as peer:
            told = Told(peer)
            told.take()
            for name in ("web", "agent-a-web"):
                key = ResourceKey("AppProject", name, uid)
                await peer.say(EVENTS.list_request(inventory_checksum([key])))
            assert told.words() == []
            await peer.say(EVENTS.list_request(b"another"))
            await asyncio.sleep(1)
            assert told.words() == [("response-synced-resource", "AppProject/agent-a-web")]

    run(program())
