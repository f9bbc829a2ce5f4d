"""What two principals tell each other, and when they are no pair."""

import json
from dataclasses import replace
from typing import Any

import pytest

from sidecars.replication.handshake import KEY, MAX_BYTES, Handshake, differences
from sidecars.replication.states import HaState

MINE = Handshake(
    pair="pair-1",
    principal="principal-1",
    state=HaState.ACTIVE,
    epoch=7,
    history="history-1",
    parity=1,
    namespace="argocd",
    mapping="namespace",
    allowed_namespaces=("agent-*",),
    authorities=("AA", "BB"),
)
THEIRS = replace(MINE, principal="principal-2", state=HaState.REPLICATING, epoch=0, parity=0)


def test_what_is_told_is_understood() -> None:
    assert Handshake.of(MINE.metadata()) == MINE
    assert Handshake.of({KEY: [MINE.metadata()[0][1]]}) == MINE
    assert MINE.metadata()[0][1].isascii()


def test_a_peer_of_argocd_agents_tells_nothing() -> None:
    assert Handshake.of([("grpc-status", "0")]) is None
    assert Handshake.of(None) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"epoch": -1},
        {"epoch": 2**60},
        {"epoch": "7"},
        {"epoch": True},
        {"parity": 2},
        {"state": "king"},
        {"pair": None},
        {"allowed_namespaces": [1]},
        {"history": "x" * MAX_BYTES},
    ],
)
def test_what_cannot_be_understood_is_nothing(changed: dict[str, Any]) -> None:
    told = json.loads(MINE.metadata()[0][1]) | changed
    assert Handshake.of([(KEY, json.dumps(told))]) is None
    for broken in ("{", "[]", "7", '"x"', "{}"):
        assert Handshake.of([(KEY, broken)]) is None


def test_the_two_of_a_pair_and_a_replica_without_a_record_may_replicate() -> None:
    assert differences(MINE, THEIRS) == []
    assert differences(MINE, replace(THEIRS, pair="")) == []
    assert differences(MINE, replace(THEIRS, authorities=("BB", "CC"))) == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"principal": "principal-1"}, "the peer is this principal itself"),
        ({"pair": "pair-2"}, "pair pair-1 here, pair-2 there"),
        ({"namespace": "argo"}, "--namespace argocd here, argo there"),
        ({"mapping": "destination"}, "mapped by namespace here, by destination there"),
        ({"allowed_namespaces": ()}, "--allowed-namespaces agent-* here, (none) there"),
        ({"authorities": ("CC",)}, "authority of agents' certificates AA,BB here, CC there"),
    ],
)
def test_what_differs_is_named(changed: dict[str, Any], words: str) -> None:
    (found,) = differences(MINE, replace(THEIRS, **changed))
    assert words in found


def test_namespaces_that_are_too_many_to_be_told_are_compared_all_the_same() -> None:
    many = tuple(f"agent-{number:05}-of-a-long-name" for number in range(2000))
    mine = replace(MINE, allowed_namespaces=many)
    ((_, told),) = mine.metadata()
    assert len(told) <= MAX_BYTES
    heard = Handshake.of(mine.metadata())
    assert heard is not None
    theirs = replace(heard, principal="principal-2")
    assert differences(replace(mine, allowed_namespaces=many[::-1]), theirs) == []
    (found,) = differences(replace(mine, allowed_namespaces=many[1:]), theirs)
    assert "--allowed-namespaces 1999 of them (sha256:" in found
    assert len(found) < 300
    (found,) = differences(replace(mine, allowed_namespaces=("agent-*",)), theirs)
    assert "--allowed-namespaces agent-* here, sha256:" in found
