"""What a shell offers after Tab: agents and projects as the cluster has them, contexts, rules.

It never asks for long, and where it gets no answer it offers nothing and says nothing: somebody is typing.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from argocd import names, reading

if TYPE_CHECKING:
    from kube.live import LiveStore

ANSWER_SECONDS = 2.0
OFFERED = 200
"""More nobody reads."""


def complete_agents(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    async def ask(store: "LiveStore") -> Iterable[str]:
        from kube.resources import SECRETS  # noqa: PLC0415 - most completions ask nobody

        selector = f"{names.SECRET_TYPE}={names.SECRET_TYPE_CLUSTER},{names.AGENT_NAME}"
        page = await store.list(SECRETS, namespace=_namespace(ctx), label_selector=selector)
        return [secret["metadata"]["labels"][names.AGENT_NAME] for secret in page.items]

    return _offered(_answers(ctx, ask), incomplete)


def complete_projects(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    async def ask(store: "LiveStore") -> Iterable[str]:
        from kube.resources import APP_PROJECTS  # noqa: PLC0415

        page = await store.list(APP_PROJECTS, namespace=_namespace(ctx))
        return [project["metadata"]["name"] for project in page.items]

    return _offered(_answers(ctx, ask), incomplete)


def complete_applications(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    async def ask(store: "LiveStore") -> Iterable[str]:
        from kube.resources import APPLICATIONS  # noqa: PLC0415

        page = await store.list(APPLICATIONS, limit=OFFERED)
        return [f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in page.items]

    return _offered(_answers(ctx, ask), incomplete)


def complete_rules(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from argocd.rules.catalogue import CATALOGUE  # noqa: PLC0415

    return _offered((rule.id for rule in CATALOGUE), incomplete)


def complete_contexts(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    try:
        return _offered(_contexts(ctx.params.get("kubeconfig")), incomplete)
    except Exception:  # noqa: BLE001 - see above
        return []


def _contexts(kubeconfig: Path | None) -> Iterator[str]:
    """Without the client, which takes longer to import than a file to read."""
    import yaml  # noqa: PLC0415

    named = str(kubeconfig) if kubeconfig else os.environ.get("KUBECONFIG") or "~/.kube/config"
    for path in named.split(os.pathsep):
        file = Path(path).expanduser()
        if file.is_file():
            told = yaml.safe_load(file.read_text())
            yield from (reading.text(each, "name") for each in reading.sequence(told, "contexts"))


def _offered(found: Iterable[str], incomplete: str) -> list[CompletionItem]:
    fitting = sorted({each for each in found if each.startswith(incomplete)})
    return [CompletionItem(each) for each in fitting[:OFFERED]]


def _namespace(ctx: click.Context) -> str:
    given = ctx.params.get("principal_namespace") or ctx.params.get("argocd_namespace")
    return given or names.DEFAULT_NAMESPACE


def _answers(ctx: click.Context, ask: Callable[["LiveStore"], Awaitable[Iterable[str]]]) -> Iterable[str]:
    """Of the cluster that the words before name."""
    given = ctx.params
    kubeconfig, context = given.get("kubeconfig"), given.get("context") or given.get("principal_context")
    try:
        return asyncio.run(_asked(kubeconfig, context, ask))
    except Exception:  # noqa: BLE001 - see above
        return ()


async def _asked(
    kubeconfig: Path | None, context: str | None, ask: Callable[["LiveStore"], Awaitable[Any]]
) -> Any:
    from kube.live import LiveStore  # noqa: PLC0415

    async with asyncio.timeout(ANSWER_SECONDS):
        store = await LiveStore.connect(kubeconfig=kubeconfig, context=context, deadline=ANSWER_SECONDS)
        try:
            return await ask(store)
        finally:
            await store.close()
