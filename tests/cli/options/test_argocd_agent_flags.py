"""An installation of argocd-agent changes its image and nothing else: its flags and variables are all taken."""

import re
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest

from certs.sources import Joined, first
from cli.commands import agent, principal
from cli.options.sidecar import UNUSED_VARIABLES, own_namespace, warn_of_unused
from kube.embedded import EmbeddedStore
from scripts.argocd_agent import BINARY
from tests.sidecars.captured_logs import logged

# Flag, variable, a value that is not the default. As argocd-agent 0.9 and its main branch have them.
PRINCIPAL = [
    ("listen-host", "ARGOCD_PRINCIPAL_LISTEN_HOST", "127.0.0.1"),
    ("listen-port", "ARGOCD_PRINCIPAL_LISTEN_PORT", "9443"),
    ("log-level", "ARGOCD_PRINCIPAL_LOG_LEVEL", "debug,resource=trace"),
    ("log-format", "ARGOCD_PRINCIPAL_LOG_FORMAT", "json"),
    ("full-detail", "ARGOCD_PRINCIPAL_FULL_DETAIL", "events"),
    ("metrics-port", "ARGOCD_PRINCIPAL_METRICS_PORT", "9000"),
    ("healthz-port", "ARGOCD_PRINCIPAL_HEALTH_CHECK_PORT", "9003"),
    ("pprof-port", "ARGOCD_PRINCIPAL_PPROF_PORT", "6060"),
    ("namespace", "ARGOCD_PRINCIPAL_NAMESPACE", "control"),
    ("allowed-namespaces", "ARGOCD_PRINCIPAL_ALLOWED_NAMESPACES", "agent-*,team-a"),
    ("namespace-create-enable", "ARGOCD_PRINCIPAL_NAMESPACE_CREATE_ENABLE", "true"),
    ("namespace-create-pattern", "ARGOCD_PRINCIPAL_NAMESPACE_CREATE_PATTERN", "agent-.*"),
    ("namespace-create-labels", "ARGOCD_PRINCIPAL_NAMESPACE_CREATE_LABELS", "a=b,c=d"),
    ("tls-secret-name", "ARGOCD_PRINCIPAL_TLS_SECRET_NAME", "other"),
    ("tls-cert", "ARGOCD_PRINCIPAL_TLS_SERVER_CERT_PATH", "/tls/tls.crt"),
    ("tls-key", "ARGOCD_PRINCIPAL_TLS_SERVER_KEY_PATH", "/tls/tls.key"),
    ("insecure-tls-generate", "ARGOCD_PRINCIPAL_TLS_SERVER_ALLOW_GENERATE", "true"),
    ("insecure-plaintext", "ARGOCD_PRINCIPAL_INSECURE_PLAINTEXT", "true"),
    ("tls-ca-secret-name", "ARGOCD_PRINCIPAL_TLS_SERVER_ROOT_CA_SECRET_NAME", "other"),
    ("root-ca-path", "ARGOCD_PRINCIPAL_TLS_SERVER_ROOT_CA_PATH", "/tls/ca.crt"),
    ("require-client-certs", "ARGOCD_PRINCIPAL_TLS_CLIENT_CERT_REQUIRE", "true"),
    ("client-cert-subject-match", "ARGOCD_PRINCIPAL_TLS_CLIENT_CERT_MATCH_SUBJECT", "true"),
    ("tls-min-version", "ARGOCD_PRINCIPAL_TLS_MIN_VERSION", "tls1.3"),
    ("tls-max-version", "ARGOCD_PRINCIPAL_TLS_MAX_VERSION", "tls1.3"),
    ("tls-ciphersuites", "ARGOCD_PRINCIPAL_TLS_CIPHERSUITES", "TLS_AES_128_GCM_SHA256"),
    ("resource-proxy-secret-name", "ARGOCD_PRINCIPAL_RESOURCE_PROXY_SECRET_NAME", "other"),
    ("resource-proxy-cert-path", "ARGOCD_PRINCIPAL_RESOURCE_PROXY_TLS_CERT_PATH", "/tls/proxy.crt"),
    ("resource-proxy-key-path", "ARGOCD_PRINCIPAL_RESOURCE_PROXY_TLS_KEY_PATH", "/tls/proxy.key"),
    ("resource-proxy-ca-secret-name", "ARGOCD_PRINCIPAL_RESOURCE_PROXY_CA_SECRET_NAME", "other"),
    ("resource-proxy-ca-path", "ARGOCD_PRINCIPAL_RESOURCE_PROXY_TLS_CA_PATH", "/tls/ca.crt"),
    ("enable-resource-proxy", "ARGOCD_PRINCIPAL_ENABLE_RESOURCE_PROXY", "false"),
    ("resource-proxy-address", "ARGOCD_PRINCIPAL_RESOURCE_PROXY_ADDRESS", "proxy:9090"),
    ("jwt-secret-name", "ARGOCD_PRINCIPAL_JWT_SECRET_NAME", "other"),
    ("jwt-key", "ARGOCD_PRINCIPAL_JWT_KEY_PATH", "/jwt/jwt.key"),
    ("insecure-jwt-generate", "ARGOCD_PRINCIPAL_JWT_ALLOW_GENERATE", "true"),
    ("auth", "ARGOCD_PRINCIPAL_AUTH", "mtls:uri:spiffe://(.*)"),
    ("enable-websocket", "ARGOCD_PRINCIPAL_ENABLE_WEBSOCKET", "true"),
    ("keepalive-min-interval", "ARGOCD_PRINCIPAL_KEEP_ALIVE_MIN_INTERVAL", "30s"),
    ("redis-server-address", "ARGOCD_PRINCIPAL_REDIS_SERVER_ADDRESS", "redis:6379"),
    ("redis-compression-type", "ARGOCD_PRINCIPAL_REDIS_COMPRESSION_TYPE", "none"),
    ("disable-redis-proxy", "ARGOCD_PRINCIPAL_DISABLE_REDIS_PROXY", "true"),
    ("redis-password", "REDIS_PASSWORD", "hunter2"),
    ("redis-creds-dir-path", "REDIS_CREDS_DIR_PATH", "/redis"),
    ("redis-tls-enabled", "ARGOCD_PRINCIPAL_REDIS_TLS_ENABLED", "true"),
    ("redis-proxy-server-tls-cert", "ARGOCD_PRINCIPAL_REDIS_PROXY_SERVER_TLS_CERT_PATH", "/tls/redis.crt"),
    ("redis-proxy-server-tls-key", "ARGOCD_PRINCIPAL_REDIS_PROXY_SERVER_TLS_KEY_PATH", "/tls/redis.key"),
    ("redis-proxy-server-tls-secret-name", "ARGOCD_PRINCIPAL_REDIS_PROXY_SERVER_TLS_SECRET_NAME", "other"),
    ("redis-ca-path", "ARGOCD_PRINCIPAL_REDIS_CA_PATH", "/tls/ca.crt"),
    ("redis-ca-secret-name", "ARGOCD_PRINCIPAL_REDIS_CA_SECRET_NAME", "other"),
    ("redis-tls-insecure", "ARGOCD_PRINCIPAL_REDIS_TLS_INSECURE", "true"),
    ("grpc-max-message-size", "ARGOCD_PRINCIPAL_GRPC_MAX_MESSAGE_SIZE", "104857600"),
    ("event-processors", "ARGOCD_PRINCIPAL_EVENT_PROCESSORS", "20"),
    ("otlp-address", "ARGOCD_PRINCIPAL_OTLP_ADDRESS", "collector:4317"),
    ("otlp-insecure", "ARGOCD_PRINCIPAL_OTLP_INSECURE", "true"),
    ("destination-based-mapping", "ARGOCD_PRINCIPAL_DESTINATION_BASED_MAPPING", "true"),
    ("label-selector", "ARGOCD_PRINCIPAL_LABEL_SELECTOR", "a=b"),
    ("enable-self-cluster-registration", "ARGOCD_PRINCIPAL_ENABLE_SELF_CLUSTER_REGISTRATION", "true"),
    ("self-registration-client-cert-secret", "ARGOCD_PRINCIPAL_SELF_REGISTRATION_CLIENT_CERT_SECRET", "a"),
    ("ha-enabled", "ARGOCD_PRINCIPAL_HA_ENABLED", "true"),
    ("ha-preferred-role", "ARGOCD_PRINCIPAL_HA_PREFERRED_ROLE", "replica"),
    ("ha-peer-address", "ARGOCD_PRINCIPAL_HA_PEER_ADDRESS", "peer:8443"),
    ("ha-failover-timeout", "ARGOCD_PRINCIPAL_HA_FAILOVER_TIMEOUT", "1m"),
    ("ha-admin-port", "ARGOCD_PRINCIPAL_HA_ADMIN_PORT", "8405"),
    ("ha-allowed-replication-clients", "ARGOCD_PRINCIPAL_HA_ALLOWED_REPLICATION_CLIENTS", "a,b"),
    ("ha-replication-initial-ack-timeout", "ARGOCD_PRINCIPAL_HA_REPLICATION_INITIAL_ACK_TIMEOUT", "5m"),
    ("kubeconfig", "", "/kube/config"),
    ("kubecontext", "", "hub"),
]
AGENT = [
    ("server-address", "ARGOCD_AGENT_REMOTE_SERVER", "hub"),
    ("server-port", "ARGOCD_AGENT_REMOTE_PORT", "8443"),
    ("agent-mode", "ARGOCD_AGENT_MODE", "managed"),
    ("namespace", "ARGOCD_AGENT_NAMESPACE", "workload"),
    ("creds", "ARGOCD_AGENT_CREDS", "header:any"),
    ("root-ca-secret-name", "ARGOCD_AGENT_TLS_ROOT_CA_SECRET_NAME", "other"),
    ("root-ca-path", "ARGOCD_AGENT_TLS_ROOT_CA_PATH", "/tls/ca.crt"),
    ("tls-secret-name", "ARGOCD_AGENT_TLS_SECRET_NAME", "other"),
    ("tls-client-cert", "ARGOCD_AGENT_TLS_CLIENT_CERT_PATH", "/tls/tls.crt"),
    ("tls-client-key", "ARGOCD_AGENT_TLS_CLIENT_KEY_PATH", "/tls/tls.key"),
    ("insecure-tls", "ARGOCD_AGENT_TLS_INSECURE", "true"),
    ("insecure-plaintext", "ARGOCD_AGENT_INSECURE_PLAINTEXT", "true"),
    ("tls-min-version", "ARGOCD_AGENT_TLS_MIN_VERSION", "tls1.3"),
    ("tls-max-version", "ARGOCD_AGENT_TLS_MAX_VERSION", "tls1.3"),
    ("tls-ciphersuites", "ARGOCD_AGENT_TLS_CIPHERSUITES", "TLS_AES_128_GCM_SHA256"),
    ("enable-websocket", "ARGOCD_AGENT_ENABLE_WEBSOCKET", "true"),
    ("enable-compression", "ARGOCD_AGENT_ENABLE_COMPRESSION", "true"),
    ("keep-alive-ping-interval", "ARGOCD_AGENT_KEEP_ALIVE_PING_INTERVAL", "1m0s"),
    ("heartbeat-interval", "ARGOCD_AGENT_HEARTBEAT_INTERVAL", "30s"),
    ("metrics-port", "ARGOCD_AGENT_METRICS_PORT", "9181"),
    ("healthz-port", "ARGOCD_AGENT_HEALTH_CHECK_PORT", "8002"),
    ("pprof-port", "ARGOCD_AGENT_PPROF_PORT", "6060"),
    ("enable-resource-proxy", "ARGOCD_AGENT_ENABLE_RESOURCE_PROXY", "false"),
    ("cache-refresh-interval", "ARGOCD_AGENT_CACHE_REFRESH_INTERVAL", "20s"),
    ("informer-sync-timeout", "ARGOCD_AGENT_INFORMER_SYNC_TIMEOUT", "20s"),
    ("buffer-informer-event-interval", "ARGOCD_AGENT_BUFFER_INFORMER_EVENT_INTERVAL", "2s"),
    ("grpc-max-message-size", "ARGOCD_AGENT_GRPC_MAX_MESSAGE_SIZE", "104857600"),
    ("destination-based-mapping", "ARGOCD_AGENT_DESTINATION_BASED_MAPPING", "true"),
    ("create-namespace", "ARGOCD_AGENT_CREATE_NAMESPACE", "true"),
    ("allowed-namespaces", "ARGOCD_AGENT_ALLOWED_NAMESPACES", "team-*,shop"),
    ("ignore-unmanaged-apps", "ARGOCD_AGENT_IGNORE_UNMANAGED_APPS", "true"),
    ("source-uid-mismatch-policy", "ARGOCD_AGENT_SOURCE_UID_MISMATCH_POLICY", "upsert"),
    ("on-application-recreate", "ARGOCD_AGENT_ON_APPLICATION_RECREATE", "resync"),
    ("adoption-policy", "ARGOCD_AGENT_ADOPTION_POLICY", "never"),
    ("label-selector", "ARGOCD_AGENT_LABEL_SELECTOR", "a=b"),
    ("redis-addr", "REDIS_ADDR", "redis:6379"),
    ("redis-username", "REDIS_USERNAME", "somebody"),
    ("redis-password", "REDIS_PASSWORD", "hunter2"),
    ("redis-creds-dir-path", "REDIS_CREDS_DIR_PATH", "/redis"),
    ("redis-tls-enabled", "ARGOCD_AGENT_REDIS_TLS_ENABLED", "true"),
    ("redis-tls-ca-path", "ARGOCD_AGENT_REDIS_TLS_CA_PATH", "/tls/ca.crt"),
    ("redis-tls-ca-secret-name", "ARGOCD_AGENT_REDIS_TLS_CA_SECRET_NAME", "other"),
    ("redis-tls-insecure", "ARGOCD_AGENT_REDIS_TLS_INSECURE", "true"),
    ("log-level", "ARGOCD_AGENT_LOG_LEVEL", "trace"),
    ("log-format", "ARGOCD_AGENT_LOG_FORMAT", "json"),
    ("log-format", "ARGOCD_PRINCIPAL_LOG_FORMAT", "json"),
    ("full-detail", "ARGOCD_AGENT_FULL_DETAIL", "events"),
    ("otlp-address", "ARGOCD_AGENT_OTLP_ADDRESS", "collector:4317"),
    ("otlp-insecure", "ARGOCD_AGENT_OTLP_INSECURE", "true"),
    ("kubeconfig", "", "/kube/config"),
    ("kubecontext", "", "workload"),
]
ROWS = [(principal.command, *row) for row in PRINCIPAL] + [(agent.command, *row) for row in AGENT]
IDS = [f"{place} {row[0]}" for place, rows in (("principal", PRINCIPAL), ("agent", AGENT)) for row in rows]
SWITCHES = [row for row in ROWS if row[3] in {"true", "false"}]


