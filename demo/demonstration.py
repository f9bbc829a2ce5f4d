"""The demonstration from its first line to its last."""

import asyncio
import sys
import tempfile
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import click

from argocd.agents.vocabulary import Mode
from demo.clusters import (
    AUTONOMOUS,
    CONTROL_PLANE,
    MANAGED,
    SECOND_REGION,
    DemoClusters,
    EmbeddedClusters,
)
from demo.control_socket import control_socket
from demo.embedded_webhook import embedded_webhook
from demo.local_clusters import LocalClusters, local_clusters
from demo.local_webhook import local_webhook
from demo.sidecars import DemoFleet
from demo.story import Story, prepare
from tiphys.running import Running

CLUSTERS = f"""a control plane, a second one in another region ({SECOND_REGION}),
a managed workload cluster ({MANAGED}) and an autonomous one ({AUTONOMOUS})"""
EMBEDDED = f"""\
Four clusters run inside this process: {CLUSTERS}. Their API servers are embedded stores: no
Argo CD and no controllers run on them. The webhook answers the control plane's reviews over HTTPS; the principals,
of which one is active, and the agents speak gRPC with mutual TLS. All listen on loopback only."""
LOCAL = f"""\
Four clusters start on this machine: {CLUSTERS}. Each is a real kube-apiserver with RBAC and
what manifests/ has for it: no Argo CD, no controllers and no nodes. The webhook is registered with the control plane
and runs under gunicorn; the principals, of which one is active, and the agents speak gRPC with mutual TLS. All listen
on loopback only."""

ARGO_CD = f"""\
Four clusters start on this machine: {CLUSTERS}. Each is a real kube-apiserver with RBAC and
what manifests/ has for it. The control plane has Argo CD's server and no application controller, {MANAGED} has a whole
Argo CD of its own without its pages, and both have the controllers of Kubernetes that it needs; there are no nodes. The
webhook is registered with the control plane and runs under gunicorn; the principals, of which one is active, and the
agents speak gRPC with mutual TLS. All listen on loopback only."""

MISTAKEN = '{"kind": "AppProject", "metadata": {"name": "mine"}, "spec": {"sourceRepos": ["!*"]}}'
TRY = f"""\
In another terminal:
  {{program}} demo get appproject web --cluster {MANAGED}
  echo '{MISTAKEN.replace("{", "{{").replace("}", "}}")}' | {{program}} demo apply -f -"""
TAKEN = "Another demonstration of yours is running: `tiphys demo apply` and `get` talk to that one."


class Stage(StrEnum):
    """Where the story is told."""

    EMBEDDED = "embedded"
    LOCAL = "local"
    LOCAL_WITH_ARGO_CD = "local with Argo CD"


INTRODUCTIONS = {Stage.EMBEDDED: EMBEDDED, Stage.LOCAL: LOCAL, Stage.LOCAL_WITH_ARGO_CD: ARGO_CD}


async def demonstrate(running: Running, *, once: bool, stage: Stage) -> None:
    with tempfile.TemporaryDirectory(prefix="tiphys-demo-") as folder:
        # What the story set up is taken down here, where Ctrl-C does not reach.
        async with AsyncExitStack() as stack:
            shown = _show(running, stack, Path(folder), once=once, stage=stage)
            await _until_stopped(running, shown)


async def _until_stopped(running: Running, shown: Coroutine[Any, Any, None]) -> None:
    """Whatever the story waits for, Ctrl-C does not."""
    story = asyncio.ensure_future(shown)
    stopping = asyncio.ensure_future(running.stopping.wait())
    try:
        await asyncio.wait({story, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (story, stopping):
            if not task.done():
                task.cancel()
        await asyncio.wait({story, stopping})
    if not story.cancelled():
        story.result()


async def _show(running: Running, stack: AsyncExitStack, folder: Path, *, once: bool, stage: Stage) -> None:
    click.echo(INTRODUCTIONS[stage])
    clusters: DemoClusters
    repository = ""
    if stage is not Stage.EMBEDDED:
        argocd = stage is Stage.LOCAL_WITH_ARGO_CD
        clusters = local_ones = await stack.enter_async_context(local_clusters(folder, argocd=argocd))
        repository = local_ones.servers[MANAGED].repository
        guarding = partial(local_webhook, local_ones, folder=folder)
    else:
        clusters = embedded = EmbeddedClusters()
        guarding = partial(embedded_webhook, running, embedded, folder=folder)
    await prepare(clusters)
    # First: until a principal has written its record, its cluster's fence refuses everybody.
    fleet = await stack.enter_async_context(DemoFleet(running, clusters, folder=folder))
    await fleet.start_principals()
    webhook = await stack.enter_async_context(guarding())
    stack.push_async_callback(fleet.end)
    await fleet.start_agent(MANAGED, mode=Mode.MANAGED)
    await fleet.start_agent(AUTONOMOUS, mode=Mode.AUTONOMOUS)
    await Story(clusters, webhook=webhook, fleet=fleet, repository=repository).tell()
    if once:
        return
    click.echo(f"\nThe webhook's status page: {webhook.page}")
    for cluster in (CONTROL_PLANE, SECOND_REGION):
        click.echo(f"The fleet page of {cluster}: {fleet.page(cluster)}")
    if isinstance(clusters, LocalClusters):
        _tell_kubeconfigs(clusters)
    reachable = await stack.enter_async_context(control_socket(clusters))
    click.echo(TRY.format(program=_program()) if reachable else TAKEN)
    for cluster, region in fleet.regions.items():
        click.echo(f"  {_program()} ha status --address {region.operator.address}  # {cluster}")
    click.echo("It stays up until Ctrl-C.")
    await running.stopping.wait()


def _program() -> str:
    """How this was called, for whoever calls it again: a checkout has no `tiphys` on the path."""
    if Path(sys.argv[0]).name != "__main__.py":
        return "tiphys"
    python = Path(sys.executable)
    here = python.relative_to(Path.cwd()) if python.is_relative_to(Path.cwd()) else python
    return f"{here} -m cli"


def _tell_kubeconfigs(clusters: LocalClusters) -> None:
    click.echo("Kubeconfigs of the administrators, for kubectl:")
    for name, server in clusters.servers.items():
        click.echo(f"  {name:<17}{server.kubeconfig}")
    click.echo(f"A kubectl of their version: {server.kubectl}")
    hub = clusters.servers[CONTROL_PLANE]
    if hub.argocd_server:
        click.echo(f"Argo CD: http://{hub.argocd_server}, user admin, password in {hub.argocd_password}")
        folder = clusters.servers[MANAGED].repository.removeprefix("file://")
        click.echo(f"What it deploys, to commit to: git -C {folder}")
