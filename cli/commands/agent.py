"""`tiphys agent`: the sidecar beside a workload cluster's Argo CD."""

import sidecars.wire  # noqa: F401  isort: skip - grpc reads its ciphers when it is first imported

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from argocd import names
from argocd.agents.identity import Adoption, Mismatch
from argocd.agents.routing import AgentMapping
from argocd.agents.vocabulary import Mode
from certs.folder import read
from cli.options import combined
from cli.options.redis import agent_redis, agent_redis_options
from cli.options.sidecar import (
    PATH,
    Flags,
    certificates,
    configure_logs,
    port,
    run_sidecar,
    warn_of_unused,
)
from kube.store import Store
from sidecars.agent.process import AgentOptions, AgentProcess
from sidecars.agent.settings import COMPARE_SECONDS, AgentSettings, OnRecreate
from sidecars.wire.auth.passwords import Login
from sidecars.wire.client.dialer import DialOptions
from sidecars.wire.streams import DEFAULT_MAX_MESSAGE_BYTES
from tiphys import __version__, settings
from tiphys.errors import CallError

FLAGS = Flags("ARGOCD_AGENT")
METHODS = ("mtls", "userpass", "header")

# What this version does not do: proxies, WebSocket, other TLS than 1.3, tracing.
UNUSED = (
    ("full-detail", "FULL_DETAIL"),
    ("pprof-port", "PPROF_PORT"),
    ("tls-min-version", "TLS_MIN_VERSION"),
    ("tls-max-version", "TLS_MAX_VERSION"),
    ("tls-ciphersuites", "TLS_CIPHERSUITES"),
    ("enable-websocket", "ENABLE_WEBSOCKET"),
    ("informer-sync-timeout", "INFORMER_SYNC_TIMEOUT"),
    ("otlp-address", "OTLP_ADDRESS"),
    ("otlp-insecure", "OTLP_INSECURE"),
)

OPTIONS = combined(
    FLAGS.option(
        "--server-address", env="REMOTE_SERVER", default="", help="The principal's name or address."
    ),
    FLAGS.option("--server-port", env="REMOTE_PORT", default=443, help="The principal's port."),
    FLAGS.option(
        "--agent-mode",
        env="MODE",
        default=Mode.AUTONOMOUS.value,
        type=click.Choice([mode.value for mode in Mode]),
        help="Who decides what this cluster shall look like.",
    ),
    FLAGS.option(
        "--namespace", "-n", default=names.DEFAULT_NAMESPACE, help="Argo CD's namespace, and the agent's."
    ),
    FLAGS.option("--creds", default="mtls:any", help="How to log in: mtls:any, userpass:<file>, header:any."),
    FLAGS.option(
        "--root-ca-secret-name",
        env="TLS_ROOT_CA_SECRET_NAME",
        default="argocd-agent-ca",
        help="The Secret with the authorities of the principal's certificate.",
    ),
    FLAGS.option("--root-ca-path", env="TLS_ROOT_CA_PATH", type=PATH, help="The same as a file."),
    FLAGS.option(
        "--tls-secret-name", default="argocd-agent-client-tls", help="The Secret with our certificate."
    ),
    FLAGS.option("--tls-client-cert", env="TLS_CLIENT_CERT_PATH", type=PATH, help="The same as a file."),
    FLAGS.option("--tls-client-key", env="TLS_CLIENT_KEY_PATH", type=PATH, help="And its key."),
    FLAGS.switch(
        "--insecure-tls", env="TLS_INSECURE", text="Believe whatever certificate the principal shows."
    ),
    FLAGS.switch("--insecure-plaintext", text="No TLS: only inside of a mesh that does it."),
    FLAGS.switch("--enable-compression", text="Compress messages."),
    FLAGS.option(
        "--keep-alive-ping-interval",
        type=settings.DURATION,
        default="0",
        help="Between pings; 0: as often as any principal allows.",
    ),
    FLAGS.option(
        "--heartbeat-interval", type=settings.DURATION, default="0", help="Between heartbeats; 0: none."
    ),
    FLAGS.option(
        "--cache-refresh-interval",
        type=settings.DURATION,
        default="10s",
        help="Between two looks at what Argo CD counted of this cluster, for the control plane.",
    ),
    FLAGS.option("--metrics-port", default=8181, help="The port of /metrics; 0: none."),
    FLAGS.option(
        "--healthz-port", env="HEALTH_CHECK_PORT", default=8001, help="The port of /healthz; 0: none."
    ),
    FLAGS.option(
        "--buffer-informer-event-interval",
        type=settings.DURATION,
        default="0",
        help="One status of an Application within this time at most; 0: as they come.",
    ),
    FLAGS.switch(
        "--destination-based-mapping", text="Applications keep the namespace that they have at the principal."
    ),
    FLAGS.switch("--create-namespace", text="Make namespaces that Applications need."),
    FLAGS.texts(
        "--allowed-namespaces", text="Where Applications may be, besides our own: globs or /expressions/."
    ),
    FLAGS.switch("--ignore-unmanaged-apps", text="Do not complain of Applications that are nobody's copy."),
    FLAGS.option(
        "--source-uid-mismatch-policy",
        default=Mismatch.RECREATE.value,
        type=click.Choice([word.value for word in Mismatch]),
        help="What a copy becomes whose source was made anew.",
    ),
    FLAGS.option(
        "--on-application-recreate",
        default=OnRecreate.IGNORE.value,
        type=click.Choice([word.value for word in OnRecreate]),
        help="What an Application gets that was deleted here and is made again.",
    ),
    FLAGS.option(
        "--adoption-policy",
        default=Adoption.ALWAYS.value,
        type=click.Choice([word.value for word in Adoption]),
        help="Whether an Application that is nobody's copy may become one.",
    ),
    FLAGS.switch(
        "--enable-resource-proxy",
        default=True,
        text="Let the principal see and change live objects of our Applications.",
    ),
    FLAGS.texts(
        "--resource-proxy-namespaces",
        text="Only those in these namespaces: globs or /expressions/; without it all.",
    ),
    FLAGS.switch(
        "--enable-logs",
        default=True,
        text="Let the principal read logs of our Applications' pods.",
    ),
    FLAGS.switch("--enable-exec", text="Let the principal open terminals in our Applications' pods."),
    FLAGS.option(
        "--exec-limit",
        type=settings.DURATION,
        default="30m",
        help="A terminal is closed after this; 0: never.",
    ),
    FLAGS.option(
        "--exec-idle-limit",
        type=settings.DURATION,
        default="10m",
        help="And after so long without a word from either side; 0: never.",
    ),
    FLAGS.option("--label-selector", default="", help="Only objects that match are kept in step."),
    FLAGS.option(
        "--grpc-max-message-size", default=DEFAULT_MAX_MESSAGE_BYTES, help="Bytes of one message at most."
    ),
    FLAGS.option(
        "--compare-interval",
        type=settings.DURATION,
        default=f"{COMPARE_SECONDS:.0f}s",
        help="Between two comparisons with a principal of ours; argocd-agent's is asked every third time.",
    ),
    agent_redis_options(FLAGS),
    # argocd-agent's agent reads the principal's variable.
    FLAGS.log_and_cluster_options(also_format=["ARGOCD_PRINCIPAL_LOG_FORMAT"]),
    FLAGS.unused(UNUSED),
)


