"""Principal and agent on real API servers. Apart, for the client of those occupies more than an idle principal."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from argocd.agents.vocabulary import Mode
from kube.live import LiveStore
from kube.store import Store
from scripts.bench.sidecar_processes import NAMESPACE, Papers, dialing, principal_of, quiet
from sidecars.agent import process as agent_running
from sidecars.agent.settings import AgentSettings


def run_principal(kubeconfig: str, folder: str, port: int, resource_port: int = 0) -> None:
    async def serve(store: Store) -> None:
        await principal_of(store, Papers(Path(folder)), port=port, resource_port=resource_port).run()

    run_with_store(kubeconfig, serve)


def run_agent(kubeconfig: str, folder: str, port: int, name: str) -> None:
    async def serve(store: Store) -> None:
        papers = Papers(Path(folder))
        serving = agent_running.AgentOptions(
            settings=AgentSettings(mode=Mode.MANAGED, namespace=NAMESPACE),
            dialing=dialing(papers, port=port, pair=None),
            source=papers.files(name),
            health_host="127.0.0.1",
            health_port=0,
            metrics_port=0,
        )
        await agent_running.AgentProcess(store, serving).run()

    run_with_store(kubeconfig, serve)


def run_with_store(kubeconfig: str, serve: Callable[[Store], Awaitable[None]]) -> None:
    quiet()

    async def main() -> None:
        store = await LiveStore.connect(kubeconfig=kubeconfig)
        await serve(store)

    asyncio.run(main())
