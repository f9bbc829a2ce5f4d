"""What only the embedded store has: hooks, compaction on demand, repeatable chance, bounds."""

import asyncio
import random
from contextlib import AsyncExitStack, aclosing
from datetime import UTC, datetime

import pytest

from kube.embedded import (
    ADMIN,
    AdmissionOperation,
    AdmissionRequest,
    Admitted,
    Call,
    EmbeddedStore,
    Hooks,
    Phase,
)
from kube.embedded.watches import RecordedChange, Selection
from kube.errors import ConflictError, ForbiddenError, GoneError, NotFoundError, UnavailableError
from kube.resources import (
    APP_PROJECTS,
    APPLICATIONS,
    CONFIG_MAPS,
    NAMESPACES,
    SECRETS,
    SUBJECT_ACCESS_REVIEWS,
)
from kube.store import Identity, Object, PatchKind, WatchEventKind
from tests.kube.objects import application, config_map, project, watching

HOME = "default"


async def test_callers_cannot_reach_into_the_store() -> None:
    store = EmbeddedStore()
    body = config_map("a", namespace=HOME, x="1")
    created = await store.create(CONFIG_MAPS, body)
    body["data"]["x"] = created["data"]["x"] = "2"
    page = await store.list(CONFIG_MAPS, namespace=HOME)
    page.items[0]["data"]["x"] = "3"
    read = await store.get(CONFIG_MAPS, name="a", namespace=HOME)
    assert read["data"] == {"x": "1"}


async def test_watchers_cannot_reach_into_each_others_events() -> None:
    store = EmbeddedStore()
    async with watching(store, namespace=HOME) as one, watching(store, namespace=HOME) as two:
        await store.create(CONFIG_MAPS, config_map("a", namespace=HOME, x="1"))
        (await one.event()).object["data"]["x"] = "2"
        assert (await two.event()).object["data"] == {"x": "1"}


async def test_a_watch_from_before_a_compaction_is_gone() -> None:
    store = EmbeddedStore()
    first = await store.create(CONFIG_MAPS, config_map("a", namespace=HOME))
    await store.create(CONFIG_MAPS, config_map("b", namespace=HOME))
    store.compact()
    with pytest.raises(GoneError, match="too old resource version"):
        await anext(store.watch(CONFIG_MAPS, resource_version=first["metadata"]["resourceVersion"]))
    async with watching(store, resource_version=store.resource_version) as watch:
        await store.create(CONFIG_MAPS, config_map("c", namespace=HOME))
        assert await watch.next() == ("ADDED", "c")


async def test_a_watch_that_runs_does_not_mind_a_compaction() -> None:
    store = EmbeddedStore()
    async with watching(store, namespace=HOME) as watch:
        await store.create(CONFIG_MAPS, config_map("a", namespace=HOME))
        store.compact()
        await store.create(CONFIG_MAPS, config_map("b", namespace=HOME))
        assert [await watch.next(), await watch.next()] == [("ADDED", "a"), ("ADDED", "b")]


async def test_a_continue_token_from_before_a_compaction_is_gone() -> None:
    store = EmbeddedStore()
    for name in ("a", "b"):
        await store.create(CONFIG_MAPS, config_map(name, namespace=HOME))
    page = await store.list(CONFIG_MAPS, limit=1)
    store.compact()
    with pytest.raises(GoneError):
        await store.list(CONFIG_MAPS, limit=1, continue_token=page.continue_token)


async def test_a_short_history_forgets() -> None:
    store = EmbeddedStore(history=2)
    version = store.resource_version
    for name in ("a", "b", "c"):
        await store.create(CONFIG_MAPS, config_map(name, namespace=HOME))
    with pytest.raises(GoneError):
        await anext(store.watch(CONFIG_MAPS, resource_version=version))


async def test_a_version_from_the_future_is_refused() -> None:
    with pytest.raises(UnavailableError, match="Too large resource version"):
        await anext(EmbeddedStore().watch(CONFIG_MAPS, resource_version="1000"))


async def test_bookmarks_come_with_time_and_on_demand() -> None:
    store = EmbeddedStore(bookmark_every=0.01)
    async with aclosing(store.watch(APPLICATIONS, resource_version=store.resource_version)) as events:
        bookmark = await anext(events)
        assert bookmark.kind is WatchEventKind.BOOKMARK
        assert bookmark.object["metadata"]["resourceVersion"] == store.resource_version


async def test_a_watch_that_is_left_is_forgotten() -> None:
    store = EmbeddedStore()
    async with watching(store, APPLICATIONS):
        assert len(store._history.collection(APPLICATIONS).watchers.all()) == 1
    assert store._history.collection(APPLICATIONS).watchers.all() == []


