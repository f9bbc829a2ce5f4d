"""Objects beyond what one of the ends takes in a message: given up and said once, the stream goes on."""

import sidecars.wire  # noqa: F401  isort: skip - grpc reads its ciphers when it is first imported

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import structlog

from argocd.agents.vocabulary import Message, Mode, Target
from kube.embedded import EmbeddedStore
from kube.resources import APP_PROJECTS, APPLICATIONS, EVENTS
from kube.store import Object, PatchKind
from sidecars.delivery.lanes import key_of
from sidecars.delivery.outcomes import DeadLetter, DeadLetterReason
from sidecars.delivery.unsent import UnsentKeys
from sidecars.wire.events import Event
from tests.sidecars import processes
from tests.sidecars.pair_in_memory import ARGOCD, Hub, application, project, until
from tests.sidecars.processes import Pki
from tests.sidecars.wire.listening_principal import until as eventually
from tiphys import metrics
from tiphys.errors import ObjectError, SurroundingsError

AGENT = "agent-a"
LIMIT = 128 << 10
DEAD = "tiphys_sidecars_dead_letters_total"


class Pair:
    def __init__(self) -> None:
        self.hub = EmbeddedStore(namespaces=[ARGOCD, AGENT])
        self.workload = EmbeddedStore(namespaces=[ARGOCD])
        self.lost = 0

    @asynccontextmanager
    async def running(
        self, *, principal: dict[str, Any] | None = None, agent: dict[str, Any] | None = None, mode: Mode
    ) -> AsyncIterator[None]:
        pki = Pki()
        await Hub(self.hub).know(AGENT)
        async with (
            processes.principal(
                self.hub, pki, serving=principal, allowed_namespaces=(AGENT,), compare_seconds=0.2
            ) as hub,
            processes.connected_agent(
                self.workload,
                pki,
                name=AGENT,
                port=hub.port,
                mode=mode,
                dialing=agent,
                compare_seconds=0.2,
            ) as process,
        ):
            before = _lost()
            yield
            assert process.connected.is_set()
            assert _lost() == before, "the stream was lost on the way"


def _lost() -> float:
    return metrics.REGISTRY.get_sample_value("tiphys_wire_connects_total", {"result": "connected"}) or 0


def dead_letters(target: str) -> float:
    return metrics.REGISTRY.get_sample_value(DEAD, {"target": target, "reason": "unsendable"}) or 0


def said(lines: Any, words: str) -> list[Any]:
    return [line for line in lines if line["event"] == words]


def large(body: Object) -> Object:
    body["metadata"].setdefault("annotations", {})["note"] = "x" * (LIMIT + 1)
    return body


def blamed(name: str, words: str) -> Any:
    def holds(there: dict[str, Object]) -> bool:
        conditions = there[name].get("status", {}).get("conditions", [])
        return any(each["type"] == "AgentError" and words in each["message"] for each in conditions)

    return holds


@pytest.mark.parametrize("end", ["principal", "agent"])
async def test_an_application_that_its_agent_is_never_told_says_so_itself(end: str) -> None:
    pair, before = Pair(), dead_letters("application")
    sizes = {"max_message_bytes": LIMIT}
    with structlog.testing.capture_logs() as lines:
        async with pair.running(
            principal=sizes if end == "principal" else None,
            agent=sizes if end == "agent" else None,
            mode=Mode.MANAGED,
        ):
            await pair.hub.create(APPLICATIONS, large(application("large")), namespace=AGENT)
            await pair.hub.create(APPLICATIONS, application("small"), namespace=AGENT)
            await until(pair.workload, APPLICATIONS, lambda there: "small" in there)
            whose = "our" if end == "principal" else "the other end's"
            await until(
                pair.hub,
                APPLICATIONS,
                blamed("large", f"not sent to agent {AGENT}: a message of"),
                namespace=AGENT,
            )
            # A comparison finds it again; that is counted, and not said again.
            await eventually(lambda: dead_letters("application") >= before + 3)
            smaller = {"metadata": {"annotations": {"note": None}}}
            await pair.hub.patch(APPLICATIONS, smaller, name="large", namespace=AGENT, kind=PatchKind.MERGE)
            await until(pair.workload, APPLICATIONS, lambda there: "large" in there)
    (line,) = said(lines, "dead letter")
    assert (line["reason"], line["peer"], line["key"]) == ("unsendable", AGENT, f"application/{AGENT}/large")
    assert f"raise {whose} --grpc-max-message-size" in line["error"]


