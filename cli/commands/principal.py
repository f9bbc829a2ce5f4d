"""`tiphys principal`: the sidecar beside the control plane's Argo CD."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sidecars.wire  # noqa: F401  isort: skip - grpc reads its ciphers when it is first imported

import click

from argocd import names
from argocd.agents.routing import AgentMapping
from certs.folder import read
from certs.sources import Generated, Joined, LoadedSource, secret_data
from cli.options import combined
from cli.options.high_availability import ha_options, ha_settings
from cli.options.redis import redis_proxy, redis_proxy_options
from cli.options.sidecar import (
    PATH,
    Flags,
    certificates,
    configure_logs,
    own_namespace,
    parse_labels,
    port,
    run_sidecar,
    warn_of_unused,
)
from kube.store import Store
from sidecars.principal.process import PrincipalOptions, PrincipalProcess, runtime
from sidecars.principal.proxies.resource_port import ResourcePortOptions
from sidecars.principal.settings import COMPARE_SECONDS, QUEUE_BYTES, PrincipalSettings
from sidecars.wire.auth.methods import Method, certificate_method, header_method
from sidecars.wire.auth.passwords import PasswordMethod, read_accounts
from sidecars.wire.auth.tokens import Tokens, generate_key, load_key
from sidecars.wire.streams import DEFAULT_MAX_MESSAGE_BYTES
from tiphys import settings
from tiphys.errors import CallError

FLAGS = Flags("ARGOCD_PRINCIPAL")
JWT_FIELD = "jwt.key"

# What this version does not do: proxies, WebSocket, other TLS than 1.3, tracing.
UNUSED = (
    ("full-detail", "FULL_DETAIL"),
    ("pprof-port", "PPROF_PORT"),
    ("tls-min-version", "TLS_MIN_VERSION"),
    ("tls-max-version", "TLS_MAX_VERSION"),
    ("tls-ciphersuites", "TLS_CIPHERSUITES"),
    ("enable-websocket", "ENABLE_WEBSOCKET"),
    ("event-processors", "EVENT_PROCESSORS"),
    ("otlp-address", "OTLP_ADDRESS"),
    ("otlp-insecure", "OTLP_INSECURE"),
    ("ha-failover-timeout", "HA_FAILOVER_TIMEOUT"),
    ("ha-replication-initial-ack-timeout", "HA_REPLICATION_INITIAL_ACK_TIMEOUT"),
)

OPTIONS = combined(
    FLAGS.option(
        "--namespace",
        "-n",
        default=own_namespace,
        show_default=False,
        help="Argo CD's namespace, and the principal's; without it the pod's, or argocd.",
    ),
    FLAGS.option(
        "--listen-host",
        default=None,
        help="Where agents are listened for; without it everywhere, but with --auth header: on 127.0.0.1.",
    ),
    FLAGS.option("--listen-port", default=8443, help="The port for agents."),
    FLAGS.option("--metrics-port", default=8000, help="The port of /metrics; 0: none."),
    FLAGS.option(
        "--healthz-port",
        env="HEALTH_CHECK_PORT",
        default=8003,
        help="The port of /healthz and /readyz; 0: none.",
    ),
    FLAGS.option(
        "--agents-port",
        default=8004,
        help="The port of /agents, for loopback and for whom the API server vouches; 0: none.",
    ),
    FLAGS.option(
        "--auth", default="mtls:CN=([^,]+)", help="How agents show who they are: mtls:, header:, userpass:."
    ),
    FLAGS.texts("--allowed-namespaces", text="Where Applications are looked for: globs or /expressions/."),
    FLAGS.switch(
        "--destination-based-mapping", text="The destination's name, not the namespace, names the agent."
    ),
    FLAGS.option("--label-selector", default="", help="Only objects that match are kept in step."),
    FLAGS.switch("--namespace-create-enable", text="Make the namespaces of autonomous agents."),
    FLAGS.option(
        "--namespace-create-pattern", default="", help="Only those whose names match this expression."
    ),
    FLAGS.texts("--namespace-create-labels", text="Labels of namespaces that are made: name=value."),
    FLAGS.switch(
        "--enable-self-cluster-registration", text="Make the cluster Secret of an agent that logs in."
    ),
    FLAGS.option(
        "--self-registration-client-cert-secret",
        default="",
        help="The Secret with the client certificate that is written into those, beside a token.",
    ),
    FLAGS.option(
        "--resource-proxy-address",
        default="argocd-agent-resource-proxy:9090",
        help="Written into those Secrets.",
    ),
    FLAGS.switch(
        "--enable-resource-proxy",
        default=True,
        text="Serve live objects of agents' clusters, on port 9090.",
    ),
    FLAGS.option(
        "--resource-proxy-secret-name",
        default=names.RESOURCE_PROXY_TLS_SECRET,
        help="The Secret with that port's certificate.",
    ),
    FLAGS.option(
        "--resource-proxy-cert-path",
        env="RESOURCE_PROXY_TLS_CERT_PATH",
        type=PATH,
        help="The same as a file.",
    ),
    FLAGS.option(
        "--resource-proxy-key-path", env="RESOURCE_PROXY_TLS_KEY_PATH", type=PATH, help="And its key."
    ),
    FLAGS.option(
        "--resource-proxy-ca-secret-name",
        env="RESOURCE_PROXY_CA_SECRET_NAME",
        default="argocd-agent-ca",
        help="The Secret with the authorities of its callers' certificates.",
    ),
    FLAGS.option(
        "--resource-proxy-ca-path", env="RESOURCE_PROXY_TLS_CA_PATH", type=PATH, help="The same as a file."
    ),
    FLAGS.option("--resource-proxy-port", default=9090, help="That port."),
    FLAGS.switch(
        "--resource-proxy-drop-impersonation",
        text="Let agents of argocd-agent act as themselves where an account is to be impersonated.",
    ),
    FLAGS.switch(
        "--trust-agent-mode",
        text="An agent is managed or autonomous as its login says, as in argocd-agent.",
    ),
    FLAGS.option(
        "--tls-secret-name", default="argocd-agent-principal-tls", help="The Secret with our certificate."
    ),
    FLAGS.option("--tls-cert", env="TLS_SERVER_CERT_PATH", type=PATH, help="The same as a file."),
    FLAGS.option("--tls-key", env="TLS_SERVER_KEY_PATH", type=PATH, help="And its key."),
    FLAGS.switch(
        "--insecure-tls-generate",
        env="TLS_SERVER_ALLOW_GENERATE",
        text="A new certificate at every start, which no agent can verify.",
    ),
    FLAGS.option(
        "--tls-ca-secret-name",
        env="TLS_SERVER_ROOT_CA_SECRET_NAME",
        default="argocd-agent-ca",
        help="The Secret with the authorities of agents' certificates.",
    ),
    FLAGS.option("--root-ca-path", env="TLS_SERVER_ROOT_CA_PATH", type=PATH, help="The same as a file."),
    FLAGS.switch(
        "--require-client-certs", env="TLS_CLIENT_CERT_REQUIRE", text="Also where --auth needs none."
    ),
    FLAGS.switch(
        "--client-cert-subject-match",
        env="TLS_CLIENT_CERT_MATCH_SUBJECT",
        text="The common name must be the agent's.",
    ),
    FLAGS.switch("--insecure-plaintext", text="No TLS: only inside of a mesh that does it."),
    FLAGS.option(
        "--jwt-secret-name", default="argocd-agent-jwt", help="The Secret with the key that signs tokens."
    ),
    FLAGS.option("--jwt-key", env="JWT_KEY_PATH", type=PATH, help="The same as a file."),
    FLAGS.switch("--insecure-jwt-generate", env="JWT_ALLOW_GENERATE", text="A new key at every start."),
    FLAGS.option(
        "--grpc-max-message-size", default=DEFAULT_MAX_MESSAGE_BYTES, help="Bytes of one message at most."
    ),
    FLAGS.option(
        "--keepalive-min-interval",
        env="KEEP_ALIVE_MIN_INTERVAL",
        type=settings.DURATION,
        default="0",
        help="Agents that ping more often are cut off; 0: nearly no limit.",
    ),
    FLAGS.option(
        "--compare-interval",
        type=settings.DURATION,
        default=f"{COMPARE_SECONDS:.0f}s",
        help="Between two comparisons with an agent of ours; argocd-agent's are asked every third time.",
    ),
    FLAGS.option(
        "--app-info-limit",
        type=click.IntRange(min=0),
        default=0,
        help="argocd_app_info on /metrics for so many of the agents' Applications at most; 0: none.",
    ),
    FLAGS.option(
        "--queue-bytes",
        type=click.IntRange(min=0),
        default=QUEUE_BYTES,
        help="Of what waits for all agents together, and of what has come from them; the rest is found by comparing,"
        " or waits at the agents.",
    ),
    redis_proxy_options(FLAGS),
    ha_options(FLAGS),
    FLAGS.log_and_cluster_options(),
    FLAGS.unused(UNUSED),
)


@click.command(cls=settings.Command)
@OPTIONS
def command(**given: Any) -> None:
    """Keep agents in step with this control plane until SIGTERM. Flags and variables are argocd-agent's."""
    configure_logs(given["log_level"], given["log_format"])
    warn_of_unused(given, UNUSED)

    method = authentication(given["auth"])

    async def process(store: Store) -> PrincipalProcess:
        return PrincipalProcess(store, await serving(store, given, method))

    run_sidecar(given, process, name="principal")


