"""Options of commands that ask a cluster only if they are told to; importing them imports no client."""

from pathlib import Path
from typing import Any

import click

from argocd import names

_OPTIONS = (
    click.option(
        "--kubeconfig", type=click.Path(path_type=Path), help="Ask the cluster that this file tells of."
    ),
    click.option("--context", help="Ask the cluster of this context of the kubeconfig."),
)


def reaching(command: Any) -> Any:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_PRINCIPAL = (
    click.option(
        "--principal-service",
        default=f"{names.PRINCIPAL_METRICS_SERVICE}:8000",
        show_default=True,
        help="The Service and port of the principal's pages, asked through the API server.",
    ),
    click.option(
        "--principal-url", help="Ask the principal's pages here instead, such as http://localhost:8000."
    ),
)


def asking_principal(command: Any) -> Any:
    """The options that say where a principal tells of its agents."""
    for option in reversed(_PRINCIPAL):
        command = option(command)
    return command
