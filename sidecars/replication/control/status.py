"""A pair as one of its principals sees it, for people and for programs."""

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass, replace
from typing import Any

from sidecars.replication.control.controller import HaController
from sidecars.replication.report import AGENT_LINES, PeerReport
from sidecars.replication.standby.follower_progress import FollowerProgress
from sidecars.replication.states import HaState

VERSION = 1
# Of the audit trail: what an incident needs; the record has the rest.
AUDIT_LINES = 10
# Of objects held back; the count tells the rest.
HELD_LINES = 1000
# Of dead letters, with 300 characters of reason each: a gRPC client takes 4 MiB.
DEAD_LETTER_LINES = 200


def status(controller: HaController) -> dict[str, Any]:
    role, record = controller.role, controller.role.record
    active = role.state is HaState.ACTIVE
    held = list(role.active.held()) if active else []
    return {
        "version": VERSION,
        "state": role.state.value,
        "detail": role.detail.value,
        "reason": role.reason,
        "preferred_role": controller.settings.preferred_role.value,
        "pair": record.pair if record else "",
        "principal": role.facts.principal,
        "epoch": record.served_epoch if record else 0,
        "highest_epoch": record.highest_epoch if record else 0,
        "history": record.history if record else "",
        "fenced": controller.fence_report.stands,
        "fence_problem": controller.fence_report.problem,
        "connected_agents": role.active.connected if active else 0,
        "agents": [asdict(each) for each in role.active.agents()[:AGENT_LINES]] if active else [],
        "sequence": role.source.last_sequence if active else role.replica.progress().applied,
        "replicas": [_told(each) for each in role.source.replicas()] if active else [],
        "digests": dict(role.source.digests()),
        "replication": None if active else _replication(role.replica.progress()),
        "peer": _peer(controller),
        "held_count": len(held),
        "held": [asdict(each) for each in held[:HELD_LINES]],
        "audit": [asdict(entry) for entry in record.audit[-AUDIT_LINES:]] if record else [],
    }


def report(controller: HaController) -> PeerReport:
    """What the peer shows of this principal."""
    role, progress = controller.role, controller.role.replica.progress()
    if role.state is HaState.ACTIVE:
        return PeerReport(
            detail=role.detail.value,
            sequence=role.source.last_sequence,
            lag_events=max((each.lag_events for each in role.source.replicas()), default=0),
            digests=role.source.digests(),
            connected_agents=role.active.connected,
            agents=role.active.agents()[:AGENT_LINES],
        )
    return PeerReport(
        detail=role.detail.value,
        sequence=progress.applied,
        lag_events=max(0, progress.seen - progress.applied),
        digests=role.source.digests(),
    )


def _replication(progress: FollowerProgress) -> dict[str, Any]:
    letters = progress.dead_letters
    told: dict[str, Any] = _told(replace(progress, dead_letters=()))
    return told | {
        "dead_letter_count": len(letters),
        "dead_letters": [
            {key: getattr(letter, key) for key in ("kind", "namespace", "name", "reason")}
            for letter in letters[:DEAD_LETTER_LINES]
        ],
    }


def _peer(controller: HaController) -> dict[str, Any]:
    view, address = controller.view, controller.settings.peer_address
    if view is None:
        return {"address": address, "reachable": False, "problem": "" if not address else "not asked yet"}
    now = controller.timing.monotonic()
    reported = controller.report
    age = None if controller.asked_at is None else now - controller.asked_at
    told = view.handshake
    return {
        "address": address,
        "reachable": not view.problem,
        "problem": view.problem,
        "differences": list(view.differences),
        "asked_seconds": None if age is None else round(age, 1),
        "state": told.state.value if told else view.plain_state,
        "principal": told.principal if told else "",
        "epoch": told.epoch if told else 0,
        "history": told.history if told else "",
        "argocd_agent": told is None and not view.problem,
        "report": None if reported is None else _told(reported),
        "reported_seconds": None
        if controller.reported_at is None
        else round(now - controller.reported_at, 1),
    }


def _told(item: Any) -> Any:
    """A dataclass as plain JSON; moments as text."""
    if is_dataclass(item) and not isinstance(item, type):
        return {key: _told(part) for key, part in asdict(item).items()}
    if isinstance(item, Mapping):
        return {str(key): _told(part) for key, part in item.items()}
    if isinstance(item, list | tuple):
        return [_told(each) for each in item]
    return item if isinstance(item, str | int | float | bool | None) else str(item)
