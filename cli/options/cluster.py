"""Which cluster, and one connection to it. Importing this imports no client: many commands do without."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cli.completion import complete_contexts
from cli.options import F, combined

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kube.live import LiveStore
    from kube.store import Resource

T = TypeVar("T")


def kubeconfig_option(text: str = "Without it: KUBECONFIG, the pod's account.") -> Callable[[F], F]:
    return click.option("--kubeconfig", type=click.Path(path_type=Path), help=text)


def context_option(
    name: str = "--context", *, text: str = "A context of the kubeconfig.", envvar: str | None = None
) -> Callable[[F], F]:
    return click.option(name, envvar=envvar, help=text, shell_complete=complete_contexts)


cluster_options = combined(kubeconfig_option(), context_option())

optional_cluster_options = combined(
    kubeconfig_option("Ask the cluster that this file tells of."),
    context_option(text="Ask the cluster of this context of the kubeconfig."),
)


@asynccontextmanager
async def connected(*, kubeconfig: Path | None, context: str | None) -> AsyncIterator["LiveStore"]:
    """Closed whatever happens."""
    # Only here: the client costs more than all that files need.
    from kube.live import LiveStore  # noqa: PLC0415

    store = await LiveStore.connect(kubeconfig=kubeconfig, context=context)
    try:
        yield store
    finally:
        await store.close()


async def counted(
    store: "LiveStore", resources: "Iterable[Resource]", *, namespace: str | None = None
) -> int | None:
    """How many objects there are of these kinds, for a bar; None where somebody does not tell."""
    from kube.errors import ApiError  # noqa: PLC0415 - as above

    total = 0
    for resource in resources:
        try:
            found = await store.count(resource, namespace=namespace)
        except ApiError:
            return None
        if found is None:
            return None
        total += found
    return total


def ask(given: Mapping[str, Any], question: Callable[["LiveStore"], Awaitable[T]]) -> T:
    """`given` are the options above."""
    import asyncio  # noqa: PLC0415 - a tenth of the start-up of a command that asks nobody

    async def answered() -> T:
        async with connected(kubeconfig=given["kubeconfig"], context=given["context"]) as store:
            return await question(store)

    return asyncio.run(answered())
