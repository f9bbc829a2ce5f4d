"""The two commands as a pod starts them: real processes, real API servers, certificates from Secrets."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from scripts.cluster.testing import Clusters
from scripts.ports import free_port
from tests.cluster.sidecar_ends import Ends
from tests.sidecars.pair_in_memory import project

ROOT = Path(__file__).parents[2]
START_SECONDS = 60.0


@asynccontextmanager
async def command(*arguments: str, says: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Once it has said so; it must end well when it is asked to."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith("TIPHYS_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "cli",
        *arguments,
        "--log-format",
        "json",
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env=environment,
    )
    assert process.stderr is not None
    try:
        lines: list[str] = []
        async with asyncio.timeout(START_SECONDS):
            while says not in (line := (await process.stderr.readline()).decode()):
                assert line, f"it ended: {lines}"
                lines.append(line)
        reading = asyncio.ensure_future(process.stderr.read())
        yield process
        process.terminate()
        async with asyncio.timeout(START_SECONDS):
            last = await reading
            assert await process.wait() == 0, last.decode()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_two_commands_carry_a_project(ends: Ends, clusters: Clusters) -> None:
    await ends.equip()
    port = str(free_port())
    async with (
        command(
            "principal",
            *("--kubeconfig", str(clusters.control_plane.kubeconfig)),
            *("--namespace", ends.hub_namespace),
            *("--listen-host", "127.0.0.1", "--listen-port", port),
            *("--healthz-port", "0", "--metrics-port", "0", "--agents-port", "0"),
            *("--insecure-jwt-generate", "--disable-redis-proxy"),
            says="listening for agents",
        ),
        command(
            "agent",
            *("--kubeconfig", str(clusters.workload.kubeconfig)),
            *("--namespace", ends.agent_namespace),
            *("--server-address", "localhost", "--server-port", port),
            *("--healthz-port", "0", "--metrics-port", "0"),
            *("--agent-mode", "managed"),
            says='"connected"',
        ),
    ):
        await ends.create_on_hub(project())
        await ends.on_workload(lambda there: "web" in there)
