"""`tiphys principal` and `tiphys agent`: argocd-agent's flags and variables, and what is said of bad ones."""

from pathlib import Path
from typing import Any

import click
import pytest

from argocd.agents.identity import Adoption, Mismatch
from argocd.agents.routing import AgentMapping
from argocd.agents.vocabulary import Mode
from certs.sources import Files, Secrets
from cli.commands import agent, principal
from kube.embedded import EmbeddedStore
from tests.command_here import tiphys_here
from tiphys.errors import CallError


def given(command: click.Command, *arguments: str) -> dict[str, Any]:
    """What the command would be called with."""
    context = command.make_context("tiphys", list(arguments), auto_envvar_prefix="TIPHYS_TEST")
    return context.params


async def principal_serving(*arguments: str) -> Any:
    options = given(principal.command, "--insecure-jwt-generate", *arguments)
    return await principal.serving(EmbeddedStore(), options, principal.authentication(options["auth"]))


def agent_serving(*arguments: str) -> Any:
    return agent.serving(EmbeddedStore(), given(agent.command, "--server-address", "hub", *arguments))


async def test_a_principals_defaults_are_argocd_agents() -> None:
    serving = await principal_serving()
    assert (serving.port, serving.health_port, serving.metrics_port) == (8443, 8003, 8000)
    assert serving.settings.namespace == "argocd"
    assert serving.settings.mapped_by is AgentMapping.NAMESPACE
    assert isinstance(serving.source, Secrets)
    assert (serving.source.pair, serving.source.authorities) == (
        "argocd-agent-principal-tls",
        "argocd-agent-ca",
    )
    assert serving.method.name == "mtls"


def test_an_agents_defaults_are_argocd_agents() -> None:
    serving = agent_serving()
    assert (serving.dialing.port, serving.health_port, serving.metrics_port) == (443, 8001, 8181)
    assert serving.settings.mode is Mode.AUTONOMOUS
    assert (serving.settings.mismatch, serving.settings.adoption) == (Mismatch.RECREATE, Adoption.ALWAYS)
    assert isinstance(serving.source, Secrets)
    assert (serving.source.pair, serving.source.authorities) == ("argocd-agent-client-tls", "argocd-agent-ca")


async def test_argocd_agents_variables_count(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "ARGOCD_PRINCIPAL_ALLOWED_NAMESPACES": "agent-*,team-*",
        "ARGOCD_PRINCIPAL_DESTINATION_BASED_MAPPING": "true",
        "ARGOCD_PRINCIPAL_HEALTH_CHECK_PORT": "9003",
        "ARGOCD_PRINCIPAL_AUTH": "header:x-agent:(.*)",
        "ARGOCD_PRINCIPAL_INSECURE_PLAINTEXT": "true",
    }.items():
        monkeypatch.setenv(name, value)
    serving = await principal_serving()
    assert serving.settings.allowed_namespaces == ("agent-*", "team-*")
    assert serving.settings.mapped_by is AgentMapping.DESTINATION
    assert serving.health_port == 9003
    assert serving.method.name == "header"
    assert serving.source is None


async def test_names_from_a_header_are_believed_on_loopback_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (await principal_serving()).host == ""
    monkeypatch.setenv("ARGOCD_PRINCIPAL_AUTH", "header:x-agent:(.*)")
    monkeypatch.setenv("ARGOCD_PRINCIPAL_INSECURE_PLAINTEXT", "true")
    assert (await principal_serving()).host == "127.0.0.1"
    monkeypatch.setenv("ARGOCD_PRINCIPAL_LISTEN_HOST", "0.0.0.0")
    assert (await principal_serving()).host == "0.0.0.0"


async def test_what_waits_for_all_agents_together_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await principal_serving()).runtime.budget.limit == 128 << 20
    monkeypatch.setenv("ARGOCD_PRINCIPAL_QUEUE_BYTES", "1000000")
    runtime = (await principal_serving()).runtime
    assert runtime.budget.limit == runtime.arrived.limit == 1_000_000


def test_an_agents_variables_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARGOCD_AGENT_MODE", "managed")
    monkeypatch.setenv("ARGOCD_AGENT_REMOTE_PORT", "8443")
    monkeypatch.setenv("ARGOCD_AGENT_BUFFER_INFORMER_EVENT_INTERVAL", "1m30s")
    serving = agent_serving()
    assert serving.settings.mode is Mode.MANAGED
    assert serving.dialing.port == 8443
    assert serving.settings.status_seconds == 90


def test_certificates_may_be_files_and_are_named_together(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("tls.crt", "tls.key", "ca.crt")]
    serving = agent_serving(
        "--tls-client-cert", paths[0], "--tls-client-key", paths[1], "--root-ca-path", paths[2]
    )
    assert serving.source == Files(certificate=Path(paths[0]), key=Path(paths[1]), authorities=Path(paths[2]))
    with pytest.raises(CallError, match="named together"):
        agent_serving("--tls-client-cert", paths[0])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("principal", "--auth", "magic"), "--auth magic: write mtls:"),
        (("agent",), "--server-address: the principal's name is needed"),
        (("agent", "--creds", "mtls", "--server-address", "x"), "--creds mtls: write mtls:any"),
        (("agent", "--log-level", "loud", "--server-address", "x"), "--log-level loud: known are"),
    ],
)
def test_a_bad_call_is_one_line(arguments: tuple[str, ...], words: str) -> None:
    done = tiphys_here(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_flags_of_what_is_not_built_are_accepted_with_one_warning() -> None:
    done = tiphys_here(
        "principal",
        "--enable-websocket",
        "--ha-failover-timeout=1m",
        "--redis-password",
        "hunter2",
        "--auth",
        "no",
    )
    assert "without effect" in done.stderr
    for flag in ("--enable-websocket", "--ha-failover-timeout"):
        assert flag in done.stderr
    assert "hunter2" not in done.stderr
