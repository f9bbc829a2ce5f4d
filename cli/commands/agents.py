"""`tiphys agents`: the fleet of a principal."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from argocd import names
from argocd.agents.vocabulary import Mode
from certs.authority import KeyType
from cli.completion import complete_agents
from cli.fleet_view import (
    UNKNOWN,
    FleetView,
    agent_data,
    agent_row,
    columns,
    registered_data,
    show_changes,
    status_line,
    trouble_line,
)
from cli.options import combined, format_option
from cli.options.agent_joining import check_joining, is_joining, joining_options, print_joining
from cli.options.cluster import ask, cluster_options
from cli.options.fleet import (
    KEY_TYPE,
    certificate_lines,
    certificate_told,
    days,
    fleet_list_options,
    fleet_options,
    now,
    on_principal,
)
from cli.options.principal_pages import principal_page_options
from cli.output import JSON_VERSION, show, show_list
from kube.errors import UnavailableError
from kube.live import LiveStore
from sidecars.fleet.agents import Fleet, Registered, Trouble, fingerprint_of, forget_epochs
from sidecars.fleet.pki import LEAF_LIFETIME
from sidecars.fleet.principal_client import NOBODY, ask_principal
from sidecars.wire.auth.blocklist import Blocklist
from tiphys.command_group import CommandGroup
from tiphys.errors import CallError

# Often enough for somebody who looks on.
WATCH_SECONDS = 2.0
TROUBLE_TURNS = 15


agent_argument = click.argument("agent", shell_complete=complete_agents)


@click.group(cls=CommandGroup)
def command() -> None:
    """The agents that a principal knows by their cluster Secrets."""


@command.command("create")
@fleet_options
@click.argument("agent")
@click.option(
    "--resource-proxy-address",
    default=f"{names.RESOURCE_PROXY_SERVICE}:9090",
    show_default=True,
    help="Where Argo CD reaches the agent's cluster.",
)
@click.option(
    "--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label of the cluster; may be repeated."
)
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in Mode]),
    help="Whether the principal or the agent decides; without it the first login says so.",
)
@click.option("--create-namespace", is_flag=True, help="Make the namespace AGENT for its Applications too.")
@days(LEAF_LIFETIME)
@KEY_TYPE
@joining_options
def create_command(agent: str, **given: Any) -> None:
    """Make an agent known: its cluster Secret, as argocd-agentctl makes it."""
    labels = dict(_label(each) for each in given["labels"])
    joining = is_joining(given)
    if joining:
        check_joining(given)

    async def create(store: LiveStore) -> Registered:
        return await _fleet(store, given).create(
            agent,
            proxy_address=given["resource_proxy_address"],
            labels=labels,
            mode=Mode(given["mode"]) if given["mode"] else None,
            create_namespace=given["create_namespace"],
            now=now(),
            lifetime=timedelta(days=given["days"]),
            key_type=KeyType(given["key_type"]),
        )

    made = on_principal(given, create)
    if joining:
        print_joining(agent, given)
        return
    lines = [
        f"made agent {made.name}: Secret {given['principal_namespace']}/{made.secret}, {made.server}",
        f"next: tiphys pki issue agent {made.name} --agent-context CONTEXT",
    ]
    show(given, lines=lines, agent=registered_data(made))


@command.command("list")
@fleet_list_options
@principal_page_options
@click.option(
    "--watch", "-w", is_flag=True, help="Go on: show each agent again when something about it changes."
)
def list_command(*, watch: bool, **given: Any) -> None:
    """Show the fleet: mode, connection, lag and queue as the principal tells, errors as Applications show them."""
    if watch:
        on_principal(given, lambda store: _watch(store, given))
        return
    look = on_principal(given, lambda store: _look(store, given))
    problem = look.told.problem
    notes = [f"the principal did not answer, so {UNKNOWN} stands for unknown: {problem}"] if problem else []
    if look.told.regions and look.told.is_silent:
        notes.append("this principal is not active: ask the other for connections, lag and queues")
    show_list(
        columns(look.told),
        [agent_row(each, look) for each in look.agents],
        form=given["form"],
        empty=f"no agents in {given['principal_namespace']}: `tiphys agents create AGENT` makes one",
        notes=notes,
        told={
            "version": JSON_VERSION,
            "agents": [agent_data(each, look) for each in look.agents],
            "principal": {
                "source": look.told.source,
                "problem": problem,
                **({"regions": [asdict(each) for each in look.told.regions]} if look.told.regions else {}),
            },
        },
    )


async def _watch(store: LiveStore, given: dict[str, Any]) -> None:
    """Until Ctrl-C. The principal's page is asked: it tells what no object does."""
    shown: dict[str, Any] = {}
    problem = ""
    look: FleetView | None = None
    for turn in itertools.count():
        try:
            # Errors are looked for in all Applications: not every time.
            troubles = look.troubles if look is not None and turn % TROUBLE_TURNS else None
            look = await _look(store, given, troubles=troubles)
            trouble = look.told.problem
        except UnavailableError as error:
            trouble = str(error)
        if trouble and trouble != problem:
            click.echo(f"no answer, looking again: {trouble}", err=True)
        problem = trouble
        if look is not None:
            shown = show_changes(look, shown, form=given["form"])
        await asyncio.sleep(WATCH_SECONDS)


