"""A real client-go, as argocd-server has it, before our principal and before the stand-in itself: WebSocket and SPDY."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scripts.cluster.binaries import Binaries
from sidecars.proxies.pods.data_sessions import DataSessions
from tests.sidecars.proxies.pod_scene import AGENT, PATIENCE, PodScene, pod_scene
from tests.sidecars.proxies.pods_api import NAMESPACE, POD
from tests.sidecars.proxies.spdy import PROTOCOL
from tests.sidecars.proxies.terminal.shell import FAILED, Shell

EVERY_BYTE = bytes(range(256)) * 300
ECHO = ("exec", "-i", POD, "--", "sh")


@dataclass(frozen=True)
class Ended:
    code: int
    shown: bytes
    words: str


class ClientGo:
    """kubectl: its exec is what argocd-server's terminal is made of, by the same switch."""

    def __init__(self, kubectl: Path, scene: PodScene, folder: Path) -> None:
        self._kubectl = kubectl
        self._folder = folder
        pair = scene.pki.pair(AGENT, server=False)
        self._servers = {
            "principal": {
                "server": scene.url,
                "certificate-authority-data": _encoded(scene.pki.authority.pair.certificate),
            },
            "stand-in": {"server": f"http://127.0.0.1:{scene.pods.port}"},
        }
        self._user = {
            "client-certificate-data": _encoded(pair.certificate),
            "client-key-data": _encoded(pair.key),
        }

    async def __call__(
        self, *words: str, to: str = "principal", websockets: bool = True, typed: bytes = b""
    ) -> Ended:
        config = self._folder / f"{to}.kubeconfig"
        named = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "x",
            "clusters": [{"name": "x", "cluster": self._servers[to]}],
            "users": [{"name": "x", "user": self._user if to == "principal" else {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x", "namespace": NAMESPACE}}],
        }
        config.write_text(json.dumps(named))
        process = await asyncio.create_subprocess_exec(
            self._kubectl,
            *("--kubeconfig", config, "--cache-dir", self._folder / to),
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": str(websockets).lower(), "HOME": str(self._folder)},
        )
        try:
            async with asyncio.timeout(PATIENCE):
                shown, words_of = await process.communicate(typed)
        finally:
            if process.returncode is None:
                process.kill()
        return Ended(process.returncode or 0, shown, words_of.decode())


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[PodScene]:
    async with pod_scene(tmp_path) as made:
        made.shell = Shell()
        made.pods.execute = made.shell
        yield made


@pytest.fixture
def client_go(scene: PodScene, cluster_binaries: Binaries, tmp_path: Path) -> ClientGo:
    return ClientGo(cluster_binaries.kubectl, scene, tmp_path)


@pytest.mark.parametrize("websockets", [True, False])
async def test_the_stand_in_is_taken_for_an_api_server(
    scene: PodScene, client_go: ClientGo, *, websockets: bool
) -> None:
    came = await client_go(*ECHO, to="stand-in", websockets=websockets, typed=EVERY_BYTE)
    assert (came.code, came.shown, came.words) == (0, EVERY_BYTE, "")
    scene.shell.outcome = FAILED
    assert (await client_go(*ECHO, to="stand-in", websockets=websockets)).code == 137
    assert set(scene.shell.protocols) == {"v5.channel.k8s.io" if websockets else PROTOCOL}


async def test_a_command_through_both_sidecars_is_as_one_beside_the_api_server(
    scene: PodScene, client_go: ClientGo
) -> None:
    await scene.agent_comes(terminals=True)
    came = await client_go(*ECHO, typed=EVERY_BYTE)
    assert (came.code, came.shown, came.words) == (0, EVERY_BYTE, "")
    scene.shell.outcome = FAILED
    assert (await client_go(*ECHO)).code == 137
    assert set(scene.shell.protocols) == {"v5.channel.k8s.io"}


async def test_a_client_that_speaks_spdy_alone_is_told_what_to_do(
    scene: PodScene, client_go: ClientGo
) -> None:
    await scene.agent_comes(terminals=True)
    refused = await client_go(*ECHO, websockets=False)
    assert refused.code == 1
    assert "SPDY is not served: whatever stands between Argo CD and this port must let WebSockets" in (
        refused.words
    )
    assert scene.shell.queries == []


async def test_an_api_server_that_speaks_spdy_alone_is_told_to_the_caller(
    scene: PodScene, client_go: ClientGo
) -> None:
    await scene.agent_comes(terminals=True)
    scene.pods.protocols = (PROTOCOL,)
    assert (await client_go(*ECHO, to="stand-in", typed=b"tea")).shown == b"tea"  # falls back by itself
    refused = await client_go(*ECHO)
    assert refused.code == 1
    assert "the API server opens no WebSocket for exec, and SPDY is not spoken here (Upgrade request" in (
        refused.words
    )


async def test_why_there_is_no_terminal_is_what_the_client_shows_at_last(
    scene: PodScene, client_go: ClientGo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks for a WebSocket, and again by SPDY: neither answer may hide the cause."""
    await scene.agent_comes()
    assert "this agent opens no terminals: --enable-exec" in (await client_go(*ECHO)).words
    none = DataSessions[Any](per_agent=0, what="terminals")
    monkeypatch.setattr(scene.principal._terminal_proxy, "_sessions", none)
    assert "0 terminals of agent prod are open: close some" in (await client_go(*ECHO)).words
    await scene.agent_goes()
    assert "agent prod is not connected" in (await client_go(*ECHO)).words


async def test_logs_are_read_as_beside_the_api_server(scene: PodScene, client_go: ClientGo) -> None:
    await scene.agent_comes()
    scene.pods.container.lines = [
        (f"2026-01-01T10:00:0{number}.000000000Z", b"line %d" % number) for number in range(5)
    ]
    read = await client_go("logs", POD)
    assert (read.code, read.shown) == (0, b"".join(b"line %d\n" % number for number in range(5))), read.words
    scene.pods.container.refusal = (
        400,
        'container "web" in pod "web-1" is waiting to start: ContainerCreating',
    )
    read = await client_go("logs", POD)
    assert read.code == 1
    assert 'container "web" in pod "web-1" is waiting to start: ContainerCreating' in read.words
