"""A principal's agents as the operator's commands show them: as rows, as lines, as data."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from cli.output import JSON, NAME, TEXT, WIDE, YAML, ListColumns, ListRow, show_data
from sidecars.fleet.agents import Registered, Trouble
from sidecars.fleet.principal_client import Told
from sidecars.principal.agent_status import AgentStatus
from sidecars.wire.auth.blocklist import Blocklist
from tiphys.printable import visible

UNKNOWN = "-"
MESSAGE_WIDTH = 60
COLUMNS = ListColumns(
    ("NAME", "MODE", "CONNECTED", "LAG", "QUEUE", "BLOCKED", "LAST ERROR"),
    ("SECRET", "SERVER", "CERTIFICATE ENDS"),
)
PAIR_COLUMNS = ListColumns((*COLUMNS.first, "SIDE", "EPOCH"), COLUMNS.more)
"""Where the principal is one of a pair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """All that is known about a fleet at one time."""

    agents: Sequence[Registered]
    told: Told
    blocked: Blocklist
    troubles: dict[str, Trouble]

    def is_blocked(self, agent: Registered) -> bool:
        return bool(self.blocked.fingerprints.intersection(agent.fingerprints))


def agent_row(agent: Registered, look: FleetView) -> ListRow:
    status, trouble = look.told.statuses.get(agent.name), look.troubles.get(agent.name)
    error = visible(trouble_line(trouble))
    shortened = error if len(error) <= MESSAGE_WIDTH else f"{error[: MESSAGE_WIDTH - 1]}…"
    if status is None:
        mode = agent.mode.value if agent.mode else UNKNOWN
        seen = (mode, UNKNOWN if look.told.is_silent else "no", UNKNOWN, UNKNOWN)
    else:
        lag = f"{status.lag_seconds:.1f} s" if status.queue else "0"
        seen = (status.mode, "yes" if status.connected else "no", lag, str(status.queue))
    blocked = "yes" if look.is_blocked(agent) else "no"
    ends = f"{agent.proxy.ends:%Y-%m-%d}" if agent.proxy else UNKNOWN
    side = _side(status, look.told) if look.told.regions else ()
    cells = (agent.name, *seen, blocked, shortened, *side)
    return ListRow(agent.name, cells, (agent.secret, agent.server, ends))


def columns(told: Told) -> ListColumns:
    return PAIR_COLUMNS if told.regions else COLUMNS


def _side(status: AgentStatus | None, told: Told) -> tuple[str, str]:
    """Who serves it: the active region where this is another, and this one where it has a stream here."""
    active = told.active
    if active is None:
        return "nobody active", UNKNOWN
    if active.ours and not (status and status.connected):
        return UNKNOWN, UNKNOWN
    return active.name, str(active.epoch)


def _side_data(status: AgentStatus | None, told: Told) -> dict[str, Any]:
    side, epoch = _side(status, told)
    return {"side": None, "epoch": None} if epoch == UNKNOWN else {"side": side, "epoch": int(epoch)}


def status_line(status: AgentStatus | None, told: Told) -> str:
    if status is None:
        return (
            f"connection unknown: {told.problem}" if told.problem else "not seen since the principal started"
        )
    return (
        f"{status.mode}, {'connected' if status.connected else 'not connected'},"
        f" {status.queue} events ({status.queue_bytes} bytes) wait, the oldest for {status.lag_seconds:.1f} s"
    )


def trouble_line(trouble: Trouble | None) -> str:
    return f"{trouble.application}: {trouble.message}" if trouble else "none"


def registered_data(agent: Registered) -> dict[str, Any]:
    return {
        "name": agent.name,
        "secret": agent.secret,
        "server": agent.server,
        "selfRegistered": agent.self_registered,
        "mode": agent.mode.value if agent.mode else None,
        "certificates": list(agent.fingerprints),
    }


def agent_data(agent: Registered, look: FleetView) -> dict[str, Any]:
    status, trouble = look.told.statuses.get(agent.name), look.troubles.get(agent.name)
    absent = None if look.told.is_silent else False
    return {
        **registered_data(agent),
        "mode": status.mode if status else registered_data(agent)["mode"],
        "connected": status.connected if status else absent,
        "lagSeconds": status.lag_seconds if status else None,
        "queue": status.queue if status else None,
        "queueBytes": status.queue_bytes if status else None,
        "blocked": look.is_blocked(agent),
        **(_side_data(status, look.told) if look.told.regions else {}),
        "lastError": (
            {"application": trouble.application, "message": trouble.message, "time": trouble.when}
            if trouble
            else None
        ),
    }


def show_changes(look: FleetView, shown: dict[str, Any], *, form: str) -> dict[str, Any]:
    """As kubectl does: a table's head once, then what is new or another than before. Returns what is shown now."""
    data = {each.name: agent_data(each, look) for each in look.agents}
    changed = [name for name in data if shown.get(name) != data[name]]
    if form in {TEXT, WIDE}:
        _show_rows(look, changed, form=form, head=not shown)
    for name in changed:
        if form == NAME:
            click.echo(name)
        elif form == JSON:
            click.echo(json.dumps(data[name]))
        elif form == YAML:
            click.echo("---")
            show_data(data[name], form)
    for name in shown.keys() - data.keys():
        click.echo(f"{name} is no agent any more", err=True)
    return data


def _show_rows(look: FleetView, changed: Sequence[str], *, form: str, head: bool) -> None:
    """Aligned with the others, which are not shown again."""
    first, *lines = columns(look.told).lines([agent_row(each, look) for each in look.agents], form)
    if head and changed:
        click.echo(first)
    for agent, line in zip(look.agents, lines, strict=True):
        if agent.name in changed:
            click.echo(line)
