"""`tiphys pki`: the fleet's authority and certificates. Private keys go into Secrets or files, never to a screen."""

import os
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from argocd import names
from certs.authority import KeyType
from certs.folder import BUNDLE, CERTIFICATE, KEY
from certs.key_pair import KeyPair
from cli.completion import complete_agents, complete_contexts
from cli.options import combined
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
from cli.output import NAME, WIDE, ListColumns, ListRow, show, show_list
from kube.live import LiveStore
from sidecars.fleet.agents import Fleet
from sidecars.fleet.pki import (
    AUTHORITY_LIFETIME,
    LEAF_LIFETIME,
    Certificate,
    Pki,
    deliver_to_agent,
    described,
)
from tiphys.command_group import CommandGroup
from tiphys.errors import CallError, SurroundingsError
from tiphys.printable import visible

COLUMNS = ListColumns(("SECRET", "COMMON NAME", "STATE", "ENDS"), ("KEY", "ISSUER", "SHA-256"))
REPLACE = click.option("--replace", is_flag=True, help="Make it anew where there is one.")
DNS = click.option(
    "--dns", "dns_names", multiple=True, help="A name under which it is dialled; may be repeated."
)
IP = click.option(
    "--ip", "addresses", multiple=True, help="An address under which it is dialled; may be repeated."
)
server_options = combined(fleet_options, DNS, IP, days(LEAF_LIFETIME), KEY_TYPE, REPLACE)


@click.group(cls=CommandGroup)
def command() -> None:
    """Certificates of principals and agents, in the Secrets that argocd-agent reads."""


@command.command("init")
@fleet_options
@days(AUTHORITY_LIFETIME)
@KEY_TYPE
@REPLACE
@click.option(
    "--key-secret",
    default="",
    metavar="NAMESPACE/NAME",
    help="Where the authority's key goes instead, out of the principal's reach.",
)
def init_command(*, days: int, key_type: str, replace: bool, key_secret: str, **given: Any) -> None:
    """Make the authority, and the key for tokens where there is none."""

    async def init(store: LiveStore) -> tuple[Certificate, bool]:
        return await _pki(store, given).init(
            now=now(),
            lifetime=timedelta(days=days),
            key_type=KeyType(key_type),
            replace=replace,
            key_secret=key_secret,
        )

    authority, token_key = on_principal(given, init)
    lines = certificate_lines(authority, at=now())
    if token_key:
        lines.append(
            f"made the key for tokens: Secret {given['principal_namespace']}/{names.AGENT_JWT_SECRET}"
        )
    show(given, lines=lines, authority=certificate_told(authority, at=now()), tokenKeyMade=token_key)


@command.group("issue", cls=CommandGroup)
def issue_command() -> None:
    """Sign a certificate."""


def _issue_server(secret: str, service: str, given: dict[str, Any]) -> None:
    async def issue(store: LiveStore) -> Certificate:
        return await _pki(store, given).issue_server(
            secret,
            service=service,
            dns_names=given["dns_names"],
            addresses=given["addresses"],
            now=now(),
            lifetime=timedelta(days=given["days"]),
            key_type=KeyType(given["key_type"]),
            replace=given["replace"],
        )

    _tell_server(issue, given)


@issue_command.command("principal")
@server_options
@click.option(
    "--identity",
    default="",
    help="Of one of a pair: the name by which its peer knows it. The certificate is a client's too.",
)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="With --identity: write tls.crt, tls.key and ca.crt into this folder, for the other cluster.",
)
def issue_principal_command(**given: Any) -> None:
    """The principal's: give the names and addresses that agents dial."""
    if not given["identity"]:
        if given["output"] is not None:
            raise CallError("--output: for a principal of a pair, which has an --identity")
        _issue_server(names.PRINCIPAL_TLS_SECRET, names.PRINCIPAL_SERVICE, given)
        return

    async def issue(store: LiveStore) -> Certificate:
        pki = _pki(store, given)
        pair, authority = await pki.issue_paired_principal(
            given["identity"],
            dns_names=given["dns_names"],
            addresses=given["addresses"],
            now=now(),
            lifetime=timedelta(days=given["days"]),
            key_type=KeyType(given["key_type"]),
        )
        if given["output"] is not None:
            return _write(given["output"], pair, authority, replace=given["replace"])
        await pki.write(names.PRINCIPAL_TLS_SECRET, pair, replace=given["replace"])
        return described(pair.leaf, where=f"Secret {pki.namespace}/{names.PRINCIPAL_TLS_SECRET}")

    _tell_server(issue, given)


@issue_command.command("resource-proxy")
@server_options
def issue_proxy_command(**given: Any) -> None:
    """The resource proxy's, which Argo CD dials."""
    _issue_server(names.RESOURCE_PROXY_TLS_SECRET, names.RESOURCE_PROXY_SERVICE, given)


@issue_command.command("redis-proxy")
@server_options
def issue_redis_proxy_command(**given: Any) -> None:
    """The Redis proxy's, which argocd-server dials."""
    _issue_server(names.REDIS_PROXY_TLS_SECRET, names.REDIS_PROXY_SERVICE, given)


