"""What two principals of a pair tell each other about themselves, in the metadata of every replication call.

argocd-agent's messages have no place for it. A peer that sends none is one of argocd-agent's.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import Any

from sidecars.replication.states import HaState
from sidecars.wire.capabilities import grouped

KEY = "tiphys-ha"
# A handful of names and a list of globs. grpc takes 16 KiB of metadata.
MAX_BYTES = 8 * 1024
MOST_LISTED = 50
"""Names in a sentence."""
_MAX_EPOCH = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class Handshake:
    pair: str
    """Empty where a principal has no record yet."""
    principal: str
    state: HaState
    epoch: int
    """The highest under which it served; 0 where it never did."""
    history: str = ""
    parity: int = 0
    """Of the epochs that it may claim: the two of a pair never claim the same."""
    namespace: str
    mapping: str
    allowed_namespaces: tuple[str, ...] = ()
    authorities: tuple[str, ...] = ()
    """Fingerprints of the fleet's authorities: more than one while they are rotated."""

    def metadata(self) -> list[tuple[str, str]]:
        """With a digest instead of a list of namespaces that is too long to be told."""
        told = _written(self)
        if len(told) > MAX_BYTES:
            told = _written(replace(self, allowed_namespaces=(_digest(self.allowed_namespaces),)))
        return [(KEY, told)]

    @classmethod
    def of(cls, metadata: Any) -> "Handshake | None":
        """None for a peer of argocd-agent's, and for what cannot be read. Takes grpc's pairs, or those by key."""
        by_key: Mapping[str, Sequence[str]] = metadata if isinstance(metadata, Mapping) else grouped(metadata)
        told = "".join(by_key.get(KEY, ())[:1])
        if not told or len(told) > MAX_BYTES:
            return None
        try:
            return _read(json.loads(told))
        except (ValueError, TypeError, KeyError):
            return None


def differences(mine: Handshake, theirs: Handshake) -> list[str]:
    """Why these two are no pair, in words for both operators; empty where they may replicate."""
    if mine.principal == theirs.principal:
        return [f"the peer is this principal itself ({mine.principal}): look at --ha-peer-address"]
    found = []
    if mine.pair and theirs.pair and mine.pair != theirs.pair:
        found.append(f"pair {mine.pair} here, {theirs.pair} there")
    if mine.namespace != theirs.namespace:
        found.append(f"--namespace {mine.namespace} here, {theirs.namespace} there")
    if mine.mapping != theirs.mapping:
        found.append(f"agents mapped by {mine.mapping} here, by {theirs.mapping} there")
    if not _are_same(mine.allowed_namespaces, theirs.allowed_namespaces):
        found.append(
            f"--allowed-namespaces {_listed(mine.allowed_namespaces)} here,"
            f" {_listed(theirs.allowed_namespaces)} there"
        )
    if not set(mine.authorities) & set(theirs.authorities):
        found.append(
            f"authority of agents' certificates {_listed(mine.authorities)} here,"
            f" {_listed(theirs.authorities)} there"
        )
    return found


def _are_same(mine: Sequence[str], theirs: Sequence[str]) -> bool:
    return set(mine) == set(theirs) or set(theirs) == {_digest(mine)}


def _digest(values: Sequence[str]) -> str:
    """No glob of a namespace looks like this."""
    return f"sha256:{sha256(json.dumps(sorted(set(values))).encode()).hexdigest()}"


def _written(handshake: Handshake) -> str:
    return json.dumps(asdict(handshake), separators=(",", ":"))


def _listed(values: Sequence[str]) -> str:
    if len(values) > MOST_LISTED:
        return f"{len(values)} of them ({_digest(values)})"
    return ",".join(sorted(values)) or "(none)"


def _read(told: dict[str, Any]) -> Handshake:
    epoch, parity = told["epoch"], told["parity"]
    if type(epoch) is not int or not 0 <= epoch <= _MAX_EPOCH or parity not in (0, 1):
        raise ValueError("no epoch")
    return Handshake(
        pair=_text(told["pair"]),
        principal=_text(told["principal"]),
        state=HaState(told["state"]),
        epoch=epoch,
        history=_text(told["history"]),
        parity=parity,
        namespace=_text(told["namespace"]),
        mapping=_text(told["mapping"]),
        allowed_namespaces=tuple(map(_text, told["allowed_namespaces"])),
        authorities=tuple(map(_text, told["authorities"])),
    )


def _text(found: Any) -> str:
    if not isinstance(found, str):
        raise TypeError("a text was expected")
    return found
