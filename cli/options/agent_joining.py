"""`tiphys agents create --manifests` and `--helm-values`: all that the agent's cluster needs, in one stream."""

import sys
from datetime import timedelta
from typing import Any

import click
import yaml

from argocd import names
from argocd.agents.vocabulary import Mode
from certs.authority import KeyType
from cli.options import combined
from cli.options.fleet import now, on_principal
from kube.live import LiveStore
from sidecars.fleet.agents import Fleet
from sidecars.fleet.joining import DEFAULT_PORT, Joining, address_of_principal, check_certificate
from sidecars.fleet.pki import Pki
from tiphys import __version__
from tiphys.errors import CallError

joining_options = combined(
    click.option(
        "--manifests",
        is_flag=True,
        help="Print its certificate, the principal's address and the agent, for `kubectl apply -f -` on its cluster.",
    ),
    click.option(
        "--helm-values", is_flag=True, help="Print the same as values of the chart in manifests/chart."
    ),
    click.option(
        "--server-address",
        default="",
        help="With either: where agents reach the principal. [default: the address of its Service]",
    ),
    click.option("--server-port", default=DEFAULT_PORT, show_default=True, help="With either: its port."),
    click.option(
        "--image", default="", help=f"With either: the agent's image. [default: tiphys:{__version__}]"
    ),
    click.option(
        "--agent-namespace",
        default=names.DEFAULT_NAMESPACE,
        show_default=True,
        help="With either: Argo CD's namespace on the agent's cluster.",
    ),
)


def is_joining(given: dict[str, Any]) -> bool:
    if given["manifests"] and given["helm_values"]:
        raise click.UsageError("--manifests or --helm-values, not both")
    return bool(given["manifests"] or given["helm_values"])


def check_joining(given: dict[str, Any]) -> None:
    """Before anything is made: what would fail later, when the agent is there already."""
    if sys.stdout.isatty():
        raise CallError("the stream holds a private key: pipe it to `kubectl apply -f -` or `helm`")

    async def find(store: LiveStore) -> str:
        namespace = given["principal_namespace"]
        address = given["server_address"] or await address_of_principal(store, namespace=namespace)
        await check_certificate(store, namespace=namespace, address=address)
        return address

    given["server_address"] = on_principal(given, find)


def print_joining(agent: str, given: dict[str, Any]) -> None:
    async def issue(store: LiveStore) -> Joining:
        pki = Pki(store=store, namespace=given["principal_namespace"])
        pair, authority = await pki.issue_client(
            agent, now=now(), lifetime=timedelta(days=given["days"]), key_type=KeyType(given["key_type"])
        )
        await Fleet(store=store, namespace=given["principal_namespace"]).note_issued(agent, pair.fingerprint)
        return Joining(
            agent=agent,
            mode=Mode(given["mode"] or Mode.MANAGED),
            namespace=given["agent_namespace"],
            address=given["server_address"],
            port=given["server_port"],
            image=given["image"] or (f"tiphys:{__version__}" if given["manifests"] else ""),
            pair=pair,
            authority=authority,
        )

    joining = on_principal(given, issue)
    if given["manifests"]:
        click.echo(yaml.safe_dump_all(joining.objects(), sort_keys=False), nl=False)
    else:
        click.echo(yaml.safe_dump(joining.helm_values(), sort_keys=False), nl=False)