async def test_a_watch_whose_reader_is_too_slow_ends_after_what_it_could_hold() -> None:
    store = EmbeddedStore(watch_backlog=2)

    async def read() -> list[str]:
        events = store.watch(CONFIG_MAPS, resource_version=store.resource_version)
        return [event.object["metadata"]["name"] async for event in events]

    reading = asyncio.create_task(read())
    await asyncio.sleep(0)
    for name in ("a", "b", "c", "d"):
        await store.create(CONFIG_MAPS, config_map(name, namespace=HOME))
    assert await reading == ["a", "b"]


async def test_closing_the_store_ends_its_watches() -> None:
    store = EmbeddedStore()
    events = store.watch(CONFIG_MAPS, resource_version=store.resource_version)
    waiting = asyncio.create_task(anext(events))
    await asyncio.sleep(0)
    await store.close()
    with pytest.raises(StopAsyncIteration):
        await waiting


async def test_time_and_chance_can_be_given() -> None:
    def make() -> EmbeddedStore:
        return EmbeddedStore(clock=lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), random=random.Random(7))

    body = {"metadata": {"generateName": "a-", "namespace": HOME}}
    one, two = [await make().create(CONFIG_MAPS, body) for _ in range(2)]
    assert one == two
    assert one["metadata"]["creationTimestamp"] == "2026-01-02T03:04:05Z"


class Guard:
    """An admission hook that notes what it is asked."""

    def __init__(self, answer: Admitted | Exception | None = None) -> None:
        self.requests: list[AdmissionRequest] = []
        self.answer = answer

    async def __call__(self, request: AdmissionRequest) -> Admitted:
        self.requests.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer or Admitted()


async def test_admission_sees_every_write_with_its_user() -> None:
    guard = Guard()
    store = EmbeddedStore(hooks=Hooks(admission=guard))
    eve = store.as_user(Identity("eve", ("dev",)))
    await eve.create(APP_PROJECTS, project("a", namespace=HOME))
    patch = {"spec": {"description": "x"}}
    await store.patch(APP_PROJECTS, patch, name="a", namespace=HOME, kind=PatchKind.MERGE, dry_run=True)
    await eve.delete(APP_PROJECTS, name="a", namespace=HOME)
    operations = [(request.operation, request.user.user, request.dry_run) for request in guard.requests]
    assert operations == [
        (AdmissionOperation.CREATE, "eve", False),
        (AdmissionOperation.UPDATE, ADMIN.user, True),
        (AdmissionOperation.DELETE, "eve", False),
    ]
    create, update, delete = guard.requests
    assert create.old is None
    assert create.new is not None
    assert create.new["metadata"]["uid"]
    assert update.old is not None
    assert update.new is not None
    assert (update.old["spec"], update.new["spec"]) == ({}, {"description": "x"})
    assert delete.new is None
    assert (delete.namespace, delete.name) == (HOME, "a")


async def test_admission_may_refuse() -> None:
    store = EmbeddedStore(hooks=Hooks(admission=Guard(ForbiddenError("denied: no"))))
    with pytest.raises(ForbiddenError, match="denied: no"):
        await store.create(CONFIG_MAPS, config_map("a", namespace=HOME))
    assert (await store.list(CONFIG_MAPS)).items == []


async def test_admission_may_change_the_object_but_not_who_it_is() -> None:
    async def label(request: AdmissionRequest) -> Admitted:
        assert request.new is not None
        request.new["metadata"] |= {"labels": {"by": "admission"}, "name": "other", "uid": "other"}
        return Admitted(request.new, warnings=("careful",))

    warnings: list[str] = []
    store = EmbeddedStore(hooks=Hooks(admission=label, on_warning=warnings.append))
    created = await store.create(CONFIG_MAPS, config_map("a", namespace=HOME))
    assert created["metadata"]["name"] == "a"
    assert created["metadata"]["uid"] != "other"
    assert created["metadata"]["labels"] == {"by": "admission"}
    assert warnings == ["careful"]
    selected = await store.list(CONFIG_MAPS, label_selector="by=admission")
    assert len(selected.items) == 1


async def test_a_patch_that_meets_another_write_during_admission_is_made_again() -> None:
    store = EmbeddedStore()
    await store.create(CONFIG_MAPS, config_map("a", namespace=HOME))
    asked = 0

    async def interfere(request: AdmissionRequest) -> Admitted:
        nonlocal asked
        asked += 1
        if asked == 1:
            await store.replace(CONFIG_MAPS, config_map("a", namespace=HOME, other="1"))
        return Admitted()

    store.hooks.admission = interfere
    patch = {"data": {"mine": "1"}}
    patched = await store.patch(CONFIG_MAPS, patch, name="a", namespace=HOME, kind=PatchKind.MERGE)
    assert patched["data"] == {"mine": "1", "other": "1"}


