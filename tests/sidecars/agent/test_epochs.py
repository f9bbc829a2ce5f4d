"""An agent's memory of epochs: a principal that was deposed is not obeyed."""

import pytest
import structlog

from argocd import names
from kube.embedded import EmbeddedStore
from kube.errors import ForbiddenError
from kube.resources import CONFIG_MAPS
from kube.store import Resource
from sidecars.agent.epochs import PAIRS, EpochMemory
from sidecars.wire import capabilities
from sidecars.wire.capabilities import Capabilities, grouped
from sidecars.wire.client.dialer import DialError

ARGOCD = "argocd"


def announced(epoch: int, pair: str = "pair-1") -> Capabilities:
    told = Capabilities(frozenset({capabilities.EPOCH}), epoch=epoch, pair=pair)
    return Capabilities.of(grouped(told.metadata()))


async def kept(store: EmbeddedStore) -> dict[str, str]:
    held = await store.get(CONFIG_MAPS, name=names.AGENT_EPOCHS, namespace=ARGOCD)
    return dict(held["data"])


async def test_a_higher_epoch_is_kept_and_a_lower_one_refused_also_after_a_restart() -> None:
    store = EmbeddedStore(namespaces=[ARGOCD])
    for epoch in (1, 4, 4):
        await EpochMemory(store, namespace=ARGOCD).admit(announced(epoch))
    assert await kept(store) == {"pair-1": "4"}
    with pytest.raises(DialError, match="has obeyed epoch 4 of its pair") as caught:
        await EpochMemory(store, namespace=ARGOCD).admit(announced(3))
    assert caught.value.hopeless
    assert "tiphys agents forget-epoch" in str(caught.value)
    assert await kept(store) == {"pair-1": "4"}


async def test_another_pair_or_none_is_accepted_with_a_warning_by_who_knows_one() -> None:
    store = EmbeddedStore(namespaces=[ARGOCD])
    memory = EpochMemory(store, namespace=ARGOCD)
    with structlog.testing.capture_logs() as said:
        await memory.admit(Capabilities())
        await memory.admit(announced(9))
    assert said == []
    with structlog.testing.capture_logs() as said:
        await memory.admit(announced(1, "pair-2"))
        await memory.admit(Capabilities())
    assert [line["event"] for line in said] == [
        "a principal of another pair is obeyed",
        "a principal of no pair is obeyed",
    ]
    assert await kept(store) == {"pair-1": "9", "pair-2": "1"}


async def test_principals_that_make_up_pairs_fill_no_cluster() -> None:
    store = EmbeddedStore(namespaces=[ARGOCD])
    for number in range(PAIRS + 10):
        await EpochMemory(store, namespace=ARGOCD).admit(announced(1, f"pair-{number}"))
    assert len(await kept(store)) == PAIRS


async def test_whoever_cannot_remember_obeys_nobody_of_a_pair() -> None:
    class Forgetful(EmbeddedStore):
        async def get(self, resource: Resource, **more: str | None) -> dict[str, str]:
            raise ForbiddenError("configmaps is forbidden")

    memory = EpochMemory(Forgetful(namespaces=[ARGOCD]), namespace=ARGOCD)
    await memory.admit(Capabilities())
    with pytest.raises(DialError, match="cannot be kept"):
        await memory.admit(announced(1))
