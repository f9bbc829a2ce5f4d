"""Whoever reaches the resource proxy, or an agent through it, and means harm: refused, bounded, nobody disturbed."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import aiohttp
import pytest
from cryptography import x509

from argocd.agents.vocabulary import Mode, Target
from certs.key_pair import fingerprint
from kube.embedded import EmbeddedStore
from sidecars.principal.process import PrincipalProcess
from sidecars.proxies import resource_listener, resource_proxy
from sidecars.proxies.api_paths import PathError, parse_path
from sidecars.proxies.statuses import status_json
from sidecars.wire import payloads
from sidecars.wire.auth.blocklist import Blocklist
from sidecars.wire.auth.tokens import Holder
from sidecars.wire.events import Event
from sidecars.wire.proxy_payloads import ResourceResponse
from tests.sidecars import pair_in_memory, processes
from tests.sidecars.proxies.hub_caller import HubCaller, client_context, hub_caller, resource_port
from tests.sidecars.proxies.redis.redis_servers import eventually

AGENT = "agent-a"
PATH = "/api/v1/namespaces/shop/configmaps/prices"


class Answering:
    """An agent that answers as it is told to."""

    def __init__(self) -> None:
        self.asked: list[Event] = []
        self.answer = ResourceResponse(status=200, resource="{}")

    async def handle(self, event: Event) -> bytes | None:
        self.asked.append(event)
        return payloads.write(self.answer)

    def refusal(self, event: Event, *, status: int, message: str) -> bytes | None:
        return payloads.write(ResourceResponse(status=status, resource=status_json(status, message).decode()))

    def mutates(self, event: Event) -> bool:
        return event.type != "GET"


class Scene:
    def __init__(
        self, process: PrincipalProcess, hub: HubCaller, answering: Answering, pki: processes.Pki
    ) -> None:
        assert process.resources is not None
        self.process = process
        self.port = process.resources.port
        self.hub = hub
        self.agent = answering
        self.pki = pki

    @asynccontextmanager
    async def raw(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A connection with the agent's certificate, for bytes that no library would send."""
        context = client_context(self.pki, self.pki.pair(AGENT, server=False))
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=context, server_hostname="localhost"
        )
        try:
            yield reader, writer
        finally:
            writer.close()

    async def sent(self, request: bytes) -> int:
        async with self.raw() as (reader, writer), asyncio.timeout(30):
            writer.write(request)
            head = await reader.read(4096)
            return int(head.split()[1]) if head else 0


def _connected(process: PrincipalProcess) -> bool:
    return process.principal is not None and process.principal.requests.connected(AGENT)


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    hub, workload = EmbeddedStore(namespaces=["argocd", AGENT]), EmbeddedStore(namespaces=["argocd"])
    pki = processes.Pki()
    await pair_in_memory.Hub(hub).know(AGENT)
    options = await resource_port(hub, pki, namespace="argocd")
    async with (
        processes.principal(hub, pki, serving={"resources": options}) as principal,
        processes.connected_agent(workload, pki, name=AGENT, port=principal.port) as agent,
    ):
        assert principal.resources is not None
        async with asyncio.timeout(30):
            await principal.resources.listening.wait()
        await eventually(lambda: _connected(principal))
        answering = Answering()
        assert agent._agent is not None
        agent._agent.dispatcher.serve(Target.RESOURCE, answering)
        async with hub_caller(pki, principal.resources.port, agent=AGENT) as caller:
            yield Scene(principal, caller, answering, pki)


@pytest.fixture
async def at() -> AsyncIterator[Scene]:
    async with scene() as made:
        yield made


async def test_a_body_of_gigabytes_is_refused_before_it_is_read(at: Scene) -> None:
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    assert await at.sent(f"{head}Content-Length: 8000000000\r\n\r\n".encode()) == 413
    chunk = b"%x\r\n%s\r\n" % (1 << 20, b"x" * (1 << 20))
    assert await at.sent(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunk * 5) == 413
    assert at.agent.asked == []


async def test_many_large_bodies_at_once_are_too_many(at: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_proxy, "MAX_BODIES_BYTES", 1 << 20)
    assert (await at.hub("POST", PATH, b"x" * (2 << 20))).status == 429
    assert (await at.hub("POST", PATH, b"x" * (1 << 19))).status == 200