@command.command("inspect")
@fleet_options
@principal_page_options
@agent_argument
def inspect_command(agent: str, **given: Any) -> None:
    """Show all that is known about one agent."""
    look = on_principal(given, lambda store: _look(store, given, only=agent))
    (found,) = look.agents
    status, trouble = look.told.statuses.get(found.name), look.troubles.get(found.name)
    lines = [
        f"agent {found.name}",
        f"  cluster: Secret {given['principal_namespace']}/{found.secret}, {found.server}"
        + (", registered by itself" if found.self_registered else ""),
        f"  mode: {found.mode.value if found.mode else 'as its first login will say'}",
        f"  {status_line(status, look.told)}",
        f"  last error: {trouble_line(trouble)}",
        f"  blocked: {'yes' if look.is_blocked(found) else 'no'}",
        *(f"  certificate {each}{_blocked_word(each, look.blocked)}" for each in found.fingerprints),
        *(certificate_lines(found.proxy, at=now()) if found.proxy else []),
    ]
    proxy = certificate_told(found.proxy, at=now()) if found.proxy else None
    show(given, lines=lines, agent={**agent_data(found, look), "proxyCertificate": proxy})


@command.command("set-mode")
@fleet_options
@agent_argument
@click.argument("mode", type=click.Choice([mode.value for mode in Mode]))
def set_mode_command(agent: str, mode: str, **given: Any) -> None:
    """Make an agent managed or autonomous. Its stream is cut, and it may only come back in that mode."""
    before = on_principal(given, lambda store: _fleet(store, given).set_mode(agent, Mode(mode)))
    was = before.mode.value if before.mode else "nothing yet"
    lines = [f"agent {agent} is {mode}, was {was}; next: start it with --agent-mode={mode}"]
    show(given, lines=lines, agent=agent, mode=mode, before=before.mode.value if before.mode else None)


certificate_options = combined(
    fleet_options,
    agent_argument,
    click.option(
        "--certificate",
        type=click.Path(path_type=Path),
        help="A certificate of the agent that is not known here.",
    ),
    click.option("--fingerprint", help="The SHA-256 of one, in hex."),
)


@command.command("block")
@certificate_options
def block_command(agent: str, **given: Any) -> None:
    """Lock an agent out: all certificates known here, or the given one. Principals cut its stream at once."""
    done = _with_certificates(agent, given, Fleet.block)
    lines = [f"blocked {agent}: {each}" for each in done]
    show(given, lines=lines, agent=agent, blocked=list(done))


@command.command("unblock")
@certificate_options
def unblock_command(agent: str, **given: Any) -> None:
    """Let an agent in again."""
    done = _with_certificates(agent, given, Fleet.unblock)
    lines = [f"no longer blocked, {agent}: {each}" for each in done]
    show(given, lines=lines, agent=agent, unblocked=list(done))


def _with_certificates(
    agent: str, given: dict[str, Any], act: Callable[[Fleet, Sequence[str]], Awaitable[None]]
) -> tuple[str, ...]:
    async def acted(store: LiveStore) -> tuple[str, ...]:
        fingerprints = await _fingerprints(store, agent, given)
        await act(_fleet(store, given), fingerprints)
        return fingerprints

    return on_principal(given, acted)


