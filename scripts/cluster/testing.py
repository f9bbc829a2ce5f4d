"""What the fixtures of `tests/conftest.py` hand out; import these names to annotate a test's arguments."""

import asyncio
import subprocess
from functools import cached_property
from pathlib import Path

from scripts.cluster.binaries import Binaries
from scripts.cluster.controlplane import KUBECTL_SECONDS, Cluster, ClusterError


class Clusters:
    """Up to three control planes, each started when it is first asked for and shared until the session ends."""

    def __init__(self, binaries: Binaries) -> None:
        self._binaries = binaries
        self._started: list[Cluster] = []

    @cached_property
    def control_plane(self) -> Cluster:
        return self._start("control-plane")

    @cached_property
    def standby(self) -> Cluster:
        return self._start("standby")

    @cached_property
    def workload(self) -> Cluster:
        return self._start("workload")

    def stop(self) -> None:
        for cluster in self._started:
            cluster.stop()

    def _start(self, name: str) -> Cluster:
        cluster = Cluster(name=name, binaries=self._binaries).start()
        self._started.append(cluster)
        return cluster


class Kubectl:
    """`kubectl("get", "ns")` blocks; `await kubectl.awaited(…)` lets a webhook in this process answer."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __call__(
        self, *arguments: str, stdin: str | None = None, kubeconfig: Path | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        return self._cluster.kubectl(*arguments, stdin=stdin, kubeconfig=kubeconfig, check=check)

    async def awaited(
        self, *arguments: str, stdin: str | None = None, kubeconfig: Path | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        command = self._cluster.kubectl_command(*arguments, kubeconfig=kubeconfig)
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE if stdin is not None else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(KUBECTL_SECONDS):
                out, err = await process.communicate(stdin.encode() if stdin is not None else None)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        code = process.returncode or 0
        if check and code:
            raise ClusterError(f"kubectl {' '.join(arguments)} ended with {code}: {err.decode()}")
        return subprocess.CompletedProcess(command, code, out.decode(), err.decode())