async def serving(store: Store, given: dict[str, Any], method: Method) -> PrincipalOptions:
    plaintext = given["insecure_plaintext"]
    certificated = method.name == "mtls" or given["require_client_certs"]
    source: LoadedSource | None = None
    if not plaintext:
        generates = given["insecure_tls_generate"]
        source = certificates(
            store,
            namespace=given["namespace"],
            pair=(None, None) if generates else (given["tls_cert"], given["tls_key"]),
            authorities=given["root_ca_path"],
            pair_secret="" if generates else given["tls_secret_name"],
            authorities_secret=given["tls_ca_secret_name"] if certificated else "",
        )
        if generates:
            source = Joined(Generated(now=datetime.now(UTC)), source)
    return PrincipalOptions(
        settings=PrincipalSettings(
            namespace=given["namespace"],
            allowed_namespaces=given["allowed_namespaces"],
            mapped_by=AgentMapping.DESTINATION
            if given["destination_based_mapping"]
            else AgentMapping.NAMESPACE,
            create_namespaces=given["namespace_create_enable"],
            namespace_pattern=given["namespace_create_pattern"],
            namespace_labels=parse_labels(given["namespace_create_labels"]),
            label_selector=given["label_selector"],
            register_agents=given["enable_self_cluster_registration"],
            shared_client_secret=given["self_registration_client_cert_secret"],
            resource_proxy_address=given["resource_proxy_address"],
            trust_agent_mode=given["trust_agent_mode"],
            compare_seconds=given["compare_interval"],
            app_info_limit=given["app_info_limit"],
        ),
        method=method,
        tokens=Tokens(await _signing_key(store, given), now=time.time),
        source=source,
        host=_host(given["listen_host"], method),
        port=given["listen_port"],
        require_client_certificates=certificated,
        match_common_name=given["client_cert_subject_match"],
        max_message_bytes=given["grpc_max_message_size"],
        keepalive_min_seconds=given["keepalive_min_interval"],
        health_port=port(given["healthz_port"]),
        metrics_port=port(given["metrics_port"]),
        pages_port=port(given["agents_port"]),
        redis=await redis_proxy(store, given),
        resources=_resources(store, given),
        passwords=Path(given["auth"].partition(":")[2]) if method.name == "userpass" else None,
        runtime=runtime(given["queue_bytes"]),
        ha=ha_settings(given),
    )


