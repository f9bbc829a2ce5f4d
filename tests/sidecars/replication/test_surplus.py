"""What a principal that was active had alone: named before it goes, and until then it has diverged."""

from dataclasses import replace
from functools import partial

import pytest

from argocd import names
from argocd.reading import value
from kube.embedded import Call, Phase
from kube.errors import UnavailableError
from kube.resources import APPLICATIONS
from scripts.ports import free_port
from sidecars.replication.control import controller
from sidecars.replication.control.settings import RestartPolicy
from sidecars.replication.primary import source
from sidecars.replication.primary.session import SessionLimits
from sidecars.replication.states import HaState, StateDetail
from tests.sidecars.pair_in_memory import until
from tests.sidecars.replication.hubs import application
from tests.sidecars.replication.hubs import until as eventually
from tests.sidecars.replication.paired_principals import JO, FencedStore, Region, following, regions
from tests.sidecars.replication.step_store import audit, compared, switched
from tests.sidecars.replication.test_pair import eventually_replicating

AGENT = "agent-a"
LAST = {f"last-{number:02}" for number in range(25)}
"""More than go without a word."""


@pytest.fixture(autouse=True)
def comparing_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "SessionLimits", partial(SessionLimits, compare_seconds=0.5))


async def changed(store: FencedStore, revision: str) -> None:
    till = await store.get(APPLICATIONS, name="till", namespace=AGENT)
    till["spec"]["source"]["targetRevision"] = revision
    await store.replace(APPLICATIONS, till)


async def deposed(one: Region, two: Region, a: FencedStore, *, how: str) -> None:
    """Nobody heard of the last ones but it; the other one was promoted, and this one follows it."""
    await following(one, two)
    for name in ("shop", "till"):
        await a.create(APPLICATIONS, application(name), namespace=AGENT)
    await until(two.store, APPLICATIONS, lambda there: {"shop", "till"} <= set(there), namespace=AGENT)
    await compared(two)
    await two.stop()
    for name in LAST:
        await a.create(APPLICATIONS, application(name), namespace=AGENT)
    await changed(a, "v2")
    if how != "killed":
        await one.controller.demote(JO)
    if how != "demoted":
        await one.stop()
    await two.start()
    await two.until("disconnected")
    await two.controller.promote(JO)
    if how != "demoted":
        await one.start()


def shown(monkeypatch: pytest.MonkeyPatch, region: Region) -> list[StateDetail]:
    """From now on."""
    role, details = region.controller.role, list[StateDetail]()
    show = role.show

    def noted(state: HaState, detail: StateDetail = StateDetail.NONE, reason: str = "") -> None:
        details.append(detail)
        show(state, detail, reason)

    monkeypatch.setattr(role, "show", noted)
    return details


async def accepted(one: Region, a: FencedStore) -> None:
    await eventually(
        lambda: one.controller.role.replica.progress().held_deletions == {"applications": len(LAST)}
    )
    assert (one.state, one.controller.role.detail) == ("disconnected", "diverged")
    await one.controller.accept_deletions("applications", JO)
    await until(a, APPLICATIONS, lambda there: not LAST & set(there), namespace=AGENT)
    await one.until("replicating")


@pytest.mark.parametrize("how", ["killed", "demoted", "demoted and restarted"])
async def test_the_surplus_of_a_deposed_primary_is_named_and_it_is_diverged_until_all_is_equal(
    how: str,
) -> None:
    a, b = FencedStore(), FencedStore()
    async with regions(a, b) as (one, two):
        await deposed(one, two, a, how=how)
        # More than twenty wait for an operator, and so long it has diverged.
        await accepted(one, a)
        progress = one.controller.role.replica.progress()
        assert {each.name for each in progress.surplus if each.what == "deleted"} == LAST
        assert {each.name for each in progress.surplus if each.what == "replaced"} == {"till"}
        assert progress.surplus_count == len(LAST) + 1


async def test_once_equal_it_is_an_ordinary_replica_also_of_a_primary_that_begins_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, b = FencedStore(), FencedStore()
    async with regions(a, b) as (one, two):
        await deposed(one, two, a, how="killed")
        await accepted(one, a)
        await compared(one)
        role, details = one.controller.role, shown(monkeypatch, one)
        two.ha = {"restart_policy": RestartPolicy.ACTIVE}
        await two.stop()
        await changed(b, "v3")
        await two.start()
        await until(
            a,
            APPLICATIONS,
            lambda there: value(there, "till", "spec", "source", "targetRevision") == "v3",
            namespace=AGENT,
        )
        await compared(one)
        assert set(details) == {StateDetail.NONE}
        assert role.replica.progress().surplus_count == len(LAST) + 1
        # After a restart, too.
        await one.stop()
        await two.stop()
        await one.start()
        await one.until("disconnected")
        assert one.controller.role.detail == ""


async def test_one_that_has_handed_over_has_no_surplus(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = FencedStore(), FencedStore()
    async with regions(a, b) as (one, two):
        await following(one, two)
        await a.create(APPLICATIONS, application("shop"), namespace=AGENT)
        await eventually_replicating(one, two)
        details = shown(monkeypatch, one)
        await switched(one)
        await one.until("replicating")
        assert StateDetail.DIVERGED not in details


async def test_one_that_steps_down_while_its_api_server_is_away_has_diverged_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(controller, "_RETRY_SECONDS", 0.05)
    a, b = FencedStore(), FencedStore()
    looks = 0

    async def away(call: Call) -> None:
        nonlocal looks
        if call.name == names.HA_RECORD and call.phase is Phase.BEFORE:
            looks += 1
            raise UnavailableError("no answer")

    async with regions(a, b) as (one, two):
        await following(one, two)
        await one.stop()
        await two.until("disconnected")
        await two.controller.promote(replace(JO, force=True, epoch=1))
        one.ha = {"restart_policy": RestartPolicy.ACTIVE, "peer_address": f"localhost:{free_port()}"}
        await one.start()
        await one.until("active")
        a.hooks.faults = away
        one.controller.heard(two.controller.handshake)
        await eventually(lambda: looks >= 6)
        assert one.state == "disconnected"
        a.hooks.faults = None
        await eventually(lambda: one.controller.role.detail == "diverged")
        assert audit(one)[-1] == "stepped down"
