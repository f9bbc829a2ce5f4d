"""argocd-agent's own tables of logs, and where ours answers otherwise on purpose."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from grpc import aio

from argocd.agents.vocabulary import Mode, Target
from sidecars.proxies.logs import session as log_sessions
from sidecars.proxies.logs.lines import timestamp_of
from sidecars.proxies.logs.proxy import LogProxy
from sidecars.proxies.logs.session import LogEndedError, LogSession
from sidecars.proxies.requests import Requests
from sidecars.wire import payloads
from sidecars.wire.auth.tokens import Holder
from sidecars.wire.data_streams import DataStream
from sidecars.wire.events import Event
from sidecars.wire.generated.logstream_pb2 import LogStreamData, LogStreamResponse
from sidecars.wire.proxy_payloads import ContainerLogRequest
from sidecars.wire.refusals import RefusedError
from sidecars.wire.server.sessions import AuthenticatedAgent
from tests.oracle.tables import MARKS, table
from tests.sidecars.proxies.pod_scene import AGENT, PATIENCE, POD_PATH, PodScene, pod_scene
from tests.sidecars.proxies.pods_api import NAMESPACE, POD
from tests.sidecars.proxies.redis.redis_servers import eventually

pytestmark = MARKS

OTHERWISE = {
    "log-principal-cancelled": "a reader who has left is one who has disconnected, however he did it",
    "log-principal-no-flusher": "every answer of ours can be flushed: there is nothing to refuse",
    "log-http-headers": "HTTP/1.1 keeps connections without saying so; and the status is the agent's",
}
LINES = [("2025-12-07T10:30:45.1Z", b"one"), ("2025-12-07T10:30:45.2Z", b"two")]
PEER = AuthenticatedAgent(holder=Holder(AGENT, Mode.MANAGED))


@pytest.mark.parametrize("case", table("agent: timestamp of a log line"))
def test_timestamps_are_found_as_argocd_agent_finds_them(case: Any) -> None:
    assert (timestamp_of(case["input"]["line"].encode()) or None) == case["expect"]["timestamp"]


# The agent, asked as argocd-agent's principal asks.


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[PodScene]:
    async with pod_scene(tmp_path) as made:
        made.pods.container.lines = list(LINES)
        yield made


def ask(scene: PodScene, **wanted: Any) -> LogSession:
    """The session by which the principal hears of it."""
    session = LogSession(uuid="request", agent=AGENT, timestamps=True)
    scene.principal._log_proxy._sessions.add(session)
    send(scene, **wanted)
    return session


def send(scene: PodScene, **wanted: Any) -> None:
    request = ContainerLogRequest(
        uuid="request", namespace=NAMESPACE, pod_name=POD, timestamps=True, **wanted
    )
    event = Event(
        type="GET",
        target=Target.CONTAINER_LOG,
        resource_id="request",
        event_id="request",
        payload=payloads.write(request),
    )
    scene.processes[AGENT]._agent.dispatcher.receive(event)


def handler(scene: PodScene) -> Any:
    return scene.processes[AGENT]._agent.dispatcher._served["containerlog"].handler


async def first(session: LogSession) -> bytes:
    async with asyncio.timeout(PATIENCE):
        return await anext(session.chunks())


async def is_not_opened_twice(scene: PodScene, expected: Any) -> None:
    scene.pods.container.running = True
    session = ask(scene, follow=True)
    await first(session)
    send(scene, follow=True)
    dispatcher = scene.processes[AGENT]._agent.dispatcher
    await eventually(lambda: not dispatcher._running)
    assert (len(scene.pods.container.asked) > 1) == expected["stream_opened"]


async def ends_by_its_last_message(scene: PodScene, expected: Any) -> None:
    assert expected["last_message"] == {"eof": True}
    session = ask(scene)
    async with asyncio.timeout(PATIENCE):
        shown = b"".join([chunk async for chunk in session.chunks()])
    assert shown == b"".join(time.encode() + b" " + text + b"\n" for time, text in LINES)


async def is_cancelled(scene: PodScene, expected: Any) -> None:
    scene.pods.container.lines *= 100_000  # more than nobody reads at once
    session = ask(scene)
    await first(session)
    (task,) = handler(scene)._running.values()
    await handler(scene).close()
    assert task.cancelled() == (expected["error"] == "cancelled")


async def knows_the_last_timestamp(scene: PodScene, expected: Any) -> None:
    scene.pods.container.running = True
    session = ask(scene, follow=True)
    await eventually(lambda: session.lines == len(LINES))
    assert session.position == f"1 {LINES[-1][0]}"
    assert LINES[-1][0].startswith(str(expected["last_timestamp_year"]))


async def resumes_at_the_last_timestamp(scene: PodScene, expected: Any) -> None:
    assert expected["last_timestamp"] == "set"
    container = scene.pods.container
    container.running = True
    session = ask(scene, follow=True)
    await eventually(lambda: session.lines == len(LINES))
    scene.break_connection()
    await eventually(lambda: len(container.asked) > 1)
    assert container.asked[1]["sinceTime"] == "2025-12-07T10:30:45Z"


AGENTS = {
    "log-agent-duplicate": is_not_opened_twice,
    "log-agent-static": ends_by_its_last_message,
    "log-agent-static-cancelled": is_cancelled,
    "log-agent-follow": knows_the_last_timestamp,
    "log-agent-follow-send-fails": resumes_at_the_last_timestamp,
}


@pytest.mark.parametrize("case", table("agent: log request"))
async def test_the_agent_serves_a_log_as_argocd_agents_does(case: Any, scene: PodScene) -> None:
    await scene.agent_comes()
    await AGENTS[case["id"]](scene, case["expect"])


# The principal, called as argocd-agent's agent calls.


class Call:
    """By an agent that says these messages, and then nothing."""

    def __init__(self, *messages: LogStreamData | None) -> None:
        self._messages = list(messages)
        self.answers: list[bytes] = []
        self.proxy = LogProxy(Requests(lambda _: None))
        self.session = LogSession(uuid="request", agent=AGENT, timestamps=True)
        self.proxy._sessions.add(self.session)

    async def run(self) -> None:
        stream = DataStream(read=self._read, write=self._write, label=AGENT)
        async with asyncio.timeout(PATIENCE):
            await self.proxy.carry(PEER, stream, self._greet)

    async def shown(self) -> bytes:
        async with asyncio.timeout(PATIENCE):
            return b"".join([chunk async for chunk in self.session.chunks()])

    async def _read(self) -> Any:
        if not self._messages:
            await asyncio.Event().wait()
        message = self._messages.pop(0)
        return aio.EOF if message is None else message.SerializeToString()

    async def _write(self, raw: bytes) -> None:
        self.answers.append(raw)

    async def _greet(self, _metadata: Any) -> None: ...


message = partial(LogStreamData, request_uuid="request")


async def refused(call: Call, expected: Any) -> RefusedError:
    with pytest.raises(RefusedError) as error:
        await call.run()
    assert error.value.code.name == expected["code"]
    return error.value


async def is_shown(given: Any, expected: Any) -> None:
    messages = [
        message(data=each.encode()) if isinstance(each, str) else message(**each)
        for each in given["messages"]
    ]
    call = Call(message(), *messages)
    shown, _ = await asyncio.gather(call.shown(), call.run())
    for words in expected["http_body_contains"]:
        assert words.encode() in shown
    assert LogStreamResponse.FromString(call.answers[0]).status == expected["status"]


async def tells_the_agents_error(given: Any, expected: Any) -> None:
    error = await refused(Call(message(), message(**given["messages"][0])), expected)
    assert expected["message_contains"] in error.message


async def is_unknown(given: Any, expected: Any) -> None:
    error = await refused(Call(LogStreamData(request_uuid=given["request_uuid"])), expected)
    assert error.message == expected["message"]


async def is_no_message(given: Any, expected: Any) -> None:
    assert (await refused(Call(*given["messages"]), expected)).message == expected["message"]


async def is_over_when_nobody_reads(_given: Any, expected: Any) -> None:
    call = Call(message())
    calling = asyncio.ensure_future(refused(call, expected))
    await eventually(lambda: call.session._attached is not None)
    call.session.close()
    assert (await calling).message == "client disconnected"


async def shows_nothing(given: Any, expected: Any) -> None:
    call = Call(message(data=given["data"].encode()), message(eof=True))
    shown, _ = await asyncio.gather(call.shown(), call.run())
    assert shown == expected["http_body"].encode()


async def is_complete(given: Any, expected: Any) -> None:
    call = Call(message(eof=given["eof"]))
    await asyncio.gather(call.shown(), call.run())
    assert call.session._ended == expected["completion_signalled"]


async def is_nobodys(_given: Any, expected: Any) -> None:
    found = Call().proxy._sessions.find("unknown", agent=AGENT)
    assert (found is not None) == expected["completed"]


async def breaks_off_without_an_end(_given: Any, expected: Any) -> None:
    assert not expected["completed"]
    call = Call()
    call.session.expect()
    with pytest.raises(LogEndedError, match="did not come back"):
        await call.shown()


PRINCIPALS = {
    "log-principal-data": is_shown,
    "log-principal-agent-error": tells_the_agents_error,
    "log-principal-unknown": is_unknown,
    "log-principal-nil": is_no_message,
    "log-principal-cancelled": is_over_when_nobody_reads,
    "log-principal-writer-gone": is_over_when_nobody_reads,
    "log-principal-empty-data": shows_nothing,
    "log-principal-eof": is_complete,
    "log-principal-wait-unknown": is_nobodys,
    "log-principal-wait-timeout": breaks_off_without_an_end,
}


@pytest.mark.parametrize("case", table("principal: StreamLogs and the HTTP side"))
async def test_the_principal_takes_a_log_as_argocd_agents_does(
    case: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_sessions, "RESUME_SECONDS", 0.0)
    if case["id"] in PRINCIPALS:
        await PRINCIPALS[case["id"]](case["input"], case["expect"])
    else:
        assert case["id"] in OTHERWISE


@pytest.mark.parametrize("case", table("principal: HTTP answer of a log request"))
async def test_a_log_has_the_same_headers(case: Any, scene: PodScene) -> None:
    expected = dict(case["expect"])
    del expected["Connection"]
    await scene.agent_comes()
    async with scene.get(f"{POD_PATH}/log") as answer:
        assert answer.status == expected.pop("status")
        assert {name: answer.headers.get(name) for name in expected} == expected
        assert "Connection" not in answer.headers, OTHERWISE[case["id"]]
