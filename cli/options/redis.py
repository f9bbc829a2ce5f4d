"""The flags about Redis on either end, by argocd-agent's names."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from argocd import names
from certs.folder import BUNDLE, read
from certs.sources import Generated, Joined, LoadedSource, secret_data
from cli.options import F, combined
from cli.options.sidecar import PATH, Flags, certificates
from kube.store import Store
from sidecars.proxies.redis.backend import DEFAULT_ADDRESS, DEFAULT_PORT, RedisBackend, parse_address
from sidecars.proxies.redis.listener import RedisProxyOptions


def redis_proxy_options(flags: Flags) -> Callable[[F], F]:
    return combined(
        flags.switch("--disable-redis-proxy", text="argocd-server asks the control plane's Redis itself."),
        flags.option(
            "--redis-proxy-port",
            default=DEFAULT_PORT,
            help="The port that argocd-server takes for its Redis.",
        ),
        flags.option(
            "--redis-server-address", default=DEFAULT_ADDRESS, help="The control plane's Redis: host:port."
        ),
        flags.option(
            "--redis-compression-type",
            default="gzip",
            type=click.Choice(["gzip", "none"]),
            help="Of what is in it.",
        ),
        click.option(
            "--redis-password",
            envvar="REDIS_PASSWORD",
            default="",
            help="Its password, to tell it of agents.",
        ),
        click.option(
            "--redis-creds-dir-path",
            envvar="REDIS_CREDS_DIR_PATH",
            type=PATH,
            help="A folder with that, as files auth_username and auth.",
        ),
        flags.option(
            "--redis-proxy-server-tls-secret-name",
            default=names.REDIS_PROXY_TLS_SECRET,
            help="The Secret with the Redis proxy's certificate.",
        ),
        flags.option(
            "--redis-proxy-server-tls-cert",
            env="REDIS_PROXY_SERVER_TLS_CERT_PATH",
            type=PATH,
            help="The same as a file.",
        ),
        flags.option(
            "--redis-proxy-server-tls-key",
            env="REDIS_PROXY_SERVER_TLS_KEY_PATH",
            type=PATH,
            help="And its key.",
        ),
        flags.switch(
            "--insecure-redis-plaintext", text="The Redis proxy listens without TLS: only inside of a mesh."
        ),
        _tls_options(flags, authorities="--redis-ca"),
    )


def agent_redis_options(flags: Flags) -> Callable[[F], F]:
    """Where and as whom without the prefix: Argo CD's own programs read the same variables."""
    return combined(
        click.option(
            "--redis-addr", envvar="REDIS_ADDR", default=DEFAULT_ADDRESS, show_default=True,
            help="This cluster's Redis, whose trees the control plane shows: host:port; empty: none.",
        ),
        click.option("--redis-username", envvar="REDIS_USERNAME", default="", help="Its user."),
        click.option("--redis-password", envvar="REDIS_PASSWORD", default="", help="And password."),
        click.option(
            "--redis-creds-dir-path", envvar="REDIS_CREDS_DIR_PATH", type=PATH,
            help="A folder with both, as files auth_username and auth.",
        ),
        _tls_options(flags, authorities="--redis-tls-ca"),
    )  # fmt: skip


def _tls_options(flags: Flags, *, authorities: str) -> Callable[[F], F]:
    return combined(
        flags.switch("--redis-tls-enabled", text="Redis itself is spoken to with TLS."),
        flags.option(f"{authorities}-path", type=PATH, help="The authorities of its certificate."),
        flags.option(
            f"{authorities}-secret-name",
            default=names.REDIS_TLS_SECRET,
            help="The same as a Secret, in ca.crt.",
        ),
        flags.switch("--redis-tls-insecure", text="Believe whatever certificate Redis shows."),
    )


async def redis_proxy(store: Store, given: dict[str, Any]) -> RedisProxyOptions | None:
    if given["disable_redis_proxy"]:
        return None
    host, port = parse_address(given["redis_server_address"], flag="--redis-server-address")
    source: LoadedSource | None = None
    if not given["insecure_redis_plaintext"]:
        generates = given["insecure_tls_generate"]
        source = certificates(
            store,
            namespace=given["namespace"],
            pair=(None, None)
            if generates
            else (given["redis_proxy_server_tls_cert"], given["redis_proxy_server_tls_key"]),
            authorities=given["root_ca_path"],
            pair_secret="" if generates else given["redis_proxy_server_tls_secret_name"],
            authorities_secret=given["tls_ca_secret_name"],
        )
        if generates:
            source = Joined(Generated(now=datetime.now(UTC)), source)
    return RedisProxyOptions(
        backend=RedisBackend(
            host=host,
            port=port,
            password=given["redis_password"],
            credentials=given["redis_creds_dir_path"],
            tls=given["redis_tls_enabled"],
            authorities=await _authorities(
                store, given, path=given["redis_ca_path"], name=given["redis_ca_secret_name"]
            ),
            insecure=given["redis_tls_insecure"],
        ),
        compressed=given["redis_compression_type"] == "gzip",
        source=source,
        port=given["redis_proxy_port"],
    )


async def agent_redis(store: Store, given: dict[str, Any]) -> RedisBackend | None:
    if not given["redis_addr"]:
        return None
    host, port = parse_address(given["redis_addr"], flag="--redis-addr")
    return RedisBackend(
        host=host,
        port=port,
        username=given["redis_username"],
        password=given["redis_password"],
        credentials=given["redis_creds_dir_path"],
        tls=given["redis_tls_enabled"],
        authorities=await _authorities(
            store, given, path=given["redis_tls_ca_path"], name=given["redis_tls_ca_secret_name"]
        ),
        insecure=given["redis_tls_insecure"],
    )


async def _authorities(store: Store, given: dict[str, Any], *, path: Path | None, name: str) -> bytes:
    if not given["redis_tls_enabled"] or given["redis_tls_insecure"]:
        return b""
    if path is not None:
        return read(path.parent, path.name)
    data = await secret_data(store, namespace=given["namespace"], name=name)
    return data.get(BUNDLE, b"")