async def test_a_replacement_that_meets_another_write_during_admission_conflicts() -> None:
    store = EmbeddedStore()
    created = await store.create(CONFIG_MAPS, config_map("a", namespace=HOME))
    interfered = False

    async def interfere(request: AdmissionRequest) -> Admitted:
        nonlocal interfered
        if not interfered:
            interfered = True
            await store.replace(CONFIG_MAPS, config_map("a", namespace=HOME, other="1"))
        return Admitted()

    store.hooks.admission = interfere
    with pytest.raises(ConflictError):
        await store.replace(CONFIG_MAPS, {**created, "data": {"mine": "1"}})


async def test_faults_strike_before_or_after_a_write() -> None:
    store = EmbeddedStore()
    phase = Phase.BEFORE

    async def strike(call: Call) -> None:
        if (call.verb, call.phase) == ("create", phase):
            raise UnavailableError("gone away", outcome_unknown=phase is Phase.AFTER)

    store.hooks.faults = strike
    with pytest.raises(UnavailableError):
        await store.create(CONFIG_MAPS, config_map("a", namespace=HOME))
    phase = Phase.AFTER
    with pytest.raises(UnavailableError):
        await store.create(CONFIG_MAPS, config_map("b", namespace=HOME))
    names = [item["metadata"]["name"] for item in (await store.list(CONFIG_MAPS)).items]
    assert names == ["b"]


async def test_a_deleted_namespace_takes_its_objects_with_it() -> None:
    store = EmbeddedStore(namespaces=["team"])
    held = application("held", namespace="team")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await store.create(APPLICATIONS, held)
    await store.create(CONFIG_MAPS, config_map("a", namespace="team"))
    await store.delete(NAMESPACES, name="team")
    assert (await store.list(CONFIG_MAPS)).items == []
    assert (await store.get(NAMESPACES, name="team"))["status"]["phase"] == "Terminating"
    with pytest.raises(ForbiddenError, match="terminat"):
        await store.create(CONFIG_MAPS, config_map("b", namespace="team"))
    patch = {"metadata": {"finalizers": None}}
    await store.patch(APPLICATIONS, patch, name="held", namespace="team", kind=PatchKind.MERGE)
    with pytest.raises(NotFoundError):
        await store.get(NAMESPACES, name="team")


async def test_access_reviews_are_answered_by_a_hook_and_denied_without() -> None:
    store = EmbeddedStore()
    body: Object = {"spec": {"user": "eve"}}
    assert (await store.create(SUBJECT_ACCESS_REVIEWS, body))["status"] == {"allowed": False}
    store.hooks.access = lambda spec: spec["user"] == "eve"
    assert (await store.create(SUBJECT_ACCESS_REVIEWS, body))["status"] == {"allowed": True}


async def test_a_failed_patch_of_a_secret_quotes_no_secret() -> None:
    store = EmbeddedStore()
    secret = {"metadata": {"name": "a", "namespace": HOME}, "stringData": {"token": "hush"}}
    await store.create(SECRETS, secret)
    for patch in (
        [{"op": "remove", "path": "/data/other"}],
        [{"op": "remove", "path": "/data/token/deeper"}],
        [{"op": "test", "path": "/data/token", "value": "wrong"}],
    ):
        with pytest.raises(Exception, match="JSON patch") as caught:
            await store.patch(SECRETS, patch, name="a", namespace=HOME, kind=PatchKind.JSON)
        assert "aHVzaA" not in repr(caught.value)
        assert caught.value.__cause__ is None


async def test_a_write_asks_only_watchers_that_may_care(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Selection] = []
    judge = Selection.seen

    def note(selection: Selection, change: RecordedChange) -> tuple[WatchEventKind, bytes] | None:
        asked.append(selection)
        return judge(selection, change)

    monkeypatch.setattr(Selection, "seen", note)
    store = EmbeddedStore()
    async with AsyncExitStack() as stack:
        for number in range(100):
            for watch in (
                watching(store, namespace=f"n{number}"),
                watching(store, label_selector=f"agent=a{number}"),
                watching(store, field_selector=f"metadata.name=c{number}"),
            ):
                await stack.enter_async_context(watch)
        body = config_map("c7", namespace=HOME)
        body["metadata"]["labels"] = {"agent": "a8"}
        await store.create(CONFIG_MAPS, body)
    assert len(asked) == 2
