"""Options of commands that ask a cluster only if they are told to; importing them imports no client."""

from pathlib import Path
from typing import Any

import click

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
