"""Where a standby stands is kept in its cluster, with the rights that the manifests give."""

import json
from datetime import UTC, datetime

import pytest
import yaml

from argocd import names
from kube.embedded import Call
from sidecars.replication.standby.cursor import CursorStore, ReplicationCursor
from tests.cluster.installation import MANIFESTS
from tests.sidecars.replication.hubs import ARGOCD, embedded

ROLES = MANIFESTS.parent / "components" / "high-availability" / "roles.yaml"


async def test_it_survives_a_restart_with_the_rights_of_the_manifests() -> None:
    store, called = embedded(), set[str]()

    async def note(call: Call) -> None:
        called.add({"replace": "update"}.get(call.verb, call.verb))

    store.hooks.faults = note
    cursors = CursorStore(store, namespace=ARGOCD)
    assert await cursors.read() == ReplicationCursor()
    for sequence in (1, 2):
        cursor = ReplicationCursor(
            history="h1",
            sequence=sequence,
            seen=3,
            whole=True,
            synced_once=True,
            equal={"applications": True, "clusters": False},
            compared_at=datetime(2026, 11, 18, 8, tzinfo=UTC),
        )
        await cursors.write(cursor)
    assert await CursorStore(store, namespace=ARGOCD).read() == cursor
    rules = [patch["value"] for patch in yaml.safe_load(ROLES.read_text())]
    [granted] = [set(rule["verbs"]) for rule in rules if names.HA_CURSOR in rule.get("resourceNames", ())]
    # One alone may create ConfigMaps too: names of what is created cannot be bound.
    assert called == granted | {"create"}


@pytest.mark.parametrize(
    "changed",
    [
        {"sequence": "9" * 5000},
        {"sequence": "-1"},
        {"sequence": "²"},
    ],
)
def test_a_sequence_that_is_none_is_an_empty_cursor(changed: dict[str, str]) -> None:
    data = ReplicationCursor(history="h1", sequence=7, synced_once=True).data()
    assert ReplicationCursor.read({"data": data}).sequence == 7
    assert ReplicationCursor.read({"data": data | changed}) == ReplicationCursor()


@pytest.mark.parametrize(
    "changed",
    [
        {"equal": "{"},
        {"equal": "[]"},
        {"equal": json.dumps({"frogs": True, "applications": 1})},
        {"equal": "[" * 4000},
        {"equal": json.dumps({"applications": True}) + " " * 5000},
        {"comparedAt": "yesterday"},
        {"comparedAt": "2026-11-18T08:00:00"},
        {"comparedAt": ""},
    ],
)
def test_a_comparison_that_cannot_be_read_was_none(changed: dict[str, str]) -> None:
    moment = datetime(2026, 11, 18, 8, tzinfo=UTC)
    cursor = ReplicationCursor(
        history="h1", sequence=7, seen=7, equal={"applications": True}, compared_at=moment
    )
    assert ReplicationCursor.read({"data": cursor.data()}) == cursor
    assert ReplicationCursor.read({"data": cursor.data() | changed}) == cursor.uncompared()
