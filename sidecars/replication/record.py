"""What a principal of a pair must not forget: the ConfigMap `tiphys-ha`, changed only by compare-and-set.

It is the parameter of the admission policy too: record and fence change in one write.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from argocd import names
from argocd.reading import mapping, sequence, text
from kube import queries
from kube.errors import AlreadyExistsError, ApiError, ConflictError, NotFoundError, UnavailableError
from kube.resources import CONFIG_MAPS
from kube.store import Object, Store
from tiphys.errors import SurroundingsError

# Some years of one change of role a week; the newest are what an incident needs.
AUDIT_ENTRIES = 100
# Names of agents: a ConfigMap holds 1 MiB. Whoever has released so many may release all.
MOST_RELEASED = 1000
# A ConfigMap holds 1 MiB: a reason is a sentence.
MAX_TEXT = 300
# Of the audit trail: refused tokens never push out what has happened.
REFUSED_ENTRIES = 10
REFUSAL = "token refused"
_MAX_EPOCH = 2**53


class HaRole(StrEnum):
    ACTIVE = "active"
    STANDBY = "standby"
    PROMOTING = "promoting"
    """The epoch is raised, and nobody is served under it: also the fence opens only to an active one."""


class HandoverStep(StrEnum):
    """Of a switchover, where it begins."""

    NONE = ""
    DRAINING = "draining"
    FENCED = "fenced"
    """Nobody writes here any more, and the peer knows of nothing yet."""
    HANDING_OVER = "handing over"
    """The peer may have the token: only an operator, or the peer's own word, decides from here."""


class RecordChangedError(SurroundingsError):
    """Somebody else was faster: read again before deciding anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    when: str
    who: str
    what: str
    why: str
    epoch: int
    figures: str = ""
    """Sequences and lag at that time, in words."""
    times: int = 1
    """Of equal ones, the last of them `when`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HaRecord:
    pair: str
    """Of both principals; empty on a replica that has not met its primary."""
    principal: str
    """This one's own id, under which agents know it."""
    role: HaRole
    epoch: int
    """The highest that this principal has claimed; it never falls."""
    served_epoch: int = 0
    """The highest under which it served. A promotion that failed has claimed one that nobody saw."""
    parity: int | None = None
    """Of the epochs that it may claim; the peer claims the others, so that two operators who promote both sides at
    once raise two different epochs, of which one is higher.
    """
    history: str = ""
    """Of the log since it became active; sequences of two histories say nothing about each other."""
    holding: bool = False
    """Since a promotion: what only agents know is left alone until an operator, or the old primary, has spoken."""
    released: tuple[str, ...] = ()
    """Agents of which nothing is held any more, although it is of others."""
    peer: str = ""
    peer_address: str = ""
    """Where this principal looks for it, for whoever is refused here."""
    peer_epoch: int = 0
    step: HandoverStep = HandoverStep.NONE
    """Of a switchover under way, and its `token`."""
    token: Mapping[str, Any] = field(default_factory=dict)
    who: str = ""
    when: str = ""
    why: str = ""
    audit: tuple[AuditEntry, ...] = ()
    version: str = field(default="", compare=False)
    """The ConfigMap's resourceVersion."""

    @property
    def gave_no_token(self) -> bool:
        """A switchover closed this cluster and came no further: nobody but this principal can go on."""
        return self.role is HaRole.STANDBY and self.step is HandoverStep.FENCED and not self.token

    @property
    def highest_epoch(self) -> int:
        return max(self.epoch, self.peer_epoch)

    @property
    def next_epoch(self) -> int:
        """The first of its own above all that were seen."""
        above = self.highest_epoch + 1
        return above if self.parity is None or above % 2 == self.parity else above + 1

    def changed(
        self, *, who: str, why: str, what: str, now: datetime, figures: str = "", **fields: Any
    ) -> "HaRecord":
        """With its line in the audit trail."""
        when = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        who, why = who[:MAX_TEXT], why[:MAX_TEXT]
        after = replace(self, **fields)
        entry = AuditEntry(
            when=when, who=who, what=what[:MAX_TEXT], why=why, epoch=after.epoch, figures=figures[:MAX_TEXT]
        )
        return replace(after, who=who, why=why, when=when, audit=(*self.audit, entry)[-AUDIT_ENTRIES:])

    def refused(self, *, who: str, why: str, now: datetime, times: int) -> "HaRecord":
        """A token: equal refusals are one line of the trail, and all of them together a few."""
        who, why = who[:MAX_TEXT], why[:MAX_TEXT]
        equal = [each for each in self.audit if (each.what, each.who, each.why) == (REFUSAL, who, why)]
        others = [each for each in self.audit if each.what == REFUSAL and each not in equal]
        left_out = [*equal, *others[: 1 - REFUSED_ENTRIES]]
        kept = replace(self, audit=tuple(each for each in self.audit if each not in left_out))
        *before, entry = kept.changed(who=who, why=why, what=REFUSAL, now=now).audit
        entry = replace(entry, times=times + sum(each.times for each in equal))
        return replace(self, audit=(*before, entry))


