"""The record of a principal's role: changed by compare-and-set, and never guessed."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from argocd import names
from kube.embedded import EmbeddedStore
from kube.errors import ForbiddenError, UnavailableError
from kube.resources import CONFIG_MAPS
from kube.store import Object, Resource
from sidecars.replication.record import (
    AUDIT_ENTRIES,
    MAX_TEXT,
    HaRecord,
    HaRole,
    RecordChangedError,
    RecordStore,
)
from tiphys.errors import SurroundingsError

ARGOCD = "argocd"
NOW = datetime(2026, 11, 17, 22, 0, tzinfo=UTC)
FIRST = HaRecord(pair="pair-1", principal="principal-1", role=HaRole.ACTIVE, epoch=1, served_epoch=1)


def promoted(record: HaRecord, **fields: Any) -> HaRecord:
    return record.changed(who="jo", why="region A is down", what="promote", now=NOW, **fields)


async def test_what_is_written_is_read_again_with_its_audit_trail() -> None:
    records = RecordStore(EmbeddedStore(namespaces=[ARGOCD]), namespace=ARGOCD)
    assert await records.read() is None
    held = await records.create(FIRST)
    wanted = promoted(
        held,
        epoch=3,
        history="h",
        peer="principal-2",
        peer_epoch=2,
        figures="applied 7 of 9",
        released=("a", "b"),
    )
    stored = await records.change(wanted)
    assert stored == await records.read() == wanted
    assert stored.version != held.version
    (entry,) = stored.audit
    assert (entry.who, entry.what, entry.why, entry.epoch) == ("jo", "promote", "region A is down", 3)
    assert (entry.when, entry.figures) == ("2026-11-17T22:00:00Z", "applied 7 of 9")
    assert stored.highest_epoch == 3


async def test_of_two_who_change_it_at_once_one_reads_that_it_was_late() -> None:
    records = RecordStore(EmbeddedStore(namespaces=[ARGOCD]), namespace=ARGOCD)
    held = await records.create(FIRST)
    await records.change(replace(held, epoch=3))
    with pytest.raises(RecordChangedError):
        await records.change(replace(held, epoch=3))
    with pytest.raises(RecordChangedError):
        await records.create(FIRST)


async def test_a_write_whose_answer_was_lost_is_looked_up() -> None:
    class Losing(EmbeddedStore):
        async def replace(self, resource: Resource, body: Object, **more: Any) -> Object:
            await super().replace(resource, body, **more)
            raise UnavailableError("the connection broke", outcome_unknown=True)

    records = RecordStore(Losing(namespaces=[ARGOCD]), namespace=ARGOCD)
    held = await records.create(FIRST)
    assert (await records.change(replace(held, epoch=3))).epoch == 3


async def test_an_api_server_that_takes_no_record_leaves_the_old_one() -> None:
    class Full(EmbeddedStore):
        async def replace(self, resource: Resource, body: Object, **more: Any) -> Object:
            raise ForbiddenError("etcdserver: mvcc: database space exceeded")

    records = RecordStore(Full(namespaces=[ARGOCD]), namespace=ARGOCD)
    held = await records.create(FIRST)
    with pytest.raises(ForbiddenError):
        await records.change(replace(held, epoch=3))
    assert await records.read() == FIRST


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "principal is missing"),
        ({"principal": "p"}, "role is missing"),
        ({"principal": "p", "role": "king", "epoch": "1"}, "'king' is not a valid HaRole"),
        ({"principal": "p", "role": "active", "epoch": "-1"}, "'-1' is no epoch"),
        ({"principal": "p", "role": "active", "epoch": "9" * 400}, "is no epoch"),
        ({"principal": "p", "role": "active", "epoch": "1", "audit": "["}, "cannot be read"),
        ({"principal": "p", "role": "active", "epoch": "1", "token": "[1]"}, "token is no object"),
    ],
)
async def test_a_damaged_record_is_said_and_not_guessed(data: dict[str, str], words: str) -> None:
    store = EmbeddedStore(namespaces=[ARGOCD])
    await store.create(CONFIG_MAPS, {"metadata": {"name": names.HA_RECORD}, "data": data}, namespace=ARGOCD)
    with pytest.raises(SurroundingsError, match=words) as caught:
        await RecordStore(store, namespace=ARGOCD).read()
    assert "argocd/tiphys-ha" in str(caught.value)


def test_the_audit_trail_is_bounded_in_lines_and_in_words() -> None:
    record = FIRST
    for _ in range(AUDIT_ENTRIES + 5):
        record = record.changed(who="x" * 9999, why="y" * 9999, what="promote", now=NOW)
    assert len(record.audit) == AUDIT_ENTRIES
    assert {len(entry.who) for entry in record.audit} == {MAX_TEXT}