@click.command(cls=settings.Command)
@OPTIONS
def command(**given: Any) -> None:
    """Keep this cluster in step with its principal until SIGTERM. Flags and variables are argocd-agent's."""
    configure_logs(given["log_level"], given["log_format"])
    warn_of_unused(given, UNUSED)

    _check(given)

    async def process(store: Store) -> AgentProcess:
        return AgentProcess(store, replace(serving(store, given), redis=await agent_redis(store, given)))

    run_sidecar(given, process, name="agent")


def _check(given: dict[str, Any]) -> None:
    method, colon, _ = given["creds"].partition(":")
    if not colon or method not in METHODS:
        raise CallError(f"--creds {given['creds']}: write mtls:any, userpass:<file> or header:any")
    if not given["server_address"]:
        raise CallError("--server-address: the principal's name is needed")


def serving(store: Store, given: dict[str, Any]) -> AgentOptions:
    method, _, config = given["creds"].partition(":")
    login = None
    if method == "userpass":
        login = Login.parse(read(Path(config).parent, Path(config).name).decode(errors="replace"))
    source = None
    if not given["insecure_plaintext"]:
        source = certificates(
            store,
            namespace=given["namespace"],
            pair=(given["tls_client_cert"], given["tls_client_key"]),
            authorities=given["root_ca_path"],
            pair_secret=given["tls_secret_name"] if method == "mtls" else "",
            authorities_secret="" if given["insecure_tls"] else given["root_ca_secret_name"],
        )
    mode = Mode(given["agent_mode"])
    return AgentOptions(
        settings=AgentSettings(
            mode=mode,
            namespace=given["namespace"],
            mapped_by=AgentMapping.DESTINATION
            if given["destination_based_mapping"]
            else AgentMapping.NAMESPACE,
            allowed_namespaces=given["allowed_namespaces"],
            create_namespaces=given["create_namespace"],
            ignore_unmanaged=given["ignore_unmanaged_apps"],
            mismatch=Mismatch(given["source_uid_mismatch_policy"]),
            adoption=Adoption(given["adoption_policy"]),
            on_recreate=OnRecreate(given["on_application_recreate"]),
            label_selector=given["label_selector"],
            status_seconds=given["buffer_informer_event_interval"],
            heartbeat_seconds=given["heartbeat_interval"],
            cache_refresh_seconds=given["cache_refresh_interval"],
            compare_seconds=given["compare_interval"],
            resource_proxy=given["enable_resource_proxy"],
            resource_proxy_namespaces=given["resource_proxy_namespaces"],
            logs=given["enable_logs"],
            terminals=given["enable_exec"],
            terminal_seconds=given["exec_limit"],
            terminal_idle_seconds=given["exec_idle_limit"],
        ),
        dialing=DialOptions(
            host=given["server_address"],
            port=given["server_port"],
            skip_verification=given["insecure_tls"],
            method=method,
            login=login,
            mode=mode,
            namespace=given["namespace"],
            version=__version__,
            compression=given["enable_compression"],
            keepalive_seconds=given["keep_alive_ping_interval"],
            max_message_bytes=given["grpc_max_message_size"],
        ),
        source=source,
        health_port=port(given["healthz_port"]),
        metrics_port=port(given["metrics_port"]),
    )
