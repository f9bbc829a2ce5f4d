"""Every change of role is a Kubernetes Event at the record, and so is what an operator lets happen."""

from dataclasses import replace

import pytest

from argocd import names
from kube.embedded import EmbeddedStore
from kube.resources import EVENTS
from sidecars.replication.control import fence
from tests.sidecars.pair_in_memory import ARGOCD
from tests.sidecars.replication.paired_principals import (
    JO,
    FencedStore,
    deleted_meanwhile,
    following,
    regions,
)
from tests.sidecars.replication.test_pair import eventually_replicating, switched
from tests.sidecars.wire.listening_principal import until as eventually
from tiphys.errors import CallError


async def told(store: EmbeddedStore) -> list[tuple[str, str]]:
    """Reason and the beginning of the message, oldest first."""
    events = (await store.list(EVENTS, namespace=ARGOCD)).items
    assert {event["involvedObject"]["name"] for event in events} == {names.HA_RECORD}
    events.sort(key=lambda event: int(event["metadata"]["resourceVersion"]))
    return [(event["reason"], event["message"].partition(":")[0]) for event in events]


async def test_every_change_of_role_is_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fence, "PROOF_SECONDS", 2.0)
    a, b = FencedStore(), FencedStore()
    async with regions(a, b) as (one, two):
        await following(one, two)
        await eventually_replicating(one, two)
        b.fenced = False
        with pytest.raises(CallError, match="all is undone"):
            await switched(one)
        b.fenced = True
        await eventually_replicating(one, two)
        await switched(one)
        await two.until("active")
        await eventually_replicating(two, one)
        assert await two.controller.demote(JO) == "disconnected"
        await one.until("disconnected")
        await one.controller.promote(JO)
        await eventually_replicating(one, two)
        await two.controller.promote(
            replace(JO, force=True, epoch=two.controller.role.held_record().highest_epoch)
        )
        await one.until("replicating")
        await two.controller.release("", JO)
    assert await told(a) == [
        ("Active", "first active of a pair"),
        ("Standby", "switchover"),
        ("Active", "switchover undone"),
        ("Standby", "switchover"),
        ("Active", "promotion under epoch 5"),
        ("Standby", "stepped down, epoch 5"),
    ]
    assert await told(b) == [
        ("Standby", "first start as replica"),
        ("Standby", "promotion taken back, epoch 2"),
        ("Active", "switchover under epoch 4"),
        ("Standby", "demoted, epoch 4"),
        ("Active", "forced promotion under epoch 6"),
        ("HeldObjectsReleased", "jo released held objects of all agents"),
    ]


async def test_accepted_deletions_are_an_event() -> None:
    b = FencedStore()
    async with regions(FencedStore(), b) as (one, two):
        await following(one, two)
        await deleted_meanwhile(one, two)
        await eventually(lambda: bool(two.controller.role.replica.progress().held_deletions))
        await two.controller.accept_deletions("appprojects", JO)
        assert ("DeletionsAccepted", "jo accepted 24 deletions of appprojects") in await told(b)
