"""Where a principal tells of its agents."""

import click

from argocd import names
from cli.options import combined

principal_page_options = combined(
    click.option(
        "--principal-service",
        default=f"{names.PRINCIPAL_AGENTS_SERVICE}:8004",
        show_default=True,
        help="The Service and port of the principal's pages, asked through the API server.",
    ),
    click.option(
        "--principal-url", help="Ask the principal's pages here instead, such as http://localhost:8004."
    ),
)