async def test_who_says_nothing_is_let_go(at: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_listener, "IDLE_SECONDS", 0.1)
    async with at.raw() as (reader, writer), asyncio.timeout(30):
        writer.write(b"GET /version HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        assert await reader.read() == b""


async def test_a_token_opens_the_port_for_its_agent_until_it_ends(at: Scene) -> None:
    tokens = at.process._serving.tokens
    async with hub_caller(at.pki, at.port, agent=None) as caller:
        bearer = f"Bearer {tokens.issue_for_proxy(AGENT)}"
        assert (await caller.get(PATH, Authorization=bearer)).status == 200
        other = f"Bearer {tokens.issue_for_proxy('agent-b')}"
        assert (await at.hub.get(PATH, Authorization=other)).status == 502, (
            "the token counts, not the certificate"
        )
        access = tokens.issue(Holder(AGENT, Mode.MANAGED)).access
        assert (await caller.get(PATH, Authorization=f"Bearer {access}")).status == 401


async def test_a_certificate_on_the_blocklist_is_refused_on_an_open_connection(at: Scene) -> None:
    pair = at.pki.pair(AGENT, server=False)
    context = client_context(at.pki, pair)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        url = f"https://localhost:{at.port}{PATH}"
        async with session.get(url) as answer:
            assert answer.status == 200
        assert at.process.resources is not None
        blocked = fingerprint(x509.load_pem_x509_certificate(pair.certificate))
        at.process.resources.swap_blocklist(Blocklist.of({"data": {blocked: ""}}))
        async with session.get(url) as answer:
            assert answer.status == 401
        assert (await at.hub.get(PATH)).status == 200, "another one of the same agent"


async def test_a_principal_that_stands_by_says_in_which_state(at: Scene) -> None:
    at.process.gate.state = "standby"
    refused = await at.hub.get(PATH)
    assert (refused.status, "standby" in refused.message) == (503, True)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/shop/../../secrets",
        "/api/v1/namespaces/%2e%2e/secrets/x",
        "/api/v1/namespaces/shop%2fsecrets/x/y",
        "/api/v1/namespaces/shop/pods/..%252fsecrets",
        "/api/v1//secrets",
        "/api/v1/namespaces/shop/services/x/proxy/metrics",
        "/apis/../api/v1/secrets",
        "/api/v1/namespaces/shop/pods/a%00b",
        "/metrics",
        "/" + "a" * 4000,
    ],
)
def test_paths_that_two_readers_would_read_differently_are_refused(path: str) -> None:
    with pytest.raises(PathError):
        parse_path(path)


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Impersonate-Group: system:masters", 403),
        ("impersonate-uid: 1", 403),
        ("Impersonate-Extra-Scopes: all", 403),
        ("Impersonate-User: a\r\nImpersonate-User: b", 400),
        (f"Impersonate-User: {'a' * 2000}", 400),
        ("Content-Length: 3\r\nTransfer-Encoding: chunked", 400),
        ("Content-Length: 3\r\nContent-Length: 4", 400),
        ("Content-Encoding: gzip", 415),
        ("Authorization: Bearer nonsense", 401),
        ("Authorization: Bearer " + "a" * 7000, 401),
    ],
)
async def test_headers_that_smuggle_something_are_refused(at: Scene, header: str, status: int) -> None:
    assert await at.sent(f"GET {PATH} HTTP/1.1\r\nHost: x\r\n{header}\r\n\r\n".encode()) == status
    assert at.agent.asked == []


async def test_more_headers_than_anybody_needs_are_refused(at: Scene) -> None:
    many = "".join(f"X-{number}: a\r\n" for number in range(200))
    assert await at.sent(f"GET {PATH} HTTP/1.1\r\nHost: x\r\n{many}\r\n".encode()) == 400


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (ResourceResponse(status=0), 502),
        (ResourceResponse(status=101), 502),
        (ResourceResponse(status=99999), 502),
        (ResourceResponse(status=302, resource="{}"), 502),
        (ResourceResponse(status=200, resource="{}", content_type="text/html\r\nSet-Cookie: a=b"), 200),
        (ResourceResponse(status=403), 403),
    ],
)
async def test_what_a_hostile_agent_answers_stays_an_answer(
    at: Scene, answer: ResourceResponse, status: int
) -> None:
    at.agent.answer = answer
    found = await at.hub.get(PATH)
    assert (found.status, "Set-Cookie" in found.headers) == (status, False)
    if status != 200:
        assert found.json["kind"] == "Status"


async def test_no_certificate_of_another_authority_opens_the_port(at: Scene) -> None:
    other = processes.Pki()
    context = client_context(at.pki, other.pair(AGENT, server=False))
    answered = b""
    with suppress(ssl.SSLError, ConnectionError):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", at.port, ssl=context, server_hostname="localhost"
        )
        writer.write(f"GET {PATH} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        async with asyncio.timeout(30):
            answered = await reader.read(64)
    assert answered == b""


async def test_one_caller_with_everything_open_leaves_room_for_another_agent(at: Scene) -> None:
    """Whose answers do not come: the others' do."""

    async def stuck(_event: Event) -> bytes | None:
        await asyncio.Event().wait()
        return None

    at.agent.handle = stuck  # type: ignore[method-assign,assignment]
    waiting = [asyncio.ensure_future(at.hub.get(PATH)) for _ in range(300)]
    async with asyncio.timeout(30):
        done, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert {(await each).status for each in done} == {429}
        async with hub_caller(at.pki, at.port, agent="agent-b") as other:
            assert (await other.get(PATH)).status == 502, "answered at once"
    for each in pending:
        each.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
