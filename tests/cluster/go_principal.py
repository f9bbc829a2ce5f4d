"""A principal and an agent of a real argocd-agent beside clusters: processes that can be killed, one of a pair with one of ours."""

import asyncio
import shutil
import signal
import subprocess
from pathlib import Path

import aiohttp

from certs.key_pair import KeyPair, Material
from scripts.argocd_agent import AGENTCTL, BINARY, agent_arguments, principal_arguments
from scripts.cluster.controlplane import Cluster
from scripts.ports import free_port
from tests.cluster.installation import tiphys
from tests.cluster.paired_hubs import AGENT, ARGOCD, PATIENCE, Forwarder, Hub, word


class Door(Forwarder):
    """What a name in DNS does for an agent: `hub` is who is behind it."""

    def __init__(self, hub: "Hub | GoPrincipal") -> None:
        super().__init__()
        self.hub = hub

    async def target(self) -> int | None:
        return self.hub.port


class GoAgent:
    """A managed one, on a cluster of its own."""

    def __init__(self, cluster: Cluster, folder: Path, *, name: str = AGENT) -> None:
        self.name = name
        self.cluster = cluster
        self._folder = folder / f"go-agent-{name}"
        self._folder.mkdir()
        self._process: subprocess.Popen[bytes] | None = None
        self.log = self._folder / "log"

    def equip(self, ours: Hub) -> None:
        """With a certificate of our authority."""
        made = self._folder / "made"
        tiphys(ours.cluster, "pki", "issue", "agent", self.name, "--output", str(made))
        for of_made, name in (("tls.crt", "agent.crt"), ("tls.key", "agent.key"), ("ca.crt", "ca.crt")):
            shutil.copy(made / of_made, self._folder / name)
        self.cluster.create_namespace(ARGOCD)

    def start(self, port: int, *more: str) -> None:
        arguments = agent_arguments(self._folder, self.cluster, ARGOCD, port, "managed")
        # The certificate of the principals is for the name.
        self._process = subprocess.Popen(
            [BINARY, *arguments, "--server-address=localhost", *more],
            stdout=self.log.open("ab"),
            stderr=subprocess.STDOUT,
        )

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=30)
            self._process = None


class GoPrincipal:
    """Has the name and the ports of a `Hub`, as far as its peer asks."""

    def __init__(self, name: str, cluster: Cluster, folder: Path) -> None:
        self.name = name
        self.cluster = cluster
        self._folder = folder / f"go-{name}"
        self._folder.mkdir()
        self.port, self.health, self.admin_port = free_port(), free_port(), free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.log = self._folder / "log"

    def equip(self, ours: Hub) -> None:
        """With an authority, certificates and namespaces; the peer's cluster is equipped too."""
        ours.install()
        tiphys(ours.cluster, "pki", "init")
        names_of = ("--dns", "localhost")
        issue = ("pki", "issue", "principal", "--identity")
        tiphys(ours.cluster, *issue, f"principal-{ours.name}", *names_of)
        tiphys(
            ours.cluster, *issue, f"principal-{self.name}", *names_of, "--output", str(self._folder / "made")
        )
        for made, name in (("tls.crt", "principal.crt"), ("tls.key", "principal.key"), ("ca.crt", "ca.crt")):
            shutil.copy(self._folder / "made" / made, self._folder / name)
        for namespace in (ARGOCD, AGENT):
            self.cluster.create_namespace(namespace)

    def start(self, ours: Hub, *more: str, role: str) -> None:
        arguments = principal_arguments(
            self._folder, self.cluster, ARGOCD, self.port, allowed=f"{ARGOCD},{AGENT}"
        )
        self.process = subprocess.Popen(
            [
                *(BINARY, *arguments, f"--healthz-port={self.health}", "--ha-enabled"),
                *(f"--ha-preferred-role={role}", f"--ha-peer-address=localhost:{ours.port}"),
                f"--ha-allowed-replication-clients=principal-{ours.name}",
                *(f"--ha-admin-port={self.admin_port}", *more),
            ],
            stdout=self.log.open("ab"),
            stderr=subprocess.STDOUT,
        )

    @property
    def material(self) -> Material:
        certificate, key, roots = (
            (self._folder / name).read_bytes() for name in ("principal.crt", "principal.key", "ca.crt")
        )
        return Material(pair=KeyPair(certificate, key), roots=roots)

    @property
    def health_url(self) -> str:
        return f"http://127.0.0.1:{self.health}/healthz"

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(timeout=30)
            self.process = None

    async def state(self) -> str:
        try:
            async with aiohttp.ClientSession() as session, session.get(self.health_url) as answer:
                return answer.headers.get("X-HA-State", "")
        except aiohttp.ClientError:
            return "down"

    async def until(self, *states: str) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while await self.state() not in states:  # noqa: ASYNC110 - of another process
                    await asyncio.sleep(0.1)
        except TimeoutError:
            tail = self.log.read_text()[-3000:]
            raise AssertionError(f"it is {await self.state()}, not {states}\n{tail}") from None


class MixedPair:
    def __init__(self, ours: Hub, go: GoPrincipal) -> None:
        self.ours, self.go = ours, go
        ours.peer = go  # type: ignore[assignment]
        go.equip(ours)

    def start_ours(self, role: str, *more: str) -> None:
        self.ours.start("--ha-peer-health-url", self.go.health_url, *more, role=role)

    def start_go(self, role: str, *more: str) -> None:
        self.go.start(self.ours, *more, role=role)

    def kill(self) -> None:
        self.ours.kill()
        self.go.kill()


async def forced(hub: Hub, *, epoch: int) -> tuple[str, int]:
    return await hub.admin.change_role("Promote", word(force=True, epoch=epoch))


def agentctl(port: int, *words: str, refused: str = "") -> str:
    """`argocd-agentctl ha …` at an admin port; whatever it asks, the answer is yes. `refused`: with which words."""
    done = subprocess.run(
        [AGENTCTL, "ha", *words, "-a", f"127.0.0.1:{port}"],
        input="y\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    told = done.stdout + done.stderr
    assert bool(done.returncode) is bool(refused), told
    assert refused in told
    return done.stdout
