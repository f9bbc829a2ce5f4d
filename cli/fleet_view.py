"""A principal's agents as the operator's commands show them: as rows, as lines, as data."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from checks.reports import visible
from cli.output import JSON, NAME, TEXT, WIDE, YAML, ListColumns, ListRow, show_data
from sidecars.fleet.agents import Registered, Trouble
from sidecars.fleet.principal_client import Told
from sidecars.principal.agent_status import AgentStatus
from sidecars.wire.auth.blocklist import Blocklist

UNKNOWN = "-"
MESSAGE_WIDTH = 60
COLUMNS = ListColumns(
    ("NAME", "MODE", "CONNECTED", "LAG", "QUEUE", "BLOCKED", "LAST ERROR"),
    ("SECRET", "SERVER", "CERTIFICATE ENDS"),
)


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
        seen = (mode, UNKNOWN if look.told.problem else "no", UNKNOWN, UNKNOWN)
    else:
        lag = f"{status.lag_seconds:.1f} s" if status.queue else "0"
        seen = (status.mode, "yes" if status.connected else "no", lag, str(status.queue))
    blocked = "yes" if look.is_blocked(agent) else "no"
    ends = f"{agent.proxy.ends:%Y-%m-%d}" if agent.proxy else UNKNOWN
    return ListRow(agent.name, (agent.name, *seen, blocked, shortened), (agent.secret, agent.server, ends))


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
    absent = None if look.told.problem else False
    return {
        **registered_data(agent),
        "mode": status.mode if status else registered_data(agent)["mode"],
        "connected": status.connected if status else absent,
        "lagSeconds": status.lag_seconds if status else None,
        "queue": status.queue if status else None,
        "queueBytes": status.queue_bytes if status else None,
        "blocked": look.is_blocked(agent),
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
    first, *lines = COLUMNS.lines([agent_row(each, look) for each in look.agents], form)
    if head and changed:
        click.echo(first)
    for agent, line in zip(look.agents, lines, strict=True):
        if agent.name in changed:
            click.echo(line)
