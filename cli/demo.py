"""`tiphys demo`: what exists so far, on two clusters inside this process."""

import asyncio
from typing import Any

import click

from kube.embedded import EmbeddedStore
from kube.resources import APP_PROJECTS
from kube.store import EventKind, Object, Store
from tiphys.running import Running, run

NAMESPACE = "argocd"
STEP_SECONDS = 10.0  # each step takes milliseconds; a bound, so that a mistake shows instead of hanging
LEAVE_SECONDS = 2.0  # nothing here needs longer to end


@click.command()
@click.option("--once", is_flag=True, help="End after the story instead of waiting for Ctrl-C.")
def command(*, once: bool) -> None:
    """Write a project to one embedded cluster and watch it arrive on another."""

    async def story(running: Running) -> None:
        await _tell(running, once=once)

    run(story, grace=LEAVE_SECONDS)
    click.echo("The demonstration has ended; it leaves nothing behind.")


async def _tell(running: Running, *, once: bool) -> None:
    control_plane = EmbeddedStore(namespaces=[NAMESPACE])
    workload = EmbeddedStore(namespaces=[NAMESPACE])
    arrived: asyncio.Queue[Object] = asyncio.Queue(maxsize=16)  # the story writes two
    running.start(_copy_projects(control_plane, workload), name="copying")
    running.start(_report_projects(workload, arrived), name="watching")
    click.echo(
        "Two clusters run inside this process: a control plane and a workload cluster.\n"
        "Between them is a plain copying loop. The webhook and the sidecars are not part of this yet."
    )
    project = _project("web", destinations=[{"server": "https://kubernetes.default.svc", "namespace": "web"}])
    stored = await control_plane.create(APP_PROJECTS, project, namespace=NAMESPACE)
    click.echo(f"control plane   wrote    {_line(stored)}")
    await _show_next(arrived)
    stored["spec"]["sourceRepos"] = ["https://git.example.org/web.git"]
    stored = await control_plane.replace(APP_PROJECTS, stored)
    click.echo(f"control plane   changed  {_line(stored)}")
    await _show_next(arrived)
    if not once:
        click.echo("That is all so far. It stays up until Ctrl-C.")
        await running.stopping.wait()


async def _copy_projects(source: EmbeddedStore, target: Store) -> None:
    async for event in source.watch(APP_PROJECTS, namespace=NAMESPACE, resource_version="0"):
        if event.kind is EventKind.ADDED:
            copied = _project(event.object["metadata"]["name"], **event.object["spec"])
            await target.create(APP_PROJECTS, copied, namespace=NAMESPACE)
        elif event.kind is EventKind.MODIFIED:
            name = event.object["metadata"]["name"]
            there = await target.get(APP_PROJECTS, name=name, namespace=NAMESPACE)
            await target.replace(APP_PROJECTS, {**there, "spec": event.object["spec"]})


async def _report_projects(store: Store, arrived: asyncio.Queue[Object]) -> None:
    async for event in store.watch(APP_PROJECTS, namespace=NAMESPACE, resource_version="0"):
        if event.kind is not EventKind.BOOKMARK:
            await arrived.put(event.object)


async def _show_next(arrived: asyncio.Queue[Object]) -> None:
    async with asyncio.timeout(STEP_SECONDS):
        click.echo(f"workload        sees     {_line(await arrived.get())}")


def _project(name: str, **spec: Any) -> Object:
    return {
        "apiVersion": APP_PROJECTS.api_version,
        "kind": APP_PROJECTS.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }


def _line(project: Object) -> str:
    metadata = project["metadata"]
    repos = ", ".join(project["spec"].get("sourceRepos", [])) or "none"
    return f"AppProject {metadata['name']}  sources: {repos}  (resourceVersion {metadata['resourceVersion']})"
