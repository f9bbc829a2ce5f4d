"""Bad input to principals and agents as they run: refused with the right code, said once, nobody else disturbed."""

import asyncio
import resource
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import bcrypt
import grpc
import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from grpc import aio

from argocd.agents.vocabulary import Message, Mode, Target
from certs.key_pair import KeyPair, Material
from certs.sources import Secrets
from kube.embedded import AdmissionRequest, Admitted, EmbeddedStore, Hooks
from kube.errors import InvalidError
from kube.resources import APP_PROJECTS, APPLICATIONS, EVENTS
from sidecars.wire.auth.methods import header_method
from sidecars.wire.auth.passwords import Accounts, Login, PasswordMethod
from sidecars.wire.auth.tokens import Holder, Tokens
from sidecars.wire.envelopes import encode, to_cloudevent
from sidecars.wire.events import Event, object_event
from sidecars.wire.generated.eventstream_pb2 import Event as Envelope
from sidecars.wire.tls import channel_credentials
from tests.sidecars import oversized_sender, processes
from tests.sidecars.captured_logs import Lines, logged
from tests.sidecars.pair_in_memory import ARGOCD, Hub, application, project, until
from tests.sidecars.processes import PATIENCE, Pki
from tests.sidecars.scripted_ends import acknowledged, scripted_agent
from tests.sidecars.wire.listening_principal import login, refusal, subscribe
from tests.sidecars.wire.listening_principal import until as eventually
from tiphys import metrics

GOOD, BAD = "agent-good", "agent-bad"
INVALID = (grpc.StatusCode.UNAUTHENTICATED, "invalid authentication data")
FAILED = (grpc.StatusCode.UNAUTHENTICATED, "authentication failed")
MIB = 1024 * 1024


class Fleet:
    """A principal with an agent that is well, which is looked after while somebody misbehaves."""

    def __init__(self, hub: EmbeddedStore, workload: EmbeddedStore, pki: Pki, port: int) -> None:
        self.hub = hub
        self.workload = workload
        self.pki = pki
        self.port = port
        self.well: Any = None

    async def goes_on(self) -> None:
        """What is new on the hub still reaches the agent that is well."""
        name = f"project-{time.monotonic_ns()}"
        await self.hub.create(APP_PROJECTS, project(name), namespace=ARGOCD)
        await until(self.workload, APP_PROJECTS, lambda there: name in there)
        assert self.well.connected.is_set()

    @asynccontextmanager
    async def channel(self, pair: KeyPair | None, options: Sequence[Any] = ()) -> AsyncIterator[Any]:
        material = Material(pair, self.pki.authority.pair.certificate)
        async with aio.secure_channel(
            f"localhost:{self.port}",
            channel_credentials(material),
            options=[("grpc.use_local_subchannel_pool", 1), *options],
        ) as channel:
            yield channel


@asynccontextmanager
async def fleet(**principal: Any) -> AsyncIterator[Fleet]:
    hub = EmbeddedStore(namespaces=[ARGOCD, GOOD, BAD])
    workload = EmbeddedStore(namespaces=[ARGOCD])
    pki = Pki()
    await Hub(hub).know(GOOD)
    await Hub(hub).know(BAD)
    async with processes.principal(hub, pki, allowed_namespaces=(GOOD, BAD), **principal) as process:
        found = Fleet(hub, workload, pki, process.port)
        async with processes.connected_agent(workload, pki, name=GOOD, port=process.port) as agent:
            found.well = agent
            await found.goes_on()
            yield found
            await found.goes_on()


def refusals(lines: Lines) -> list[tuple[str, str]]:
    return [(line["code"], line["reason"]) for line in lines("call refused")]


async def test_a_wrong_token_opens_no_stream() -> None:
    async with fleet() as there:
        stranger = Tokens(rsa.generate_private_key(public_exponent=65537, key_size=2048), now=time.time)
        lines = logged()
        async with there.channel(there.pki.pair(BAD, server=False)) as channel:
            for token in ("nonsense", stranger.issue(Holder(BAD, Mode.MANAGED)).access) * 3:
                assert await refusal(subscribe(channel, ("authorization", token)).read()) == INVALID
            stolen = Tokens(processes.KEY, now=time.time).issue(Holder(GOOD, Mode.MANAGED)).access
            for _ in range(3):
                assert await refusal(subscribe(channel, ("authorization", stolen)).read()) == INVALID
        bad, foreign = refusals(lines)
        assert bad[0] == foreign[0] == "UNAUTHENTICATED"
        assert foreign[1] == f"a token of {GOOD} in the hands of {BAD}"


