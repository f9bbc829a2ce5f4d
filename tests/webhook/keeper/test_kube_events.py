"""Events: off for denials unless asked for, and never more than a few."""

import asyncio

from kube.embedded import EmbeddedStore
from kube.resources import EVENTS
from kube.store import Object
from webhook.keeper.kube_events import BURST, PER_SECOND, EventRecorder
from webhook.keeper.worker_reports import Denial, Reports

DENIAL = Denial("2027-01-01T00:00:00Z", "AppProject", "argocd", "web", "jason", [("project/policy", "spec")])


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def events(announcer: EventRecorder, store: EmbeddedStore, namespace: str = "argocd") -> list[Object]:
    task = asyncio.create_task(announcer.run())
    async with asyncio.timeout(30):
        await announcer._waiting.join()
    task.cancel()
    return (await store.list(EVENTS, namespace=namespace)).items


def announcer(store: EmbeddedStore, *, denials: bool = True, clock: Clock | None = None) -> EventRecorder:
    return EventRecorder(store, home="tiphys-system", denials=denials, clock=clock or Clock())


async def test_denials_are_events_only_where_somebody_asked_for_them() -> None:
    store = EmbeddedStore(namespaces=["argocd"])
    for denials, count in ((False, 0), (True, 1)):
        told = announcer(store, denials=denials)
        told.denied(DENIAL)
        assert len(found := await events(told, store)) == count
    assert found[0]["involvedObject"]["name"] == "web"
    assert found[0]["message"] == "refused to jason: project/policy"


async def test_a_flood_of_denials_becomes_a_few_events() -> None:
    store, clock = EmbeddedStore(namespaces=["argocd"]), Clock()
    told = announcer(store, clock=clock)
    for _ in range(1000):
        told.denied(DENIAL)
    assert len(await events(told, store)) == BURST
    clock.now += 1 / PER_SECOND
    told.denied(DENIAL)
    told.denied(DENIAL)
    assert len(await events(told, store)) == BURST + 1


async def test_a_broken_configuration_is_always_told_and_a_missing_namespace_hurts_nobody() -> None:
    store = EmbeddedStore(namespaces=["tiphys-system"])
    told = announcer(store, denials=False)
    told.troubled("configuration", "enforcement: is not known")
    told.troubled("configuration", "")
    told.troubled("templates", "something else")
    [found] = await events(told, store, "tiphys-system")
    assert (found["reason"], found["involvedObject"]["kind"]) == ("BrokenConfiguration", "ConfigMap")
    lost = announcer(store)
    lost.denied(DENIAL)
    assert await events(lost, store, "tiphys-system") == [found]


def test_reports_pass_denials_on() -> None:
    heard: list[Denial] = []
    reports = Reports(denied=heard.append)
    reports.take(
        b'{"worker": 1, "denial": {"time": "t", "kind": "AppProject", "namespace": "argocd", "name": "web",'
        b' "user": "jason", "findings": []}}'
    )
    reports.take(b'{"worker": 1, "denial": {"surprise": 1}}')
    assert [denial.name for denial in heard] == ["web"]
