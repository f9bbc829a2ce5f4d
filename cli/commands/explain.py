"""`tiphys explain`: why a project is where it is, as whom an Application syncs, whose an object is."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from argocd.agents.vocabulary import Mode
from argocd.explanations.explanation import UnexplainedError
from argocd.judging.configuration import Configuration
from cli.explanations.explanation import show
from cli.options import configuration_option, format_option
from cli.options.explained_objects import (
    configuration_of,
    explained_object_options,
    fetch_application,
    gather,
)
from cli.options.principal_pages import principal_page_options
from tiphys.errors import CallError


@contextmanager
def _missing_objects_named() -> Iterator[None]:
    try:
        yield
    except UnexplainedError as error:
        raise CallError(str(error)) from error


@click.group()
def command() -> None:
    """Answer "why?": from files (-f) or a cluster, as text or JSON."""


@command.command("project")
@click.argument("name")
@click.option("--agent", required=True, help="The agent's name.")
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in Mode]),
    help="The agent's mode.  [default: as its principal tells, else as agents.autonomous of the configuration does]",
)
@click.option(
    "--to",
    type=click.Choice(["agent", "principal"]),
    help="Which way.  [default: to a managed agent, from an autonomous one]",
)
@principal_page_options
@explained_object_options
def project_command(*, name: str, agent: str, mode: str | None, to: str | None, **given: Any) -> None:
    """Does a project get to an agent, or an agent's project to the principal: each step, and the copy.

    From a cluster also whether the agent is registered with its principal, let in, connected and up to date.
    """
    from argocd.explanations import project  # noqa: PLC0415 - the others are not needed

    links: list[Any] = []

    async def fetch(store: Any, configuration: Configuration) -> Any:
        from cli.explanations.link import look  # noqa: PLC0415

        namespace = configuration.argocd.namespace
        service, url = given["principal_service"], given["principal_url"]
        links.append(await look(store, agent, namespace=namespace, service=service, url=url))

    known = gather(given, fetch=fetch)
    link = links[0] if known.live else None
    mode_told = project.mode_of(agent, known, mode, link)
    with _missing_objects_named():
        found = project.explain(known, name, agent=agent, mode=mode_told, to=to, link=link)
    show(found, form=given["form"])


@command.command("service-account")
@click.argument("application", metavar="[NAMESPACE/]APPLICATION")
@explained_object_options
def account_command(*, application: str, **given: Any) -> None:
    """As which service account an Application syncs, and each entry that was tried."""
    from argocd.explanations import account  # noqa: PLC0415

    async def fetch(store: Any, configuration: Configuration) -> Any:
        return await fetch_application(store, application, configuration)

    known = gather(given, fetch=fetch)
    with _missing_objects_named():
        found = account.explain(known, application)
    show(found, form=given["form"])


@command.command("tracking")
@click.argument("thing", metavar="KIND[.GROUP]/NAME")
@click.option("--namespace", "-n", help="The object's namespace.")
@explained_object_options
def tracking_command(*, thing: str, namespace: str | None, **given: Any) -> None:
    """The ids that an object should carry, those it carries, who owns it and what pruning would do."""
    from cli.explanations import tracking  # noqa: PLC0415

    found: list[Any] = []

    async def fetch(store: Any, _: Configuration) -> Any:
        found.extend(await tracking.fetch(store, thing, namespace))

    known = gather(given, fetch=fetch, applications=True)
    one, around = found if known.live else tracking.find(known, thing, namespace)
    show(tracking.explain(known, one, around), form=given["form"])


@command.command("rule")
@click.argument("rule")
@configuration_option()
@format_option()
def rule_command(*, rule: str, config: Path | None, form: str) -> None:
    """What a rule asks for, and why, with examples."""
    from cli.explanations.rule import explain  # noqa: PLC0415

    configuration = configuration_of({"config": config})
    show(explain(rule, configuration), form=form)
