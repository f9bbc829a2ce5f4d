"""Which namespaces are Tiphys's and Argo CD's."""

from collections.abc import Mapping
from typing import Any

import click

from argocd import names
from cli.options import combined
from webhook.admission.cluster_state import Scope

namespace_options = combined(
    click.option(
        "--namespace", default=names.TIPHYS_NAMESPACE, show_default=True, help="Tiphys's own namespace."
    ),
    click.option(
        "--argocd-namespace", default=names.DEFAULT_NAMESPACE, show_default=True, help="Argo CD's namespace."
    ),
    click.option(
        "--application-namespace",
        "application_namespaces",
        multiple=True,
        help="Another namespace in which Argo CD takes Applications; may be repeated.",
    ),
)


def scope_of(given: Mapping[str, Any], *, secrets: bool = True) -> Scope:
    return Scope(
        home=given["namespace"],
        argocd_namespace=given["argocd_namespace"],
        application_namespaces=given["application_namespaces"],
        secrets=secrets,
    )
