"""An operator's client: what could not be asked has not happened, and what was not answered may have."""

import pytest

from scripts.ports import free_port
from sidecars.fleet import ha_client
from sidecars.fleet.ha_client import HaClient, HaUnknownError
from tests.sidecars.replication.paired_principals import FencedStore, following, regions
from tests.sidecars.replication.step_store import WORD, StepStore, compared, operator, switched
from tests.sidecars.replication.test_pair import eventually_replicating
from tiphys.errors import SurroundingsError


async def test_a_change_that_nobody_could_be_asked_for_has_not_happened() -> None:
    client = HaClient(address=f"127.0.0.1:{free_port()}")
    with pytest.raises(SurroundingsError, match="does not answer") as lost:
        await client.change_role("Promote", WORD)
    assert lost.value.exit_code == 2


async def test_a_change_that_was_asked_for_and_not_answered_may_have_happened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ha_client, "ANSWER_SECONDS", 1.0)
    store = StepStore()
    async with regions(FencedStore(), store) as (one, two):
        await following(one, two)
        await compared(two)
        await one.stop()
        await two.until("disconnected")
        store.ends_at = "promotion begun"  # its API server answers nothing after that
        with pytest.raises(HaUnknownError, match="look at `tiphys ha status` on both sides") as lost:
            await operator(two).change_role("Promote", WORD)
        assert lost.value.exit_code == 3
        assert (await operator(two).status())["state"] == "disconnected"


async def test_a_switchover_that_is_lost_before_its_first_line_may_have_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ha_client, "SWITCHOVER_SECONDS", 1.0)
    store = StepStore()
    async with regions(store, FencedStore()) as (one, two):
        await following(one, two)
        await eventually_replicating(one, two)
        store.ends_at = "switchover begun"  # it is written, and the first line comes after it
        with pytest.raises(HaUnknownError, match="goes on without it: look at `tiphys ha status`") as lost:
            await switched(one)
        assert lost.value.exit_code == 3
        store.revive()
