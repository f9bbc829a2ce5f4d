"""An Application's update from hub to agent while many follow logs of that agent, beside the same while nobody does.

On real API servers; the agent reads logs from a stand-in, for no kubelet runs here. Who follows, and the stand-in, is a process of
its own, as Argo CD is.
"""

import asyncio
import ssl
import statistics
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path

import aiohttp

from argocd.agents.vocabulary import Mode
from kube.live import LiveStore
from kube.live.raw import RawApi
from kube.resources import APPLICATIONS
from scripts.bench.figures import Figure
from scripts.bench.live_sidecars import run_principal
from scripts.bench.paired import AGENT, Pair, application, pair_with, tell
from scripts.bench.pods_api import LOG, pods_api, write_kubeconfig
from scripts.bench.sidecar_processes import NAMESPACE, Papers, child, cpu_seconds, dialing, quiet
from scripts.cluster.controlplane import Cluster
from scripts.ports import free_port
from sidecars.agent import process as agent_running
from sidecars.agent.settings import AgentSettings

NAME = (
    "followed logs: Applications propagate while logs of the same agent are followed, TLS, real API servers"
)

FOLLOWERS = 200
UPDATES = 30
TURNS = 2
READY_SECONDS = 60.0
GOAL = 1.5


class _PodsElsewhere(LiveStore):
    """Objects at a real API server, pods at the stand-in."""

    pods: RawApi

    @property
    def raw(self) -> RawApi:
        return self.pods


def run_agent(kubeconfig: str, pods: str, folder: str, port: int) -> None:
    async def serve() -> None:
        store = await _PodsElsewhere.connect(kubeconfig=kubeconfig)
        store.pods = (await LiveStore.connect(kubeconfig=pods)).raw
        papers = Papers(Path(folder))
        options = agent_running.AgentOptions(
            settings=AgentSettings(mode=Mode.MANAGED, namespace=NAMESPACE),
            dialing=dialing(papers, port=port, pair=None),
            source=papers.files(AGENT),
            health_host="127.0.0.1",
            health_port=0,
            metrics_port=0,
        )
        await agent_running.AgentProcess(store, options).run()

    quiet()
    asyncio.run(serve())


@contextmanager
def sidecars(
    hub: Cluster, workload: Cluster, folder: Path, *, resource_port: int, pods_port: int
) -> Iterator[list[int]]:
    port, pods = free_port(), write_kubeconfig(folder, port=pods_port)
    with (
        child(run_principal, str(hub.kubeconfig), str(folder), port, resource_port) as principal,
        child(run_agent, str(workload.kubeconfig), pods, str(folder), port) as agent,
    ):
        yield [principal.pid, agent.pid]


def run_followers(folder: str, resource_port: int, pods_port: int) -> None:
    """Each is told a line a second, and reads it."""
    context = ssl.create_default_context(cafile=f"{folder}/ca.crt")
    context.load_cert_chain(f"{folder}/{AGENT}.crt", f"{folder}/{AGENT}.key")
    url = f"https://localhost:{resource_port}{LOG}?follow=true"
    following = Path(folder, "following")

    async def follow(answer: aiohttp.ClientResponse) -> None:
        async for _ in answer.content:
            pass
        raise AssertionError("a log that is followed has ended")

    async def main() -> None:
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
            await stack.enter_async_context(pods_api(port=pods_port))
            connector = aiohttp.TCPConnector(ssl=context, limit=0)
            session = await stack.enter_async_context(
                aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None))
            )
            for _ in range(FOLLOWERS):
                answer = await stack.enter_async_context(session.get(url))
                if answer.status != 200:  # noqa: PLR2004 - OK
                    raise AssertionError(await answer.text())
                group.create_task(follow(answer))
            following.touch()  # noqa: ASYNC240 - once, and nobody waits

    asyncio.run(main())


async def measure(pair: Pair, resource_port: int, pods_port: int) -> list[Figure]:
    next(pair.numbers)  # the first is the revision that it is created with
    times: dict[bool, list[float]] = {False: [], True: []}
    cpu: list[float] = []
    async with pair.arrival.open() as arrival:
        created = asyncio.ensure_future(arrival.until(["shop"], lambda _: True))
        await asyncio.sleep(0)  # it looks before anything is written
        await pair.hub.create(APPLICATIONS, application("shop"), namespace=AGENT)
        await created
        update = partial(pair.update, pair.hub, AGENT, arrival, "shop")
        for _ in range(TURNS):
            tell("nobody follows")
            times[False] += [await update() * 1e3 for _ in range(UPDATES)]
            tell(f"{FOLLOWERS} follow")
            ready = pair.folder / "following"
            ready.unlink(missing_ok=True)
            with child(run_followers, str(pair.folder), resource_port, pods_port) as process:
                async with asyncio.timeout(READY_SECONDS):
                    while not ready.exists():
                        if not process.is_alive():
                            raise AssertionError("who follows has ended")
                        await asyncio.sleep(0.1)
                before, began = cpu_seconds(*pair.sidecars), asyncio.get_running_loop().time()
                times[True] += [await update() * 1e3 for _ in range(UPDATES)]
                seconds = asyncio.get_running_loop().time() - began
                cpu.append((cpu_seconds(*pair.sidecars) - before) / seconds)
    quantiles = {
        followed: statistics.quantiles(each, n=100, method="inclusive") for followed, each in times.items()
    }
    return [
        Figure(
            f"an Application's update while {FOLLOWERS} logs are followed, p{at}",
            quantiles[True][at - 1],
            "ms",
            than="while nobody follows",
            theirs=quantiles[False][at - 1],
            goal=goal,
        )
        for at, goal in ((50, GOAL), (90, None))
    ] + [Figure("CPU of both sidecars meanwhile", statistics.mean(cpu), "cores")]


async def run() -> list[Figure]:
    resource_port, pods_port = free_port(), free_port()
    async with pair_with(partial(sidecars, resource_port=resource_port, pods_port=pods_port)) as pair:
        return await measure(pair, resource_port, pods_port)
