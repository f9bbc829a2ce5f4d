"""One agent that means harm, against a principal's own process on a real API server: it harms only itself."""

import asyncio
import re
import signal
import statistics
import sys
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from argocd import names
from argocd.agents.vocabulary import Message, Mode, Target
from kube.resources import APP_PROJECTS, APPLICATIONS, CONFIG_MAPS
from kube.store import Object, PatchKind
from scripts.cluster.testing import Clusters
from scripts.ports import free_port
from sidecars.wire.client.dialer import AgentConnection, DialError, connect
from sidecars.wire.events import object_event
from tests.cluster import rogue_agent
from tests.cluster.sidecar_ends import Ends
from tests.cluster.test_sidecars_commands import ROOT, command
from tests.sidecars.pair_in_memory import Hub, described, project

# An agent whose events are refused is made to rest: the larger number takes minutes.
REFUSED, MANY_REFUSED = 2_000, 10_000
HARM_SECONDS = 600.0
MEBIBYTE = 1 << 20
# For a process that works to get the processor again, on two cores that a dozen others want too.
SCHEDULING = 0.05
# Turns, and changes of each.
TURNS, EACH = 5, 6
STARTS = 4


def resident(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) << 10


async def propagation(ends: Ends, name: str, *, rounds: int) -> list[float]:
    """Seconds from a change on the hub to the good agent's cluster."""
    seconds = []
    for number in range(rounds):
        text = f"{name}-{number}"
        began = time.monotonic()
        patch = {"spec": {"description": text}}
        await ends.hub.patch(
            APP_PROJECTS, patch, name="web", namespace=ends.hub_namespace, kind=PatchKind.MERGE
        )
        await ends.on_workload(described("web", text))
        seconds.append(time.monotonic() - began)
    return seconds


async def in_turns(ends: Ends, rogue: Process) -> tuple[float, float]:
    """Of the quicker half, the median: while the rogue agent is held and while it is not, in turns. This machine has
    other work too, and who works a little waits for the processor longer than who does nothing: that is not ours.
    """
    calm: list[float] = []
    busy: list[float] = []
    for turn in range(TURNS):
        rogue.send_signal(signal.SIGSTOP)
        # What it has sent already is dealt with during the first of them.
        calm += (await propagation(ends, f"calm-{turn}", rounds=2 * EACH))[EACH:]
        rogue.send_signal(signal.SIGCONT)
        busy += await propagation(ends, f"busy-{turn}", rounds=EACH)
    print(f"medians of all: {statistics.median(calm):.3f} s and {statistics.median(busy):.3f} s")  # noqa: T201
    return statistics.quantiles(calm, n=4)[0], statistics.quantiles(busy, n=4)[0]


class World:
    def __init__(self, ends: Ends, folder: Path, port: int) -> None:
        self.ends = ends
        self.folder = folder
        self.port = port

    async def equip(self, *agents: str) -> None:
        """Certificates of agents, those of `ends` besides."""
        await self.ends.equip()
        (self.folder / "ca.crt").write_bytes(self.ends.pki.authority.pair.certificate)
        for name in agents:
            pair = self.ends.pki.pair(name, server=False)
            (self.folder / f"{name}.crt").write_bytes(pair.certificate)
            (self.folder / f"{name}.key").write_bytes(pair.key)
            await Hub(self.ends.hub, namespace=self.ends.hub_namespace).know(name)
            if name == "blocked":
                body = {"metadata": {"name": names.TLS_BLOCKLIST}, "data": {pair.fingerprint: ""}}
                await self.ends.hub.create(CONFIG_MAPS, body, namespace=self.ends.hub_namespace)

    async def dialled(self, name: str, mode: Mode) -> AgentConnection:
        return await connect(rogue_agent.dialing(self.folder, self.port, name=name, mode=mode))

    async def snapshot(self) -> dict[str, Object]:
        """Every project of the hub but the one that the test changes, and every Application of anybody."""
        projects = await self.ends.hub.list(APP_PROJECTS, namespace=self.ends.hub_namespace)
        applications = await self.ends.hub.list(APPLICATIONS)
        return {
            f"{item['metadata']['namespace']}/{item['metadata']['name']}": item["spec"]
            for item in (*projects.items, *applications.items)
            if item["metadata"]["name"] != "web"
        }