@command.command("forget-epoch")
@cluster_options
@format_option(text="For people or for programs.")
@click.option(
    "--namespace",
    "-n",
    default=names.DEFAULT_NAMESPACE,
    show_default=True,
    help="The agent's namespace on its own cluster.",
)
def forget_epoch_command(**given: Any) -> None:
    """Let the agent of this cluster obey a principal with a lower epoch than it has obeyed before.

    For a pair whose records were lost. A principal that was deposed could be obeyed again.
    """
    forgotten = ask(given, lambda store: forget_epochs(store, namespace=given["namespace"]))
    lines = [f"pair {pair}: epoch {epoch} forgotten" for pair, epoch in forgotten.items()]
    show(given, lines=lines or ["nothing was remembered"], forgotten=forgotten)


@command.command("remove")
@fleet_options
@agent_argument
@click.option("--keep-certificates", is_flag=True, help="Do not put its certificates on the blocklist.")
@click.option("--yes", is_flag=True, help="Do it; without this only tell what it means.")
def remove_command(agent: str, *, keep_certificates: bool, yes: bool, **given: Any) -> None:
    """Forget an agent: its cluster Secret goes, its certificates are blocked, its Applications stay."""

    async def remove(store: LiveStore) -> tuple[Registered, int | None]:
        fleet = _fleet(store, given)
        if not yes:
            return await fleet.get(agent), None
        return await fleet.remove(agent, block=not keep_certificates)

    found, left = on_principal(given, remove)
    blocked = [] if keep_certificates else list(found.fingerprints)
    where = f"Secret {given['principal_namespace']}/{found.secret}"
    if left is None:
        lines = [
            f"would delete {where} and block {len(blocked)} certificate{'' if len(blocked) == 1 else 's'}; --yes does it",
        ]
    else:
        lines = [f"removed agent {agent}: {where}", *(f"blocked {each}" for each in blocked)]
        if left:
            lines.append(
                f"{left} Applications stay in namespace {agent}: delete them, or give them to another agent"
            )
    show(
        given, lines=lines, agent=agent, removed=left is not None, blocked=blocked, applicationsLeft=left or 0
    )


async def _look(
    store: LiveStore, given: dict[str, Any], *, only: str = "", troubles: dict[str, Trouble] | None = None
) -> FleetView:
    """`troubles` are those of before, where they shall not be looked for."""
    fleet = _fleet(store, given)
    agents = [await fleet.get(only)] if only else await fleet.all()
    told = NOBODY
    if agents:
        told = await ask_principal(
            store,
            namespace=given["principal_namespace"],
            service=given["principal_service"],
            url=given["principal_url"],
        )
    return FleetView(
        agents=agents,
        told=told,
        blocked=await fleet.blocked(),
        troubles=await fleet.troubles(agents) if troubles is None else troubles,
    )


async def _fingerprints(store: LiveStore, agent: str, given: dict[str, Any]) -> tuple[str, ...]:
    """Given ones, or all that are known."""
    if given["certificate"] is not None:
        return (_read_fingerprint(given["certificate"]),)
    if given["fingerprint"]:
        plain = given["fingerprint"].replace(":", "").upper()
        if not Blocklist.of({"data": {plain: ""}}).fingerprints:
            raise CallError(f"{given['fingerprint']!r} is no SHA-256 in hex: 64 digits")
        return (plain,)
    known = (await _fleet(store, given).get(agent)).fingerprints
    if not known:
        raise CallError(
            f"no certificate of {agent} is known here: give --certificate FILE or --fingerprint HEX"
        )
    return known


def _read_fingerprint(path: Path) -> str:
    try:
        return fingerprint_of(path.read_bytes(), origin=str(path))
    except OSError as error:
        raise CallError(f"{path} cannot be read: {error.strerror}") from error


def _blocked_word(fingerprint: str, blocked: Blocklist) -> str:
    return " (blocked)" if fingerprint in blocked.fingerprints else ""


def _label(given: str) -> tuple[str, str]:
    key, separator, value = given.partition("=")
    if not separator or not key:
        raise CallError(f"--label {given}: write it as KEY=VALUE")
    return key, value


def _fleet(store: LiveStore, given: dict[str, Any]) -> Fleet:
    return Fleet(store=store, namespace=given["principal_namespace"])