class RecordStore:
    def __init__(self, store: Store, *, namespace: str, compares_and_sets: bool = True) -> None:
        self._store = store
        self._namespace = namespace
        self._compares_and_sets = compares_and_sets
        self.where = f"ConfigMap {namespace}/{names.HA_RECORD}"

    async def read(self) -> HaRecord | None:
        held = await queries.find(self._store, CONFIG_MAPS, name=names.HA_RECORD, namespace=self._namespace)
        return None if held is None else read_record(held)

    async def create(self, record: HaRecord) -> HaRecord:
        """The first one; raises RecordChangedError where there is one."""
        return await self._written(record, self._create)

    async def change(self, record: HaRecord) -> HaRecord:
        """Instead of the one whose `version` it still carries."""
        return await self._written(record, self._replace)

    async def _written(self, record: HaRecord, write: Callable[[Object], Any]) -> HaRecord:
        body = self._body(record)
        try:
            return read_record(await write(body))
        except (ConflictError, AlreadyExistsError, NotFoundError) as error:
            raise RecordChangedError(f"{self.where} was changed by somebody else meanwhile") from error
        except UnavailableError as error:
            held = None
            if error.outcome_unknown:
                with suppress(ApiError):  # then it stays unknown
                    held = await self.read()
            if held == record:
                return held
            raise

    async def _create(self, body: Object) -> Object:
        return await self._store.create(CONFIG_MAPS, body, namespace=self._namespace)

    async def _replace(self, body: Object) -> Object:
        return await self._store.replace(CONFIG_MAPS, body)

    def _body(self, record: HaRecord) -> Object:
        metadata: Object = {"name": names.HA_RECORD, "namespace": self._namespace}
        if record.version and self._compares_and_sets:
            metadata["resourceVersion"] = record.version
        return {
            "metadata": metadata,
            "data": {
                "pair": record.pair,
                "principal": record.principal,
                "role": record.role.value,
                "epoch": str(record.epoch),
                "servedEpoch": str(record.served_epoch),
                "parity": "" if record.parity is None else str(record.parity),
                "history": record.history,
                "holding": str(record.holding).lower(),
                "released": json.dumps(record.released) if record.released else "",
                "peer": record.peer,
                "peerAddress": record.peer_address,
                "peerEpoch": str(record.peer_epoch),
                "step": record.step.value,
                "token": json.dumps(dict(record.token)) if record.token else "",
                "who": record.who,
                "when": record.when,
                "why": record.why,
                "audit": json.dumps([asdict(entry) for entry in record.audit], indent=1),
            },
        }


def read_record(held: Object) -> HaRecord:
    """Raises SurroundingsError: nobody guesses who was active."""
    data = mapping(held, "data")
    where = f"ConfigMap {text(held, 'metadata', 'namespace')}/{names.HA_RECORD}"
    try:
        return HaRecord(
            pair=text(data, "pair"),
            principal=_needed(data, "principal"),
            role=HaRole(_needed(data, "role")),
            epoch=_epoch(data, "epoch"),
            served_epoch=_epoch(data, "servedEpoch"),
            parity=_parity(text(data, "parity")),
            history=text(data, "history"),
            holding=text(data, "holding") == "true",
            released=read_released(json.loads(text(data, "released") or "[]")),
            peer=text(data, "peer"),
            peer_address=text(data, "peerAddress"),
            peer_epoch=_epoch(data, "peerEpoch"),
            step=HandoverStep(text(data, "step")),
            token=_token(json.loads(text(data, "token") or "{}")),
            who=text(data, "who"),
            when=text(data, "when"),
            why=text(data, "why"),
            audit=_audit(json.loads(text(data, "audit") or "[]")),
            version=text(held, "metadata", "resourceVersion"),
        )
    except ValueError as error:
        raise SurroundingsError(
            f"{where} cannot be read: {error}; restore it, or delete it and start by `tiphys ha resume --bootstrap`"
        ) from error


def _needed(data: Mapping[str, Any], key: str) -> str:
    found = text(data, key)
    if not found:
        raise ValueError(f"{key} is missing")
    return found


def _epoch(data: Mapping[str, Any], key: str) -> int:
    found = text(data, key) or "0"
    if not (found.isascii() and found.isdecimal() and int(found) <= _MAX_EPOCH):
        raise ValueError(f"{key} {found[:20]!r} is no epoch")
    return int(found)


def _parity(found: str) -> int | None:
    if found not in {"", "0", "1"}:
        raise ValueError(f"parity {found[:20]!r} is neither 0 nor 1")
    return int(found) if found else None


def _token(found: Any) -> Mapping[str, Any]:
    if not isinstance(found, dict):
        raise ValueError("token is no object")  # noqa: TRY004 - of a ConfigMap, not of Python
    return found


def read_released(found: Any) -> tuple[str, ...]:
    """Raises ValueError."""
    is_list = isinstance(found, list) and len(found) <= MOST_RELEASED
    if not is_list or not all(isinstance(agent, str) for agent in found):
        raise ValueError("released is no list of agents")
    return tuple(found)


def _audit(entries: Any) -> tuple[AuditEntry, ...]:
    return tuple(
        AuditEntry(
            when=text(each, "when"),
            who=text(each, "who"),
            what=text(each, "what"),
            why=text(each, "why"),
            epoch=each["epoch"] if isinstance(each, dict) and isinstance(each.get("epoch"), int) else 0,
            figures=text(each, "figures"),
            times=each["times"] if isinstance(each, dict) and isinstance(each.get("times"), int) else 1,
        )
        for each in sequence({"entries": entries}, "entries")
    )
