"""A change is traced from the hub's watch to the spoke's write and back, where the environment asks for it."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from argocd.agents.vocabulary import Target
from kube.embedded import AdmissionRequest, Admitted, EmbeddedStore, Hooks
from kube.errors import InvalidError
from kube.resources import APP_PROJECTS
from tests.sidecars.captured_logs import logged
from tests.sidecars.otlp_receiver import Receiver, otlp_grpc_receiver, otlp_receiver
from tests.sidecars.pair_in_memory import ARGOCD, PATIENCE, Pair, project, until
from tiphys import tracing

ROOT = Path(__file__).parents[2]
TELL, APPLY = f"tell {Target.PROJECT}", f"apply {Target.PROJECT}"


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with otlp_receiver() as listening:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", listening.address)
        yield listening


async def send_a_project(pair: Pair) -> None:
    await pair.hub.know("agent-a")
    async with pair.together() as (principal, _agent), asyncio.timeout(PATIENCE):
        await pair.hub.store.create(APP_PROJECTS, project(), namespace=ARGOCD)
        await until(pair.workload, APP_PROJECTS, lambda there: "web" in there)
        (known,) = principal.known_agents
        await known.link.outbox.settled()


async def test_the_spokes_span_is_a_child_of_the_hubs(receiver: Receiver) -> None:
    with tracing.exported("tiphys-test"):
        await send_a_project(Pair())
    (told,), (applied,) = receiver.named(TELL), receiver.named(APPLY)
    assert told.parent == ""
    assert (applied.trace, applied.parent) == (told.trace, told.id)
    assert (told.service, told.error, applied.error) == ("tiphys-test", False, False)
    assert told.attributes["tiphys.object"] == f"{ARGOCD}/web"
    assert told.attributes["tiphys.peer"] == "agent-a"
    assert told.seconds >= applied.seconds  # there and back


@pytest.mark.parametrize("variable", tracing.PROTOCOLS)
async def test_spans_go_by_grpc_where_the_variable_says_so(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with otlp_grpc_receiver() as listening:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", listening.address)
        monkeypatch.setenv(variable, "grpc")
        with tracing.exported("tiphys-test"):
            await send_a_project(Pair())
    (told,), (applied,) = listening.named(TELL), listening.named(APPLY)
    assert (applied.trace, applied.parent) == (told.trace, told.id)


def test_a_protocol_that_is_not_there_exports_nothing_and_says_which_are(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = logged()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
    with tracing.exported("tiphys-test"):
        assert tracing.active() is None
    (line,) = lines("spans are not exported: OTEL_EXPORTER_OTLP_PROTOCOL must be grpc or http/protobuf")
    assert (line["level"], line["kind"]) == ("warning", "http/json")


async def test_a_change_that_is_refused_ends_in_an_error_without_its_values(receiver: Receiver) -> None:
    asked = asyncio.Event()

    async def refuse(_request: AdmissionRequest) -> Admitted:
        asked.set()
        raise InvalidError("spec.description: Invalid value: hunter2")

    pair = Pair(workload=EmbeddedStore(namespaces=[ARGOCD], hooks=Hooks(admission=refuse)))
    await pair.hub.know("agent-a")
    with tracing.exported("tiphys-test"):
        async with pair.together() as (principal, _agent), asyncio.timeout(PATIENCE):
            await pair.hub.store.create(APP_PROJECTS, project(), namespace=ARGOCD)
            await asked.wait()
            (known,) = principal.known_agents
            await known.link.outbox.settled()
    (applied,) = receiver.named(APPLY)
    assert applied.error
    assert "hunter2" not in repr(receiver.spans)


async def test_without_the_variables_nothing_is_traced() -> None:
    with tracing.exported("tiphys-test"):
        assert tracing.active() is None


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_the_usual_variables_decide(environment: dict[str, str], *, wanted: bool) -> None:
    assert tracing.wanted(environment) is wanted


OURS = "import sys, sidecars.mirroring.link, sidecars.principal.principal, sidecars.agent.agent;"
WITHOUT = (
    "import sys; sys.modules['opentelemetry'] = None; import cli.commands.principal, cli.commands.agent;"
)


@pytest.mark.parametrize("imports", [OURS, WITHOUT], ids=["installed", "not installed"])
def test_nothing_of_opentelemetry_is_imported_by_the_sidecars(imports: str) -> None:
    """Installed, it is imported by Redis's client, which looks for it; not by us."""
    code = (
        f"{imports} print([name for name, found in sys.modules.items() if found and 'opentelemetry' in name])"
    )
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == "[]"


def test_where_it_is_asked_for_and_not_installed_a_line_says_so(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = logged()
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    with tracing.exported("tiphys-test"):
        assert tracing.active() is None
    (line,) = lines("spans are asked for and OpenTelemetry is not installed: pip install 'tiphys[tracing]'")
    assert line["level"] == "warning"