@issue_command.command("redis-client")
@fleet_options
@days(LEAF_LIFETIME)
@KEY_TYPE
@REPLACE
def issue_redis_client_command(**given: Any) -> None:
    """argocd-server's, for the Redis proxy where the Redis behind it has no password."""

    async def issue(store: LiveStore) -> Certificate:
        return await _pki(store, given).issue_redis_client(
            now=now(),
            lifetime=timedelta(days=given["days"]),
            key_type=KeyType(given["key_type"]),
            replace=given["replace"],
        )

    _tell(on_principal(given, issue), given)


@issue_command.command("agent")
@fleet_options
@click.argument("agent", shell_complete=complete_agents)
@click.option(
    "--agent-context",
    envvar="ARGOCD_AGENT_AGENT_CONTEXT",
    shell_complete=complete_contexts,
    help="Write it to the cluster of this context of the kubeconfig.",
)
@click.option(
    "--agent-namespace",
    envvar="ARGOCD_AGENT_AGENT_NAMESPACE",
    default=names.DEFAULT_NAMESPACE,
    show_default=True,
    help="The agent's namespace there.",
)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write tls.crt, tls.key and ca.crt into this folder instead.",
)
@days(LEAF_LIFETIME)
@KEY_TYPE
@REPLACE
def issue_agent_command(agent: str, **given: Any) -> None:
    """An agent's: its one common name is AGENT."""
    output: Path | None = given["output"]
    if (output is None) == (given["agent_context"] is None):
        raise CallError("say where the certificate goes: --agent-context CONTEXT or --output FOLDER")

    async def issue(store: LiveStore) -> tuple[KeyPair, bytes]:
        return await _pki(store, given).issue_client(
            agent, now=now(), lifetime=timedelta(days=given["days"]), key_type=KeyType(given["key_type"])
        )

    async def deliver(store: LiveStore) -> Certificate:
        return await deliver_to_agent(
            store, pair, authority, namespace=given["agent_namespace"], replace=given["replace"]
        )

    async def note(store: LiveStore) -> bool:
        fleet = Fleet(store=store, namespace=given["principal_namespace"])
        return await fleet.note_issued(agent, pair.fingerprint)

    pair, authority = on_principal(given, issue)
    if output is not None:
        issued = _write(output, pair, authority, replace=given["replace"])
    else:
        issued = on_principal(given, deliver, context=given["agent_context"])
    noted = on_principal(given, note)
    lines = certificate_lines(issued, at=now())
    if not noted:
        lines.append(f"there is no agent {agent} yet: make it with `tiphys agents create {agent}`")
    show(given, lines=lines, certificate=certificate_told(issued, at=now()), agentKnown=noted)


@command.command("inspect")
@fleet_list_options
def inspect_command(**given: Any) -> None:
    """Show the certificates of the principal's namespace, without their keys."""

    async def inspect(store: LiveStore) -> list[Certificate]:
        return await _pki(store, given).inspect()

    found, at = on_principal(given, inspect), now()
    namespace = given["principal_namespace"]
    if given["form"] in {WIDE, NAME}:
        rows = [_row(each) for each in found]
        show_list(COLUMNS, rows, form=given["form"], empty=f"no certificates in {namespace}", told=None)
        return
    lines = [line for each in found for line in certificate_lines(each, at=at)]
    show(
        given,
        lines=lines or [f"no certificates in {namespace}: begin with `tiphys pki init`"],
        certificates=[certificate_told(each, at=at) for each in found],
    )


def _row(certificate: Certificate) -> ListRow:
    cells = (
        certificate.where,
        " and ".join(certificate.common_names),
        certificate.state(now()),
        f"{certificate.ends:%Y-%m-%d}",
    )
    more = (certificate.key, visible(certificate.issuer), certificate.fingerprint)
    return ListRow(certificate.where.rpartition(" ")[2], cells, more)


def _tell_server(issue: Callable[[LiveStore], Awaitable[Certificate]], given: dict[str, Any]) -> None:
    try:
        _tell(on_principal(given, issue), given)
    except ValueError as error:
        raise CallError(f"a name or address for the certificate is wrong: {error}") from error


def _tell(certificate: Certificate, given: dict[str, Any]) -> None:
    told = certificate_told(certificate, at=now())
    show(given, lines=certificate_lines(certificate, at=now()), certificate=told)


def _write(folder: Path, pair: KeyPair, authority: bytes, *, replace: bool) -> Certificate:
    """The key is its owner's alone from its first byte on."""
    parts = {CERTIFICATE: pair.certificate, KEY: pair.key, BUNDLE: authority}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not replace and (there := [name for name in parts if (folder / name).exists()]):
            raise CallError(f"{folder / there[0]} exists already: --replace writes over it")
        for name, content in parts.items():
            (folder / name).unlink(missing_ok=True)
            descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
    except OSError as error:
        raise SurroundingsError(f"{folder} cannot be written to: {error.strerror}") from error
    return described(pair.leaf, where=str(folder / CERTIFICATE))


def _pki(store: LiveStore, given: dict[str, Any]) -> Pki:
    return Pki(store=store, namespace=given["principal_namespace"])
