"""Logs from a container to a reader at the control plane, with everything real but the kubelet."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import aiohttp
import pytest

from sidecars.proxies.logs import session as log_sessions
from sidecars.proxies.pods.data_sessions import DataSessions
from tests.sidecars.proxies.pod_scene import PATIENCE, POD_PATH, PodScene, pod_scene
from tests.sidecars.proxies.pods_api import NAMESPACE, Container
from tests.sidecars.proxies.redis.redis_servers import eventually

LOG = f"{POD_PATH}/log"


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[PodScene]:
    async with pod_scene(tmp_path) as made:
        yield made


def line(number: int) -> tuple[str, bytes]:
    """Ten lines a second, some at the same time."""
    return (
        f"2026-01-01T10:{number // 600 % 60:02d}:{number // 10 % 60:02d}.{number % 10 // 3}Z",
        b"line %d" % number,
    )


def _was_asked(container: Container, times: int) -> bool:
    return len(container.asked) > times


async def test_a_log_comes_with_timestamps_only_where_they_are_asked_for(scene: PodScene) -> None:
    await scene.agent_comes()
    scene.pods.container.lines = [line(number) for number in range(3)]
    async with scene.get(LOG) as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert await answer.read() == b"line 0\nline 1\nline 2\n"
    async with scene.get(f"{LOG}?timestamps=true&tailLines=1&container=") as answer:
        assert await answer.read() == b"2026-01-01T10:00:00.0Z line 2\n"
    assert scene.pods.container.asked[-1] == {"timestamps": "true", "tailLines": "1"}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (400, 'container "web" in pod "web-1" is waiting to start: ContainerCreating'),
        (403, 'pods "web-1" is forbidden: User cannot get resource "pods/log"'),
        (404, 'container "x" not found'),
        (500, "the kubelet is away"),
    ],
)
async def test_what_the_api_server_says_reaches_the_reader_as_it_is(
    scene: PodScene, code: int, words: str
) -> None:
    await scene.agent_comes()
    scene.pods.container.refusal = code, words
    async with scene.get(f"{LOG}?follow=true") as answer:
        assert (answer.status, (await answer.json())["message"]) == (code, words)


async def test_what_is_not_shown_is_said_at_once(scene: PodScene) -> None:
    await scene.agent_comes()
    async with scene.get(LOG.replace("web-1", "none")) as answer:
        assert (answer.status, (await answer.json())["message"]) == (404, 'pods "none" not found')
    scene.pods.owner = "somebody-else"
    async with scene.get(LOG) as answer:
        assert answer.status == 403
        assert "no tracking mark" in (await answer.json())["message"]
    async with scene.get(f"{LOG}?tailLines=all") as answer:
        assert (answer.status, (await answer.json())["message"]) == (400, "tailLines: 'all' is no number")
    async with scene.get(LOG, Impersonate_User="system:admin") as answer:
        assert answer.status == 403
    await scene.agent_goes()
    async with scene.get(LOG) as answer:
        assert answer.status == 502
    await scene.agent_comes(logs=False)
    async with scene.get(LOG) as answer:
        assert (answer.status, "--enable-logs" in (await answer.json())["message"]) == (403, True)
    await scene.agent_goes()
    await scene.agent_comes(resource_proxy_namespaces=(f"not-{NAMESPACE}",))
    async with scene.get(LOG) as answer:
        assert (answer.status, "is not shown" in (await answer.json())["message"]) == (403, True)


async def test_a_log_that_is_followed_ends_when_its_container_does(scene: PodScene) -> None:
    await scene.agent_comes()
    container = scene.pods.container
    container.running = True
    async with scene.get(f"{LOG}?follow=true") as answer:
        assert answer.status == 200
        for number in range(5):
            container.write(*line(number))
            assert await answer.content.readline() == line(number)[1] + b"\n"
        container.end()
        async with asyncio.timeout(PATIENCE):
            assert await answer.read() == b""


async def test_a_reader_who_leaves_ends_it_at_the_api_server(scene: PodScene) -> None:
    process = await scene.agent_comes()
    scene.pods.container.running = True
    answer = await scene.get(f"{LOG}?follow=true")
    assert answer.status == 200
    handler = process._agent.dispatcher._served["containerlog"].handler
    await eventually(lambda: handler._running)
    answer.close()
    await eventually(lambda: not handler._running)
    assert len(scene.principal._log_proxy._sessions) == 0


@pytest.mark.parametrize("timestamps", ["", "&timestamps=true"])
async def test_after_a_break_a_log_goes_on_without_gap_and_repeat(scene: PodScene, timestamps: str) -> None:
    await scene.agent_comes()
    container = scene.pods.container
    container.running = True
    container.lines = [line(number) for number in range(40)]
    read = b""
    async with scene.get(f"{LOG}?follow=true{timestamps}") as answer:
        for turn in range(1, 4):
            read += await answer.content.readline()
            scene.break_connection()
            await eventually(partial(_was_asked, container, turn))
            for number in range(turn * 40, turn * 40 + 40):
                container.write(*line(number))
        container.end()
        async with asyncio.timeout(PATIENCE):
            read += await answer.read()
    lines = [line(number) for number in range(160)]
    assert read == b"".join(
        (time.encode() + b" " if timestamps else b"") + text + b"\n" for time, text in lines
    )
    assert len(container.asked) == 4


async def test_a_log_that_the_api_server_breaks_off_is_asked_for_again(scene: PodScene) -> None:
    await scene.agent_comes()
    container = scene.pods.container
    container.lines = [line(number) for number in range(5000)]
    container.breaks_after = 60_000
    async with scene.get(LOG) as answer:
        assert await answer.read() == b"".join(line(number)[1] + b"\n" for number in range(5000))
    assert len(container.asked) == 2


async def test_an_agent_that_does_not_come_back_breaks_the_log_off(
    scene: PodScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_sessions, "RESUME_SECONDS", 0.1)
    await scene.agent_comes()
    scene.pods.container.running = True
    scene.pods.container.lines = [line(0)]
    async with scene.get(f"{LOG}?follow=true") as answer:
        assert await answer.content.readline() == b"line 0\n"
        await scene.agent_goes()
        with pytest.raises(aiohttp.ClientError):
            await asyncio.wait_for(answer.read(), PATIENCE)


async def test_more_logs_than_are_served_are_refused(
    scene: PodScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.agent_comes()
    monkeypatch.setattr(scene.principal._log_proxy, "_sessions", DataSessions(per_agent=1, what="logs"))
    scene.pods.container.running = True
    async with scene.get(f"{LOG}?follow=true") as first:
        assert first.status == 200
        async with scene.get(LOG) as answer:
            assert (answer.status, (await answer.json())["message"]) == (
                429,
                "1 logs of agent prod are open: close some",
            )
