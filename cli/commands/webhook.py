"""`tiphys webhook`: serves reviews; `register`, `unregister` and `status` talk to the API server about it."""

import os
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from certs.folder import read
from cli.options import format_option
from cli.options.cluster import ask, cluster_options
from cli.options.namespaces import namespace_options, scope_of
from cli.output import LIST_FORMS, TEXT, ListColumns, ListRow, show_list
from kube.live import LiveStore
from tiphys import logs, settings
from tiphys.errors import CallError
from tiphys.loopback import is_loopback
from tiphys.running import Running, run
from webhook.keeper.keeper import CertificateOrigin, KeeperOptions, replica_identity
from webhook.keeper.worker_reports import LONGEST_FOLDER
from webhook.registration.register import register, unregister
from webhook.registration.status import Replica, Status, bundle_to_register, check_url, status
from webhook.registration.table import Registration
from webhook.server.arbiters import ReviewPort
from webhook.server.options import WebhookOptions
from webhook.server.supervisor import serve

SERVICE = "tiphys-webhook"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - the API server and the kubelet come from other machines
LOOPBACK = "127.0.0.1"
REPLICAS = ListColumns(("REPLICA", "VERSION", "ALIVE", "LEADER"))
MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of the container's own, in memory


@click.group(cls=settings.Group, invoke_without_command=True)
@namespace_options
@cluster_options
@click.option("--host", default=EVERYWHERE, show_default=True, help="Where reviews are listened for.")
@click.option("--port", default=8443, show_default=True, help="The TLS port for reviews.")
@click.option(
    "--client-ca",
    type=click.Path(path_type=Path),
    help="Take reviews only from a client whose certificate these authorities signed: the API server's.",
)
@click.option("--probes-host", default=EVERYWHERE, show_default=True, help="Where probes are answered.")
@click.option(
    "--probes-port", default=8080, show_default=True, help="The plain port for probes and metrics alone."
)
@click.option(
    "--pages-host",
    default=LOOPBACK,
    show_default=True,
    help="Where people are answered: a loopback address, which `kubectl port-forward` reaches.",
)
@click.option("--pages-port", default=8081, show_default=True, help="The plain port for the status page.")
@click.option("--workers", default=2, show_default=True, help="Review processes.")
@click.option(
    "--connections",
    default=512,
    show_default=True,
    help="Connections of one worker at most, and half as many of one address; each may come to hold 80 KiB.",
)
@click.option(
    "--drain-seconds", default=15.0, show_default=True, help="How long reviews are still taken after SIGTERM."
)
@click.option(
    "--certificates",
    type=click.Choice([source.value for source in CertificateOrigin]),
    default=CertificateOrigin.OWN.value,
    show_default=True,
    help="An authority of our own, or files that somebody else renews (cert-manager).",
)
@click.option(
    "--certificate-folder", type=click.Path(path_type=Path), help="With files: tls.crt, tls.key and ca.crt."
)
@click.option(
    "--runtime-folder",
    type=click.Path(path_type=Path),
    default=MEMORY,
    show_default=True,
    help="A memory-backed folder for the processes of this pod.",
)
@click.option(
    "--no-secret-cache",
    is_flag=True,
    help="Do not watch Secrets; rules on clusters and repositories are silent.",
)
@click.option(
    "--denial-events",
    is_flag=True,
    help="Write an event beside each refused object, one every five seconds at most.",
)
@settings.log_options
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Answer the API server's reviews until SIGTERM."""
    ctx.obj = given
    if ctx.invoked_subcommand is not None:
        return
    source = CertificateOrigin(given["certificates"])
    if source is CertificateOrigin.FILES and given["certificate_folder"] is None:
        raise click.UsageError("--certificates files needs --certificate-folder")
    if given["pages_host"] != "localhost" and not is_loopback(given["pages_host"]):
        raise click.UsageError(
            f"--pages-host {given['pages_host']}: the status page asks nobody who he is, so it is for loopback alone;"
            " for others let a proxy in the pod log them in"
        )
    if len(os.fsencode(given["runtime_folder"])) > LONGEST_FOLDER:
        raise click.UsageError(
            f"--runtime-folder: Unix sockets take at most {LONGEST_FOLDER} bytes; choose a shorter path"
        )
    logs.configure(level=given["log_level"], form=given["log_format"])
    options = _options(given, source)

    async def reviewing(running: Running) -> None:
        await serve(running, options)

    run(reviewing, grace=given["drain_seconds"] + 30)