async def test_an_expired_certificate_ends_in_the_handshake_and_its_owner_says_why() -> None:
    async with fleet() as there:
        old = there.pki.pair(BAD, server=False, age=timedelta(days=2))
        async with there.channel(old) as channel:
            assert (await refusal(login(channel)))[0] is grpc.StatusCode.UNAVAILABLE
        lines = logged(level="info")
        process = await processes.equipped_agent(
            EmbeddedStore(namespaces=[ARGOCD]),
            there.pki,
            name=BAD,
            age=timedelta(days=2),
            port=there.port,
        )
        async with processes.started(process):
            await eventually(lambda: bool(process.link.error))
            assert not process.connected.is_set()
        (line,) = lines("nobody will believe our certificate")
        assert "the certificate expired at" in line["error"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "agent-nobody",
            "no cluster Secret has the label argocd-agent.argoproj-labs.io/agent-name=agent-nobody",
        ),
        (ARGOCD, "the agent is named like the principal's namespace"),
        ("Not_A_Label", "Not_A_Label"),
    ],
    ids=["unknown", "like the namespace", "no label"],
)
async def test_an_agent_that_is_none_of_ours_stays_out(name: str, reason: str) -> None:
    async with fleet() as there:
        failures = metrics.REGISTRY.get_sample_value("argocd_agent_auth_failures_total") or 0
        lines = logged(level="info")
        async with there.channel(there.pki.pair(name, server=False)) as channel:
            for _ in range(5):
                assert await refusal(login(channel)) == FAILED
        process = await processes.equipped_agent(
            EmbeddedStore(namespaces=[ARGOCD]), there.pki, name=name, port=there.port
        )
        async with processes.started(process):
            await eventually(lambda: process.link.attempts == 2)
            await process.health.listening.wait()
            status, words = await processes.fetch(process.health.port, "/healthz")
            assert (status, "UNAUTHENTICATED" in words) == (503, True)
        assert len(lines("not connected")) == 1
        ((code, said),) = refusals(lines)
        assert code == "UNAUTHENTICATED"
        assert reason in said
        assert (metrics.REGISTRY.get_sample_value("argocd_agent_auth_failures_total") or 0) > failures


@asynccontextmanager
async def subscribed(there: Fleet, name: str = BAD, *, mode: str = "managed") -> AsyncIterator[Any]:
    async with there.channel(there.pki.pair(name, server=False)) as channel:
        token = (await login(channel, mode=mode)).accessToken
        call = subscribe(channel, ("authorization", token))
        await call.wait_for_connection()
        yield call


