"""What `tiphys pki` and `tiphys agents` share: which clusters, how results are shown."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import click

from argocd import names
from certs.authority import KeyType
from cli.options import F, combined, format_option
from cli.options.cluster import ask, context_option, kubeconfig_option
from cli.output import LIST_FORMS
from kube.live import LiveStore
from sidecars.fleet.pki import Certificate
from tiphys.printable import visible

T = TypeVar("T")

fleet_place_options = combined(
    click.option(
        "--principal-namespace",
        envvar="ARGOCD_AGENT_PRINCIPAL_NAMESPACE",
        default=names.DEFAULT_NAMESPACE,
        show_default=True,
        help="The principal's namespace.",
    ),
    context_option(
        "--principal-context",
        envvar="ARGOCD_AGENT_PRINCIPAL_CONTEXT",
        text="The kubeconfig's context for the principal's cluster.",
    ),
    kubeconfig_option(),
)
"""Which cluster is meant."""

fleet_options = combined(fleet_place_options, format_option())
fleet_list_options = combined(fleet_place_options, format_option(LIST_FORMS))

KEY_TYPE = click.option(
    "--key-type",
    type=click.Choice([each.value for each in KeyType]),
    default=KeyType.EC.value,
    show_default=True,
    help="P-256 or RSA with 3072 bits.",
)


def days(default: timedelta) -> Callable[[F], F]:
    return click.option(
        "--days",
        type=click.IntRange(1, 36500),
        default=default.days,
        show_default=True,
        help="How long it is valid; never longer than its authority.",
    )


def on_principal(
    given: dict[str, Any],
    question: Callable[[LiveStore], Awaitable[T]],
    *,
    context: str | None = None,
) -> T:
    return ask({**given, "context": context or given["principal_context"]}, question)


def now() -> datetime:
    return datetime.now(UTC)


def certificate_lines(certificate: Certificate, *, at: datetime) -> list[str]:
    names_told = ", ".join(certificate.names)
    return [
        f"{certificate.where}: {' and '.join(certificate.common_names) or 'no common name'}"
        + (" (authority)" if certificate.authority else ""),
        f"  {certificate.state(at)}, from {_time(certificate.begins)} to {_time(certificate.ends)}, {certificate.key}",
        *([f"  names: {visible(names_told)}"] if names_told else []),
        f"  issued by {visible(certificate.issuer)}",
        f"  SHA-256 {certificate.fingerprint}",
    ]


def certificate_told(certificate: Certificate, *, at: datetime) -> dict[str, Any]:
    return {
        "where": certificate.where,
        "commonNames": list(certificate.common_names),
        "names": list(certificate.names),
        "issuer": certificate.issuer,
        "notBefore": _time(certificate.begins),
        "notAfter": _time(certificate.ends),
        "renewAfter": _time(certificate.renew),
        "fingerprint": certificate.fingerprint,
        "key": certificate.key,
        "authority": certificate.authority,
        "state": certificate.state(at),
    }


def _time(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")