class Blocked:
    """A blocked certificate at the door all the time."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._refused = asyncio.Event()
        self.let_in: list[str] = []

    @asynccontextmanager
    async def hammering(self) -> AsyncIterator["Blocked"]:
        task = asyncio.ensure_future(self._hammer())
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def refused(self) -> None:
        """By a principal that has answered it, from now on."""
        self._refused.clear()
        async with asyncio.timeout(60):
            await self._refused.wait()

    async def _hammer(self) -> None:
        while True:
            try:
                connection = await self._world.dialled("blocked", Mode.MANAGED)
                event = await connection.receive()
                self.let_in.append(str(event))
            except DialError as error:
                if error.hopeless:
                    self._refused.set()
            except (OSError, TimeoutError):
                pass
            except Exception as error:  # noqa: BLE001 - a stream that was opened and cut is judged by the test
                self.let_in.append(str(error))
            await asyncio.sleep(0.02)  # as a Go agent that is refused comes back


def started(ends: Ends, clusters: Clusters, world: World) -> AbstractAsyncContextManager[Process]:
    """A principal's own process."""
    return command(
        "principal",
        *("--kubeconfig", str(clusters.control_plane.kubeconfig)),
        *("--namespace", ends.hub_namespace, "--allowed-namespaces", "*"),
        *("--listen-host", "127.0.0.1", "--listen-port", str(world.port)),
        *("--healthz-port", "0", "--metrics-port", "0", "--agents-port", "0"),
        *("--insecure-jwt-generate", "--disable-redis-proxy"),
        says="listening for agents",
    )


@pytest.mark.timeout(HARM_SECONDS)
async def test_a_blocked_certificate_that_never_stops_asking_gets_in_at_no_start(
    ends: Ends, clusters: Clusters, tmp_path: Path
) -> None:
    world = World(ends, tmp_path, free_port())
    await world.equip("blocked")
    async with Blocked(world).hammering() as blocked:
        for _ in range(STARTS):
            async with started(ends, clusters, world):
                await blocked.refused()
    assert not blocked.let_in


@pytest.mark.timeout(HARM_SECONDS * 2)
@pytest.mark.parametrize("refused", [REFUSED, pytest.param(MANY_REFUSED, marks=pytest.mark.proof)])
async def test_a_rogue_agent_harms_only_itself(
    ends: Ends, clusters: Clusters, tmp_path: Path, refused: int
) -> None:
    world = World(ends, tmp_path, free_port())
    await world.equip("edge", "edge-b", "was-managed", "blocked")
    ends.port = world.port
    async with (
        Blocked(world).hammering() as blocked,
        started(ends, clusters, world) as principal,
        ends.connected(),
    ):
        await ends.create_on_hub(project())
        await ends.on_workload(lambda there: "web" in there)

        # An agent that was managed comes as an autonomous one.
        await (await world.dialled("was-managed", Mode.MANAGED)).close()
        with pytest.raises(DialError, match="logs in as autonomous, but is managed here"):
            await world.dialled("was-managed", Mode.AUTONOMOUS)

        # A mirror of edge-b's, and edge, which knows its uid.
        await _tell(await world.dialled("edge-b", Mode.AUTONOMOUS), "c", uid="known")
        await ends.on_hub(lambda there: "edge-b-c" in there)
        before = await world.snapshot()
        await _tell(await world.dialled("edge", Mode.AUTONOMOUS), "b-c", uid="known")

        # Thousands of refused events and comparisons without end, while others work.
        memory = resident(principal.pid)
        rogue = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.cluster.rogue_agent", str(tmp_path)),
            *(str(world.port), str(refused)),
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
        )
        assert rogue.stdout is not None
        try:
            async with asyncio.timeout(HARM_SECONDS):
                assert await rogue.stdout.readline() == b"began\n"
                calm, busy = await in_turns(ends, rogue)
                assert await rogue.stdout.readline() == b"done\n"
                assert await rogue.wait() == 0
        finally:
            if rogue.returncode is None:
                rogue.kill()
                await rogue.wait()
        print(f"propagation: {calm * 1000:.0f} ms calm, {busy * 1000:.0f} ms beside the rogue agent")  # noqa: T201
        print(f"memory: {memory >> 20} MiB before, {resident(principal.pid) >> 20} MiB after")  # noqa: T201
        assert await world.snapshot() == before
        assert resident(principal.pid) - memory < 32 * MEBIBYTE
        assert busy < 2 * calm + SCHEDULING
        await blocked.refused()
    assert not blocked.let_in


async def _tell(connection: AgentConnection, name: str, *, uid: str) -> None:
    told = project(name)
    told["metadata"] |= {"uid": uid, "resourceVersion": "1"}
    event = object_event(Message.CREATE, target=Target.PROJECT, obj=told)
    async with asyncio.timeout(60):
        await connection.send(event)
        while (answer := await connection.receive()) is not None:
            if answer.is_acknowledgement and answer.event_id == event.event_id:
                break
    await connection.close()