async def test_a_project_that_an_agent_is_never_told_has_an_event() -> None:
    pair = Pair()
    async with pair.running(agent={"max_message_bytes": LIMIT}, mode=Mode.MANAGED):
        await pair.hub.create(APP_PROJECTS, large(project("large")), namespace=ARGOCD)
        await pair.hub.create(APP_PROJECTS, project("small"), namespace=ARGOCD)
        await until(pair.workload, APP_PROJECTS, lambda there: "small" in there)
        (event,) = (await until(pair.hub, EVENTS, bool)).values()
    assert (event["reason"], event["involvedObject"]["name"]) == ("NotSent", "large")
    assert event["message"].startswith(f"to {AGENT}: a message of ")


async def test_a_status_that_the_principal_is_never_told_shows_in_its_application() -> None:
    pair = Pair()
    async with pair.running(principal={"max_message_bytes": LIMIT}, mode=Mode.MANAGED):
        for name in ("large", "small"):
            await pair.hub.create(APPLICATIONS, application(name), namespace=AGENT)
        await until(pair.workload, APPLICATIONS, lambda there: len(there) == 2)
        for name, text in (("large", "x" * LIMIT), ("small", "all is well")):
            status = {"status": {"health": {"status": "Healthy", "message": text}}}
            await pair.workload.patch(APPLICATIONS, status, name=name, namespace=ARGOCD, kind=PatchKind.MERGE)
        await until(
            pair.hub, APPLICATIONS, blamed("large", "status-update could not be sent"), namespace=AGENT
        )
        await until(pair.hub, APPLICATIONS, lambda there: "all is well" in str(there), namespace=AGENT)


async def test_an_autonomous_agents_own_object_that_the_principal_does_not_take_has_an_event() -> None:
    pair = Pair()
    async with pair.running(principal={"max_message_bytes": LIMIT}, mode=Mode.AUTONOMOUS):
        await pair.workload.create(APP_PROJECTS, large(project("large")), namespace=ARGOCD)
        await pair.workload.create(APP_PROJECTS, project("small"), namespace=ARGOCD)
        await until(pair.hub, APP_PROJECTS, lambda there: f"{AGENT}-small" in there)
        (event,) = (await until(pair.workload, EVENTS, bool)).values()
    assert event["involvedObject"]["name"] == "large"
    assert "raise the other end's --grpc-max-message-size" in event["message"]


async def test_a_report_that_failed_is_made_again_and_one_that_did_not_is_not() -> None:
    event = Event(
        type=Message.SPEC_UPDATE,
        target=Target.PROJECT,
        subject="argocd/large",
        resource_id="r",
        event_id="e",
    )
    letter = DeadLetter(
        peer=AGENT,
        key=key_of(event),
        event=event,
        reason=DeadLetterReason.UNSENDABLE,
        error=ObjectError("too large"),
        attempts=1,
    )
    tries: list[DeadLetter] = []
    away = True

    async def report(one: DeadLetter) -> None:
        tries.append(one)
        if away:
            raise SurroundingsError("the API server is away")

    unsent = UnsentKeys(report)
    with structlog.testing.capture_logs() as lines:
        for count in (1, 2):
            unsent.report(letter)
            await eventually(lambda count=count: len(said(lines, "dead letter not reported")) == count)  # type: ignore[misc]
        away = False
        for _ in range(3):
            unsent.report(letter)
            await eventually(lambda: len(tries) == 3)
        unsent.got_through(event)
        unsent.report(letter)
        await eventually(lambda: len(tries) == 4)
    await unsent.close()
