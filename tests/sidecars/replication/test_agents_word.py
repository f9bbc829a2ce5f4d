"""An agent that has obeyed the other principal of a pair makes this one ask it at once; its word proves nothing."""

import asyncio
from dataclasses import replace

import pytest

from argocd import names
from argocd.reading import value
from kube.embedded import EmbeddedStore
from kube.resources import APPLICATIONS, SECRETS
from kube.store import PatchKind
from sidecars.replication.control import controller
from sidecars.replication.control.observer import PairObserver
from sidecars.replication.control.start import PeerView
from tests.sidecars import processes
from tests.sidecars.pair_in_memory import ARGOCD, application, until
from tests.sidecars.processes import PATIENCE
from tests.sidecars.replication.hubs import figure
from tests.sidecars.replication.paired_principals import FencedStore, Region, regions
from tests.sidecars.wire.listening_principal import until as eventually

AGENT = "agent-a"
CLUSTER = {
    "metadata": {
        "name": f"cluster-{AGENT}",
        "labels": {names.SECRET_TYPE: names.SECRET_TYPE_CLUSTER, names.AGENT_NAME: AGENT},
    },
    "stringData": {"name": AGENT, "server": "https://a.example.org", "config": "{}"},
}


class Questions:
    """How often each principal has asked its peer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._asked: dict[PairObserver, int] = {}
        asking = PairObserver.ask

        async def ask(observer: PairObserver) -> PeerView | None:
            self._asked[observer] = self._asked.get(observer, 0) + 1
            return await asking(observer)

        monkeypatch.setattr(PairObserver, "ask", ask)

    def of(self, region: Region) -> int:
        return self._asked[region.controller]


async def test_an_agents_word_on_the_peer_is_a_reason_to_ask_it_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(controller, "ASK_INTERVAL_SECONDS", 3600.0)
    a, b, workload = FencedStore(), FencedStore(), EmbeddedStore(namespaces=[ARGOCD])
    questions = Questions(monkeypatch)
    async with regions(a, b) as (one, two):
        await one.start()
        await two.start()
        await one.until("active")
        await two.until("replicating")
        await a.create(SECRETS, CLUSTER, namespace=ARGOCD)
        async with processes.connected_agent(workload, one.pki, name=AGENT, port=one.port):
            await a.create(APPLICATIONS, application("shop"), namespace=AGENT)
            await until(workload, APPLICATIONS, lambda there: "shop" in there)
            async with asyncio.timeout(PATIENCE):
                while one.controller.role.held_record().peer == "":
                    await one.controller.ask()
                    await asyncio.sleep(0.01)

            async def says(principal: str, status: str) -> None:
                patch = {
                    "metadata": {"annotations": {names.PRINCIPAL_UID: principal}},
                    "status": {"sync": {"status": status}},
                }
                await workload.patch(APPLICATIONS, patch, name="shop", namespace=ARGOCD, kind=PatchKind.MERGE)
                await until(
                    a,
                    APPLICATIONS,
                    lambda there: value(there, "shop", "status", "sync", "status") == status,
                    namespace=AGENT,
                )

            peer = two.controller.role.facts.principal
            before = questions.of(one)
            await says("a stranger", "OutOfSync")
            assert questions.of(one) == before
            await says(peer, "Synced")
            await eventually(lambda: questions.of(one) > before)
            assert one.state == "active"  # nothing else has come of it
            # Said again and again it is no reason to ask before a second has passed.
            observer = one.controller
            later = observer.timing.monotonic() + 10
            seconds = [later]
            observer.timing = replace(observer.timing, monotonic=lambda: seconds[0])

            def is_asked() -> bool:
                """Without a pause: nobody else runs in between."""
                observer.peer_due.clear()
                observer.heard_of(peer)
                return observer.peer_due.is_set()

            told = []
            for passed in (0.0, 0.0, 0.5, 0.9, 1.1, 2.0, 2.2):
                seconds[0] = later + passed
                told.append(is_asked())
            assert told == [True, False, False, False, True, False, True]
            # Where the peer does not answer, this one serves on and says so. The last word is asked about before.
            await observer.ask()
            await two.stop()
            unanswered = figure("tiphys_replication_unanswered_words_total")
            await observer.ask()
            assert figure("tiphys_replication_unanswered_words_total") == unanswered
            seconds[0] = later + 10
            observer.heard_of(peer)
            await observer.ask()
            await observer.ask()
            assert figure("tiphys_replication_unanswered_words_total") == unanswered + 1
            assert one.state == "active"