def given(command: click.Command, *arguments: str) -> dict[str, Any]:
    return command.make_context("tiphys", list(arguments), auto_envvar_prefix="TIPHYS_TEST").params


@pytest.mark.parametrize(("command", "flag", "variable", "value"), ROWS, ids=IDS)
def test_a_flag_and_its_variable_mean_the_same(
    command: click.Command, flag: str, variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = flag.replace("-", "_")
    usual = given(command)[name]
    by_flag = given(command, f"--{flag}={value}")[name]
    assert by_flag != usual
    assert given(command, f"--{flag}", value)[name] == by_flag
    if variable:
        monkeypatch.setenv(variable, "")
        assert given(command)[name] == usual
        monkeypatch.setenv(variable, value)
        assert given(command)[name] == by_flag


@pytest.mark.parametrize(("command", "flag"), [row[:2] for row in SWITCHES])
def test_a_switch_is_written_in_gos_three_ways(command: click.Command, flag: str) -> None:
    name = flag.replace("-", "_")
    short = given(command, f"--{flag}", "--label-selector", "a")
    assert short[name] == given(command, f"--{flag}=true")[name]
    assert given(command, f"--{flag}=false")[name] in {False, "false"}


@pytest.mark.parametrize("command", [principal.command, agent.command])
def test_the_namespace_has_a_short_flag(command: click.Command) -> None:
    assert given(command, "-n", "there")["namespace"] == "there"


@pytest.mark.parametrize(
    ("unused", "options"),
    [
        (principal.UNUSED, given(principal.command, "--enable-websocket", "--otlp-insecure=false")),
        (agent.UNUSED, given(agent.command, "--enable-websocket", "--redis-tls-enabled=false")),
    ],
    ids=["principal", "agent"],
)
def test_what_has_no_effect_is_said_once_unless_it_is_off(
    unused: Any, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in UNUSED_VARIABLES:
        monkeypatch.setenv(name, "100")
    lines = logged()
    warn_of_unused(options, unused)
    (line,) = lines.all()
    assert set(line["flags"]) > set(UNUSED_VARIABLES)
    assert len(line["flags"]) == 1 + len(UNUSED_VARIABLES)


def test_a_principal_is_at_home_in_its_pods_namespace(tmp_path: Path) -> None:
    assert own_namespace(tmp_path / "nowhere") == "argocd"
    (tmp_path / "namespace").write_text("control\n")
    assert own_namespace(tmp_path / "namespace") == "control"


async def test_ports_of_zero_switch_pages_off() -> None:
    off = given(principal.command, "--insecure-jwt-generate", "--metrics-port=0", "--healthz-port=0")
    serving = await principal.serving(EmbeddedStore(), off, principal.authentication(off["auth"]))
    assert (serving.metrics_port, serving.health_port) == (None, None)
    off = given(agent.command, "--metrics-port=0", "--healthz-port=0", "--server-address=hub")
    whole = agent.serving(EmbeddedStore(), off)
    assert (whole.metrics_port, whole.health_port) == (None, None)


async def test_a_certificate_may_be_made_at_the_start() -> None:
    options = given(
        principal.command, "--insecure-jwt-generate", "--insecure-tls-generate", "--auth=userpass:/dev/null"
    )
    serving = await principal.serving(EmbeddedStore(), options, principal.authentication(options["auth"]))
    assert serving.source is not None
    material = await first(serving.source, certificate="test")
    assert material.pair is not None
    assert material.roots == b""


def test_a_certificate_from_a_secret_and_authorities_from_a_file_may_be_mixed() -> None:
    options = given(agent.command, "--server-address=hub", "--root-ca-path=/tls/ca.crt")
    assert isinstance(agent.serving(EmbeddedStore(), options).source, Joined)


@pytest.mark.skipif(not BINARY, reason="ARGOCD_AGENT_BIN names no argocd-agent")
@pytest.mark.parametrize(("name", "command"), [("principal", principal.command), ("agent", agent.command)])
def test_a_real_argocd_agent_has_no_flag_that_is_unknown_here(name: str, command: click.Command) -> None:
    done = subprocess.run([BINARY, name, "--help"], capture_output=True, text=True, check=False, timeout=30)
    theirs = set(re.findall(r"^ +(?:-\w, )?(--[a-z0-9-]+)", done.stdout + done.stderr, re.MULTILINE))
    ours = {flag for param in command.params for flag in param.opts}
    assert len(theirs) > 30
    assert theirs - ours == {"--help"}
