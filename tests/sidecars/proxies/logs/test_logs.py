"""Logs from a container to a reader at the control plane, with everything real but the kubelet."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import aiohttp
import pytest

from argocd.agents.vocabulary import Target
from sidecars.proxies.logs import session as log_sessions
from sidecars.proxies.pods.data_sessions import DataSessions
from sidecars.wire import payloads
from sidecars.wire.events import Event
from sidecars.wire.proxy_payloads import ContainerLogRequest
from tests.sidecars.proxies.pod_scene import AGENT, PATIENCE, POD_PATH, PodScene, pod_scene
from tests.sidecars.proxies.pods_api import NAMESPACE, POD, Container
from tests.sidecars.proxies.redis.redis_servers import eventually

LOG = f"{POD_PATH}/log"
MOST_OF_OURS = 18 << 20
"""A few chunks of 64 KiB, and some 12 MiB that grpc and aiohttp take before they tell a sender to wait."""


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
    async with scene.get(f"{LOG}?container=cache") as answer:
        words = "container cache is not valid for pod web-1"
        assert (answer.status, (await answer.json())["message"]) == (400, words)
    async with scene.get(f"{LOG}?container=web&previous=true") as answer:
        words = 'previous terminated container "web" in pod "web-1" not found'
        assert (answer.status, (await answer.json())["message"]) == (400, words)


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


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("stream=Stderr", "the parameter stream=Stderr is not served"),
        (
            "insecureSkipTLSVerifyBackend=true",
            "the parameter insecureSkipTLSVerifyBackend=true is not served",
        ),
        ("tailLines=1&tailLines=2", "the parameter tailLines is there twice"),
        ("limitBytes=0", "limitBytes: 0 is less than 1"),
    ],
)
async def test_what_no_agent_is_told_is_refused(scene: PodScene, query: str, words: str) -> None:
    await scene.agent_comes()
    async with scene.get(f"{LOG}?{query}") as answer:
        assert (answer.status, (await answer.json())["message"]) == (400, words)
    async with scene.get(f"{LOG}?stream=All&insecureSkipTLSVerifyBackend=false") as answer:
        assert answer.status == 200
    assert scene.pods.container.asked == [{"timestamps": "true"}]


@pytest.mark.parametrize("timestamps", ["false", "true"])
async def test_of_a_log_no_more_bytes_come_than_are_asked_for_over_all_calls(
    scene: PodScene, timestamps: str
) -> None:
    limit = 160
    await scene.agent_comes()
    container = scene.pods.container
    container.running = True
    container.lines = [line(number) for number in range(5)]
    whole = b"".join(
        (time.encode() + b" " if timestamps == "true" else b"") + text + b"\n"
        for time, text in map(line, range(40))
    )
    async with scene.get(f"{LOG}?follow=true&limitBytes={limit}&timestamps={timestamps}") as answer:
        read = await answer.content.readline()
        scene.break_connection()
        await eventually(partial(_was_asked, container, 1))
        for number in range(5, 40):
            container.write(*line(number))
        async with asyncio.timeout(PATIENCE):  # though the container runs on
            read += await answer.read()
    assert read == whole[:limit]
    assert all("limitBytes" not in asked for asked in container.asked)


async def test_for_a_principal_that_does_not_count_bytes_the_agent_does(scene: PodScene) -> None:
    process = await scene.agent_comes()
    scene.pods.container.lines = [line(number) for number in range(40)]
    for limit, expected in ((10, b"line 0\nlin"), (1000, b"".join(b"%b\n" % line(n)[1] for n in range(40)))):
        session = log_sessions.LogSession(uuid=str(limit), agent=AGENT, timestamps=False)
        scene.principal._log_proxy._sessions.add(session)
        asked = ContainerLogRequest(uuid=session.uuid, namespace=NAMESPACE, pod_name=POD, limit_bytes=limit)
        event = Event(
            type="GET",
            target=Target.CONTAINER_LOG,
            resource_id=session.uuid,
            event_id=session.uuid,
            payload=payloads.write(asked),
        )
        process._agent.dispatcher.receive(event)
        async with asyncio.timeout(PATIENCE):
            assert b"".join([chunk async for chunk in session.chunks()]) == expected


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


async def test_a_slow_reader_holds_up_the_api_server_and_fills_no_memory(scene: PodScene) -> None:
    """Whatever was sent and not read yet is somewhere between: in buffers, all of them bounded."""
    await scene.agent_comes()
    container, text = scene.pods.container, b"x" * 1023
    container.lines = [("2026-01-01T10:00:00.000000000Z", text)] * (100 << 10)
    read = 0
    async with scene.get(LOG) as answer:
        for stop in (1 << 20, 30 << 20, 60 << 20):
            while read < stop:
                read += len(await answer.content.read(1 << 20))
            await nothing_moves(container)
            under_way = container.sent - read // 1024 * (1024 + 31)
            assert 0 < under_way < in_kernel() + MOST_OF_OURS
        read += len(await answer.read())
    assert read == 100 << 20


def in_kernel() -> int:
    """Bytes in the buffers of this process's connections, which grow with what the machine allows."""
    links = {str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()}
    total = 0
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/self/net", table).read_text().splitlines()[1:]:
            _, _, _, _, queues, _, _, _, _, inode, *_ = line.split()
            if f"socket:[{inode}]" in links:
                total += sum(int(queue, 16) for queue in queues.split(":"))
    return total


async def nothing_moves(container: Container) -> None:
    sent, looks = -1, 0
    async with asyncio.timeout(PATIENCE):
        while looks < 20:
            looks, sent = (looks + 1, sent) if container.sent == sent else (0, container.sent)
            await asyncio.sleep(0.01)


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


@pytest.mark.parametrize("attached", [True, False])
async def test_a_log_without_a_line_breaks_off_too_when_its_agent_is_lost(
    *, attached: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the agent promised a call that never came."""
    monkeypatch.setattr(log_sessions, "RESUME_SECONDS", 0.0)
    session = log_sessions.LogSession(uuid="1", agent="prod", timestamps=False)
    if attached:
        session.attach()
        session.detach()
    else:
        session.expect()
    with pytest.raises(log_sessions.LogEndedError, match="did not come back"):
        async with asyncio.timeout(PATIENCE):
            await anext(session.chunks())


async def test_an_error_before_the_first_line_reaches_the_reader() -> None:
    session = log_sessions.LogSession(uuid="1", agent="prod", timestamps=False)
    await session.finish("the API server is away")
    with pytest.raises(log_sessions.LogEndedError, match="is away"):
        async with asyncio.timeout(PATIENCE):
            await anext(session.chunks())
