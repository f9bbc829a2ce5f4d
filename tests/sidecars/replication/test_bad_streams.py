"""A primary whose stream is cut, changed, doubled, out of order or simply wrong."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import orjson
import pytest

from argocd import names
from argocd.agents.replication import replicated_copy
from kube import queries
from kube.embedded import EmbeddedStore
from kube.resources import APPLICATIONS, SECRETS
from sidecars.replication.kinds import APPLICATION, REPOSITORY, ObjectKey, ReplicatedKind
from sidecars.replication.messages import (
    Absences,
    PrimaryMessage,
    PrimaryWord,
    ReplicaMessage,
    ReplicaStart,
    ReplicatedItem,
    RunningHash,
    SnapshotEnd,
    checksum,
    encode,
    encode_items,
)
from sidecars.replication.standby.follower import Follower
from sidecars.replication.states import HaState
from tests.sidecars.replication.hubs import (
    ARGOCD,
    Hub,
    ScriptedController,
    application,
    create,
    embedded,
    figure,
    until,
)


class ScriptedPrimary:
    """Says what it is told to; each connection begins with the next script."""

    def __init__(self, *scripts: Iterable[PrimaryMessage]) -> None:
        self._scripts = list(scripts)
        self.history = "h1"
        self.answers: list[ReplicaMessage] = []
        self.starts: list[ReplicaStart] = []

    @asynccontextmanager
    async def connect(self, start: ReplicaStart) -> AsyncIterator["ScriptedPrimary"]:
        self.starts.append(start)
        self._left = list(self._scripts.pop(0)) if self._scripts else []
        yield self

    async def send(self, message: ReplicaMessage) -> None:
        self.answers.append(message)

    async def receive(self) -> PrimaryMessage | None:
        if self._left:
            return self._left.pop(0)
        await asyncio.Event().wait()
        return None

    @property
    def acknowledged(self) -> int:
        return max((answer.acknowledged for answer in self.answers), default=0)


def said(*words: tuple[PrimaryWord, int, bytes], complete: int = 0) -> list[PrimaryMessage]:
    return [
        PrimaryMessage(
            word=word,
            number=number,
            sequence=sequence,
            complete=complete if number == len(words) else 0,
            payload=payload,
            checksum=checksum(payload),
        )
        for number, (word, sequence, payload) in enumerate(words, start=1)
    ]


def item(name: str, sequence: int, *, revision: str = "v1", gone: bool = False) -> ReplicatedItem:
    body = application(name, revision=revision)
    body["metadata"].update({"namespace": "agent-a", "uid": f"uid-{name}"})
    key = ObjectKey(APPLICATION.name, "agent-a", name)
    return ReplicatedItem(key, sequence, None if gone else orjson.dumps(replicated_copy(body)))


def objects(*items: ReplicatedItem) -> bytes:
    return encode_items(items)


def end_of(*items: ReplicatedItem, **changes: Any) -> bytes:
    running = RunningHash()
    for each in items:
        running.add(each)
    return encode(
        replace(SnapshotEnd(kind=APPLICATION.name, count=running.count, hash=running.text), **changes)
    )


BEHIND = (PrimaryWord.BEHIND, 0, b"")
SYNCED = (PrimaryWord.SYNCED, 0, b"")


@asynccontextmanager
async def following(store: EmbeddedStore, primary: ScriptedPrimary) -> AsyncIterator[Follower]:
    async with Hub(store).running() as hub:
        controller = ScriptedController("two", HaState.SYNCING)
        follower = Follower(
            store, hub.objects, controller=controller, connect=primary.connect, timing=hub.timing
        )
        await follower.load()
        await follower.start()
        try:
            yield follower
        finally:
            await follower.stop()


async def names_in(store: EmbeddedStore) -> dict[str, str]:
    page = await store.list(APPLICATIONS)
    return {each["metadata"]["name"]: each["spec"]["source"]["targetRevision"] for each in page.items}


@pytest.mark.parametrize(
    "spoiled",
    [
        [
            replace(each, payload=each.payload.replace(b"v1", b"v9"))
            for each in said((PrimaryWord.OBJECTS, 0, objects(item("a", 0))))
        ],
        [replace(each, number=2) for each in said((PrimaryWord.OBJECTS, 0, objects(item("a", 0))))],
        [replace(each, number=0) for each in said((PrimaryWord.OBJECTS, 0, objects(item("a", 0))))],
        said((PrimaryWord.OBJECTS, 0, objects(item("a", 0))[:-20])),
        said((PrimaryWord.ENTRIES, 1, b'[["applications","agent-a","",1,{}]]')),
        said((PrimaryWord.ENTRIES, 1, b'[["secrets","argocd","argocd-secret",1,{}]]')),
        said((PrimaryWord.ENTRIES, 1, b"\xff\xfe")),
        said((PrimaryWord.ABSENT, 1, b"{}")),
        said((PrimaryWord.QUESTION, 1, b'{"scope":"secrets","round":"1","number":0,"marks":{}}')),
    ],
    ids=[
        "changed",
        "missing before",
        "doubled",
        "cut",
        "no name",
        "no kind",
        "no text",
        "no absence",
        "no scope",
    ],
)
async def test_a_message_that_is_not_as_it_was_sent_ends_the_stream_and_changes_nothing(spoiled: Any) -> None:
    store = embedded()
    await create(store, APPLICATIONS, application("mine"), namespace="agent-a")
    primary = ScriptedPrimary(spoiled)
    async with following(store, primary) as follower:
        await until(lambda: follower.progress().problem not in {"", "not started"})
        await until(lambda: len(primary.starts) == 2)
        assert await names_in(store) == {"mine": "HEAD"}
        assert follower.progress().synced_once is False


@pytest.mark.parametrize(
    "changes", [{"count": 3}, {"count": 1}, {"hash": "0" * 32}], ids=["too few", "too many", "another hash"]
)
async def test_a_snapshot_with_another_count_or_hash_counts_for_nothing_and_deletes_nothing(
    changes: dict[str, Any],
) -> None:
    store = embedded()
    await create(store, APPLICATIONS, application("mine"), namespace="agent-a")
    two = (item("a", 0), item("b", 0))
    script = said(
        BEHIND,
        (PrimaryWord.OBJECTS, 0, objects(*two)),
        (PrimaryWord.COMPLETE, 0, end_of(*two, **changes)),
        (
            PrimaryWord.ABSENT,
            0,
            encode(Absences(kind=APPLICATION.name, total=1, present=2, names=["agent-a/mine"])),
        ),
        SYNCED,
    )
    primary = ScriptedPrimary(script)
    async with following(store, primary) as follower:
        await until(lambda: len(primary.starts) == 2)
        assert "mine" in await names_in(store)
        assert not follower.progress().synced_once
        assert primary.acknowledged == 0


async def test_gaps_and_wrong_snapshots_are_counted() -> None:
    counters = (
        "argocd_agent_replication_client_sequence_gaps_total",
        "argocd_agent_replication_client_snapshot_fetch_errors_total",
    )
    before = [figure(counter) for counter in counters]
    one = item("a", 0)
    gap = [replace(each, number=2) for each in said((PrimaryWord.OBJECTS, 0, objects(one)))]
    wrong = said(
        BEHIND, (PrimaryWord.OBJECTS, 0, objects(one)), (PrimaryWord.COMPLETE, 0, end_of(one, count=2))
    )
    primary = ScriptedPrimary(gap, wrong)
    async with following(embedded(), primary):
        await until(lambda: len(primary.starts) == 3)
        assert [figure(counter) for counter in counters] == [count + 1 for count in before]


async def test_a_snapshot_cut_in_the_middle_keeps_what_was_and_what_came_and_deletes_nothing() -> None:
    store = embedded()
    await create(store, APPLICATIONS, application("mine"), namespace="agent-a")
    primary = ScriptedPrimary(said(BEHIND, (PrimaryWord.OBJECTS, 0, objects(item("a", 0)))))
    async with following(store, primary) as follower:
        await until(lambda: follower.progress().connected and primary.answers[-1].taken > 0)
        await follower.stop()
        assert await names_in(store) == {"mine": "HEAD", "a": "v1"}
        assert not follower.progress().synced_once
        assert primary.starts[0].history == ""


async def test_what_is_older_never_goes_over_what_is_newer() -> None:
    store = embedded()
    newer = (PrimaryWord.ENTRIES, 5, objects(item("a", 4, revision="v4"), item("gone", 5, gone=True)))
    older = (item("a", 3, revision="v3"), item("gone", 3, revision="v3"), item("b", 3))
    script = said(
        BEHIND,
        newer,
        (PrimaryWord.OBJECTS, 3, objects(*older)),
        (PrimaryWord.COMPLETE, 3, end_of(*older)),
        SYNCED,
        complete=5,
    )
    primary = ScriptedPrimary(script)
    async with following(store, primary):
        await until(lambda: primary.acknowledged == 5)
        assert await names_in(store) == {"a": "v4", "b": "v1"}


async def test_a_primary_can_neither_write_nor_delete_what_is_no_replicated_object() -> None:
    store = embedded()
    secret = {"metadata": {"name": "argocd-secret"}, "stringData": {"key": "of the hub"}}
    await create(store, SECRETS, secret)
    await create(store, APPLICATIONS, application("own"))  # of the hub's Argo CD, and of no agent

    def repository(
        kind: ReplicatedKind, name: str, *, namespace: str = ARGOCD, gone: bool = False
    ) -> ReplicatedItem:
        metadata = {"name": name, "namespace": namespace, "labels": {names.SECRET_TYPE: "repository"}}
        body = None if gone else orjson.dumps({"metadata": metadata, "data": {"key": "eA=="}})
        return ReplicatedItem(ObjectKey(kind.name, namespace, name), 1, body)

    script = said(
        BEHIND,
        (PrimaryWord.ENTRIES, 1, objects(repository(REPOSITORY, "argocd-secret"))),
        (PrimaryWord.ENTRIES, 2, objects(repository(REPOSITORY, "elsewhere", namespace="kube-system"))),
        (PrimaryWord.ENTRIES, 3, objects(repository(REPOSITORY, "argocd-secret", gone=True))),
        (
            PrimaryWord.ENTRIES,
            4,
            objects(ReplicatedItem(ObjectKey(APPLICATION.name, ARGOCD, "own"), 4, None)),
        ),
        SYNCED,
        complete=4,
    )
    primary = ScriptedPrimary(script)
    async with following(store, primary) as follower:
        await until(lambda: primary.acknowledged == 4)
        assert "own" in await names_in(store)
        kept = await store.get(SECRETS, name="argocd-secret", namespace=ARGOCD)
        assert kept["data"] != {"key": "eA=="}
        assert await queries.find(store, SECRETS, name="elsewhere", namespace="kube-system") is None
        reasons = {letter.name: letter.reason for letter in follower.progress().dead_letters}
        assert set(reasons) == {"argocd-secret", "elsewhere", "own"}