def _resources(store: Store, given: dict[str, Any]) -> ResourcePortOptions | None:
    if not given["enable_resource_proxy"]:
        return None
    source = certificates(
        store,
        namespace=given["namespace"],
        pair=(given["resource_proxy_cert_path"], given["resource_proxy_key_path"]),
        authorities=given["resource_proxy_ca_path"],
        pair_secret=given["resource_proxy_secret_name"],
        authorities_secret=given["resource_proxy_ca_secret_name"],
    )
    return ResourcePortOptions(
        source=source,
        port=given["resource_proxy_port"],
        drop_impersonation=given["resource_proxy_drop_impersonation"],
    )


def _host(given: str | None, method: Method) -> str:
    """Whoever reaches the port of a header's method can be any agent: only the mesh beside us shall."""
    if given is not None:
        return given
    return "127.0.0.1" if method.name == "header" else ""


def authentication(text: str) -> Method:
    method, colon, config = text.partition(":")
    if colon and method == "mtls":
        return certificate_method(config)
    if colon and method == "header":
        return header_method(config)
    if colon and method == "userpass":
        return PasswordMethod(read_accounts(Path(config)))
    raise CallError(f"--auth {text}: write mtls:<pattern>, header:<name>:<pattern> or userpass:<file>")


async def _signing_key(store: Store, given: dict[str, Any]) -> Any:
    if given["insecure_jwt_generate"]:
        return generate_key()
    if path := given["jwt_key"]:
        return load_key(read(path.parent, path.name), origin=str(path))
    name, namespace = given["jwt_secret_name"], given["namespace"]
    data = await secret_data(store, namespace=namespace, name=name)
    return load_key(data.get(JWT_FIELD, b""), origin=f"Secret {namespace}/{name}")
