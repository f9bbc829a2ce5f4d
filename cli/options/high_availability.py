"""Flags of a principal that is one of a pair: argocd-agent's, and those that it has no name for."""

from collections.abc import Callable
from typing import Any

import click

from cli.options import F, combined
from cli.options.sidecar import Flags
from sidecars.replication.control.settings import ADMIN_PORT, HaSettings, PreferredRole, RestartPolicy
from tiphys.errors import CallError


def ha_options(flags: Flags) -> Callable[[F], F]:
    return combined(
        flags.switch("--ha-enabled", text="One of a pair of principals: active, or following the other."),
        flags.option(
            "--ha-preferred-role",
            type=click.Choice([role.value for role in PreferredRole]),
            default=PreferredRole.PRIMARY.value,
            help="What to be at the first start; afterwards the record decides.",
        ),
        flags.option("--ha-peer-address", default="", help="The other principal: host:port."),
        flags.option(
            "--ha-peer-health-url",
            default="",
            help="Of a peer of argocd-agent's, which tells its state nowhere else.",
        ),
        flags.texts(
            "--ha-allowed-replication-clients",
            text="Names in the certificates of principals that may follow.",
        ),
        flags.option(
            "--ha-restart-policy",
            type=click.Choice([policy.value for policy in RestartPolicy]),
            default=RestartPolicy.WAIT.value,
            help="Of one that was active and whose peer does not answer: wait for `tiphys ha resume`, or serve.",
        ),
        flags.option(
            "--ha-admin-port",
            type=click.IntRange(0, 65535),
            default=0,
            help=f"The port for `tiphys ha`, on loopback; 0: {ADMIN_PORT}.",
        ),
        flags.option(
            "--ha-admin-auth",
            default="",
            help="Listen everywhere, for certificates that match mtls:subject:<pattern> or mtls:uri:<pattern>.",
        ),
        flags.switch(
            "--ha-allow-bare-force", text="Let `argocd-agentctl ha promote --force` pass without a reason."
        ),
    )


def ha_settings(given: dict[str, Any]) -> HaSettings | None:
    if not given["ha_enabled"]:
        return None
    settings = HaSettings(
        preferred_role=PreferredRole(given["ha_preferred_role"]),
        peer_address=given["ha_peer_address"],
        peer_health_url=given["ha_peer_health_url"],
        allowed_clients=frozenset(given["ha_allowed_replication_clients"]),
        restart_policy=RestartPolicy(given["ha_restart_policy"]),
        admin_port=given["ha_admin_port"] or ADMIN_PORT,
        admin_auth=given["ha_admin_auth"],
        allow_bare_force=given["ha_allow_bare_force"],
    )
    settings.check()
    if given["insecure_plaintext"]:
        raise CallError("--ha-enabled: replication needs TLS: not with --insecure-plaintext")
    return settings