def _options(given: dict[str, Any], source: CertificateOrigin) -> WebhookOptions:
    scope = scope_of(given, secrets=not given["no_secret_cache"])
    return WebhookOptions(
        keeper=KeeperOptions(
            scope=scope,
            folder=given["runtime_folder"],
            identity=replica_identity(),
            review_port=given["port"],
            certificates=source,
            certificate_folder=given["certificate_folder"],
            denial_events=given["denial_events"],
            dns_names=(
                f"{SERVICE}.{scope.home}.svc",
                f"{SERVICE}.{scope.home}.svc.cluster.local",
                "localhost",
            ),
        ),
        review_port=ReviewPort(
            host=given["host"],
            port=given["port"],
            workers=given["workers"],
            connections=given["connections"],
            drain_seconds=given["drain_seconds"],
            client_ca=given["client_ca"],
        ),
        registration=_registration(given),
        probes_host=given["probes_host"],
        probes_port=given["probes_port"],
        pages_host=given["pages_host"],
        pages_port=given["pages_port"],
        kubeconfig=given["kubeconfig"],
        context=given["context"],
        log_level=given["log_level"],
        log_format=given["log_format"],
    )


def _registration(given: dict[str, Any]) -> Registration:
    return Registration(
        argocd_namespace=given["argocd_namespace"],
        application_namespaces=given["application_namespaces"],
        home=given["namespace"],
    )


@command.command("register")
@click.option("--url", default="", help="Where the API server finds the webhook if not by its Service.")
@click.option(
    "--ca-file", type=click.Path(path_type=Path), help="The authorities to trust, instead of our own."
)
@click.pass_obj
def register_command(given: dict[str, Any], url: str, ca_file: Path | None) -> None:
    """Tell the API server to ask us, once a server answers with a certificate that it will trust."""
    registration = replace(_registration(given), url=url)
    if registration.home == registration.argocd_namespace:
        raise CallError(
            f"Tiphys cannot live in Argo CD's namespace {registration.home}: what guards it would guard itself;"
            " use a namespace of its own (--namespace)"
        )
    file_bundle = read(ca_file.parent, ca_file.name) if ca_file else b""

    async def registering(store: LiveStore) -> list[str]:
        bundle = file_bundle or await bundle_to_register(store, registration, now=datetime.now(UTC))
        if url:
            check_url(url, bundle=bundle)
        return await register(store, registration, bundle=bundle)

    for done in ask(given, registering):
        click.echo(f"registered {done}")


@command.command("status")
@format_option(LIST_FORMS, text="For people or for programs; wide and name list the replicas.")
@click.pass_obj
def status_command(given: dict[str, Any], form: str) -> None:
    """Say whether this cluster is guarded, by a dry run of a project that must be refused."""
    found = ask(given, lambda store: status(store, _registration(given), now=datetime.now(UTC)))
    if form == TEXT:
        for line in found.lines():
            click.echo(line)
    else:
        show_list(
            REPLICAS,
            [_replica_row(each, found) for each in found.replicas],
            form=form,
            empty="no replicas",
            notes=[*found.lines_of_protection(), *found.lines_of_trouble()],
            told=asdict(found),
        )
    if not found.guarded:
        raise click.exceptions.Exit(1)


def _replica_row(replica: Replica, found: Status) -> ListRow:
    words = {True: "yes", False: "no"}
    cells = (replica.name, replica.version, words[replica.alive], words[replica.name == found.leader])
    return ListRow(replica.name, cells)


@command.command("unregister")
@click.pass_obj
def unregister_command(given: dict[str, Any]) -> None:
    """Take the webhook out of the way, now. Works with nothing else running."""
    removed = ask(given, lambda store: unregister(store, home=given["namespace"]))
    for gone in removed:
        click.echo(f"removed {gone.kind} {gone.name}")
        if gone.owner:
            click.echo(
                f"  it is also managed by {gone.owner}, which may put it back without a caBundle: then writes to"
                " Argo CD's kinds fail until `tiphys webhook register`. Stop that first, then unregister again"
            )
    if not removed:
        click.echo("nothing was registered")
