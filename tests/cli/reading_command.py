"""The least that a command on a real API server does, for tests of what it says when it cannot."""

from pathlib import Path

import click

from kube.live import LiveStore
from kube.resources import NAMESPACES
from tiphys import settings
from tiphys.running import Running, run


@click.command(cls=settings.Command)
@click.option("--kubeconfig", type=click.Path(path_type=Path))
@click.option("--deadline", type=settings.DURATION, default="10s")
def command(*, kubeconfig: Path | None, deadline: float) -> None:
    async def look(_running: Running) -> None:
        store = await LiveStore.connect(kubeconfig=kubeconfig, deadline=deadline)
        try:
            page = await store.list(NAMESPACES, limit=100)
        finally:
            await store.close()
        click.echo(" ".join(item["metadata"]["name"] for item in page.items))

    run(look)
