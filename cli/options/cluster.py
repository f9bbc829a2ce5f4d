"""What commands that talk to an API server share: which cluster, which namespaces, one connection."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import click

from argocd import names
from kube.live import LiveStore

T = TypeVar("T")

NAMESPACE_OPTIONS = (
    click.option(
        "--namespace", default=names.TIPHYS_NAMESPACE, show_default=True, help="Tiphys's own namespace."
    ),
    click.option(
        "--argocd-namespace", default=names.DEFAULT_NAMESPACE, show_default=True, help="Argo CD's namespace."
    ),
    click.option(
        "--application-namespace",
        "application_namespaces",
        multiple=True,
        help="Another namespace in which Argo CD takes Applications; may be repeated.",
    ),
    click.option(
        "--kubeconfig", type=click.Path(path_type=Path), help="Without it: KUBECONFIG, the pod's account."
    ),
    click.option("--context", help="A context of the kubeconfig."),
)


def namespaced(command: Any) -> Any:
    for option in reversed(NAMESPACE_OPTIONS):
        command = option(command)
    return command


def ask(given: dict[str, Any], question: Callable[[LiveStore], Coroutine[Any, Any, T]]) -> T:
    """`given` are the options above; the connection is closed whatever happens."""

    async def asking() -> T:
        store = await LiveStore.connect(kubeconfig=given["kubeconfig"], context=given["context"])
        try:
            return await question(store)
        finally:
            await store.close()

    return asyncio.run(asking())