async def answered(call: Any, event_id: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            said = Envelope.FromString(await call.read()).event
            if said.type == Message.PROCESSED and said.attributes["eventid"].ce_string == event_id:
                return


def told(payload: bytes, *, number: int, target: str = Target.PROJECT, kind: str = Message.CREATE) -> Event:
    return Event(type=kind, target=target, resource_id=f"r{number}", event_id=f"e{number}", payload=payload)


async def test_malformed_events_are_acknowledged_and_the_stream_goes_on() -> None:
    async with fleet() as there:
        schema = to_cloudevent(told(b"{}", number=1))
        schema.attributes["dataschema"].ce_string = "appproject"
        version = to_cloudevent(told(b"{}", number=2))
        version.spec_version = "0.3"
        lines = logged(level="info")
        async with subscribed(there, mode="autonomous") as call:
            for _ in range(3):
                for raw in (
                    b"\xff\xff\xff",
                    Envelope(event=schema).SerializeToString(),
                    Envelope(event=version).SerializeToString(),
                ):
                    await call.write(raw)
            await answered(call, "e1")
            await answered(call, "e2")
            good = {"metadata": {"name": "sample", "uid": "u", "resourceVersion": "1"}, "spec": {}}
            await call.write(encode(told(orjson.dumps(good), number=3)))
            await until(there.hub, APP_PROJECTS, lambda there: f"{BAD}-sample" in there)
        assert len(lines("malformed event refused")) == 3


WRONG: list[Any] = [
    b"not json",
    b"[]",
    b"null",
    b'"text"',
    b'{"metadata": []}',
    b'{"metadata": {"name": 7}}',
    b'{"metadata": {"name": "x", "labels": {"a": 1}}, "spec": {}}',
    b'{"metadata": {"name": "x"}, "spec": "text"}',
    b'{"metadata": {"name": "x"}, "spec": {"destinations": "text", "sourceNamespaces": {"a": 1}}}',
    b'{"metadata": {"name": "x", "annotations": 7}, "spec": {}}',
    b"[" * 100_000,
    b'{"metadata": {"name": "x"}, "spec": {"description": "\xff"}}',
]


@pytest.mark.parametrize("target", [Target.PROJECT, Target.APPLICATION])
async def test_json_of_wrong_types_is_acknowledged_by_a_principal_and_said_once(target: str) -> None:
    async with fleet() as there:
        lines = logged(level="info")
        async with subscribed(there, mode="autonomous") as call:
            for number, payload in enumerate(WRONG):
                await call.write(encode(told(payload, number=number, target=target)))
                await answered(call, f"e{number}")
        assert 0 < len(lines("dead letter")) <= len(WRONG)
        assert not lines("handler crashed")


@pytest.mark.parametrize("target", [Target.PROJECT, Target.APPLICATION, Target.REPOSITORY, Target.GPG_KEYS])
async def test_json_of_wrong_types_is_acknowledged_by_an_agent_and_said_once(target: str) -> None:
    store = EmbeddedStore(namespaces=[ARGOCD])
    lines = logged(level="info")
    async with scripted_agent(store, mode=Mode.MANAGED) as pipe:
        for number, payload in enumerate(WRONG):
            await acknowledged(pipe, told(payload, number=number, target=target))
        item = application(metadata={"namespace": GOOD, "uid": "u", "resourceVersion": "1"})
        await acknowledged(pipe, object_event(Message.CREATE, target=Target.APPLICATION, obj=item))
        await until(store, APPLICATIONS, lambda there: "shop" in there)
    assert 0 < len(lines("dead letter")) <= len(WRONG)
    assert not lines("handler crashed")


@pytest.mark.parametrize("size", [300, 150, 20])
async def test_an_event_of_many_mb_costs_its_sender_the_stream_and_the_principal_nothing(
    size: int, tmp_path: Path
) -> None:
    async with fleet() as there:
        pair = there.pki.pair(BAD, server=False)
        (tmp_path / oversized_sender.CERTIFICATE).write_bytes(pair.certificate)
        (tmp_path / oversized_sender.KEY).write_bytes(pair.key)
        (tmp_path / oversized_sender.AUTHORITIES).write_bytes(there.pki.authority.pair.certificate)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        sender = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", oversized_sender.__name__, str(there.port), str(tmp_path), str(size * MIB)),
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(2 * PATIENCE):
                said, _ = await sender.communicate()
        finally:
            if sender.returncode is None:
                sender.kill()
        assert said.decode().strip() == "RESOURCE_EXHAUSTED"
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        assert grown < 64, f"{grown:.0f} MiB"


async def test_what_the_hubs_api_server_refuses_for_ever_is_a_dead_letter_and_holds_up_nobody() -> None:
    async def refuse(request: AdmissionRequest) -> Admitted:
        if request.name == f"{BAD}-poison":
            raise InvalidError("spec.roles: never")
        return Admitted()

    hub = EmbeddedStore(namespaces=[ARGOCD, BAD], hooks=Hooks(admission=refuse))
    workload = EmbeddedStore(namespaces=[ARGOCD])
    pki = Pki()
    await Hub(hub).know(BAD)
    lines = logged(level="info")
    async with (
        processes.principal(hub, pki) as principal,
        processes.connected_agent(
            workload, pki, name=BAD, port=principal.port, mode=Mode.AUTONOMOUS
        ) as agent,
    ):
        await workload.create(APP_PROJECTS, project("poison"), namespace=ARGOCD)
        await workload.create(APP_PROJECTS, project("sound"), namespace=ARGOCD)
        await until(hub, APP_PROJECTS, lambda there: f"{BAD}-sound" in there)
        shown = await until(hub, EVENTS, bool)
        assert "spec.roles: never" in str(shown)
        assert agent.connected.is_set()
    (line,) = lines("dead letter")
    assert (line["reason"], line["peer"]) == ("rejected", BAD)


# The other two ways to show who one is.


async def test_an_agent_with_a_password_is_served_and_a_wrong_password_is_refused() -> None:
    right = bcrypt.hashpw(b"hunter2", bcrypt.gensalt(4)).decode()
    hub, workload = EmbeddedStore(namespaces=[ARGOCD, BAD]), EmbeddedStore(namespaces=[ARGOCD])
    pki = Pki()
    await Hub(hub).know(GOOD)
    by_password = {
        "method": PasswordMethod(Accounts.parse(f"{GOOD}:{right}")),
        "require_client_certificates": False,
    }
    source = Secrets(store=workload, namespace=ARGOCD, pair="", authorities="argocd-agent-ca")

    def saying(password: str) -> dict[str, Any]:
        dialing = {"method": "userpass", "login": Login(GOOD, password)}
        return {"name": "-", "port": principal.port, "dialing": dialing, "serving": {"source": source}}

    async with processes.principal(hub, pki, serving=by_password) as principal:
        lines = logged(level="info")
        process = await processes.equipped_agent(workload, pki, **saying("hunter3"))
        async with processes.started(process):
            await eventually(lambda: "UNAUTHENTICATED" in process.link.error)
        assert len(lines("call refused")) == 1
        assert "hunter" not in lines.stream.getvalue()
        async with processes.connected_agent(workload, pki, **saying("hunter2")):
            await hub.create(APP_PROJECTS, project(), namespace=ARGOCD)
            await until(workload, APP_PROJECTS, lambda there: "web" in there)


async def test_an_agent_that_a_mesh_names_in_a_header_is_served() -> None:
    """The header that every call brings by itself here is what agents call themselves."""
    hub, workload = EmbeddedStore(namespaces=["control"]), EmbeddedStore(namespaces=[ARGOCD])
    await Hub(hub, namespace="control").know(ARGOCD)
    by_header = {"method": header_method("user-agent:^(argocd)-agent"), "source": None}
    async with processes.principal(hub, Pki(), namespace="control", serving=by_header) as process:
        agent = processes.agent(
            workload, port=process.port, dialing={"method": "header"}, serving={"source": None}
        )
        async with processes.started(agent):
            async with asyncio.timeout(PATIENCE):
                await agent.connected.wait()
            await hub.create(APP_PROJECTS, project(agents="argo*"), namespace="control")
            await until(workload, APP_PROJECTS, lambda there: "web" in there)
