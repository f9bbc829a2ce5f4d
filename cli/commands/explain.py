"""`tiphys explain`: why a project is where it is, as whom an Application syncs, whose an object is."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from argocd.agents.vocabulary import Mode
from argocd.explanations.explanation import UnexplainedError
from argocd.judging.configuration import Configuration
from checks.reports import remark
from cli.completion import (
    complete_agents,
    complete_applications,
    complete_projects,
    complete_rules,
)
from cli.explanations.explanation import show
from cli.options import F, configuration_option, format_option
from cli.options.explained_objects import (
    configuration_of,
    fetch_application,
    gather,
    object_source_options,
)
from cli.options.principal_pages import principal_page_options
from cli.output import LIST_FORMS, NAME, WIDE
from tiphys.command_group import CommandGroup
from tiphys.errors import CallError


@contextmanager
def _missing_objects_named() -> Iterator[None]:
    try:
        yield
    except UnexplainedError as error:
        raise CallError(str(error)) from error


@click.group(cls=CommandGroup)
def command() -> None:
    """Answer "why?": from files (-f) or a cluster, as text or JSON."""


def all_option(what: str, name: str) -> Callable[[F], F]:
    return click.option(name, "-A", "everything", is_flag=True, help=f"{what}, one line each.")


list_format_option = format_option(LIST_FORMS, text="For people or for programs; wide and name with -A.")


def _check(given: dict[str, Any], *, asked: object, everything: bool, what: str) -> None:
    """Either one thing or all of them."""
    if (not asked) != everything:
        raise click.UsageError(f"give {what}, or -A for all, and not both")
    if not everything and given["form"] in {WIDE, NAME}:
        raise click.UsageError(f"-o {given['form']} goes with -A")


@command.command("project")
@click.argument("name", shell_complete=complete_projects)
@click.option("--agent", help="The agent's name.", shell_complete=complete_agents)
@all_option("All agents", "--all-agents")
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
@object_source_options
@list_format_option
def project_command(
    *, name: str, agent: str | None, everything: bool, mode: str | None, to: str | None, **given: Any
) -> None:
    """Does a project get to an agent, or an agent's project to the principal: each step, and the copy.

    From a cluster also whether the agent is registered with its principal, let in, connected and up to date.
    """
    from argocd.explanations import project  # noqa: PLC0415 - the others are not needed
    from cli.explanations import overview  # noqa: PLC0415

    _check(given, asked=agent, everything=everything, what="--agent")
    links: list[Any] = []

    async def fetch(store: Any, configuration: Configuration) -> Any:
        from cli.explanations.link import look, look_at_all  # noqa: PLC0415

        place = {
            "namespace": configuration.argocd.namespace,
            "service": given["principal_service"],
            "url": given["principal_url"],
        }
        if agent:
            links.append(await look(store, agent, **place))
        else:
            links.extend(await look_at_all(store, **place))

    known = gather(given, fetch=fetch)
    if not agent:
        overview.show_agents(known, name, links if known.live else None, mode=mode, to=to, form=given["form"])
        return
    link = links[0] if known.live else None
    mode_told = project.mode_of(agent, known, mode, link)
    with _missing_objects_named():
        found = project.explain(known, name, agent=agent, mode=mode_told, to=to, link=link)
    show(found, form=given["form"])


@command.command("service-account")
@click.argument(
    "application",
    metavar="[NAMESPACE/]APPLICATION",
    required=False,
    shell_complete=complete_applications,
)
@all_option("Applications of all namespaces", "--all-namespaces")
@object_source_options
@list_format_option
def account_command(*, application: str | None, everything: bool, **given: Any) -> None:
    """As which service account an Application syncs, and each entry that was tried."""
    from argocd.explanations import account  # noqa: PLC0415
    from cli.explanations import overview  # noqa: PLC0415

    _check(given, asked=application, everything=everything, what="an Application")
    if application:

        async def fetch(store: Any, configuration: Configuration) -> Any:
            return await fetch_application(store, application, configuration)

        known = gather(given, fetch=fetch)
        with _missing_objects_named():
            explained = account.explain(known, application)
        show(explained, form=given["form"])
        return
    found: list[Any] = []
    notes: list[str] = []

    async def fetch_all(store: Any, configuration: Configuration) -> Any:
        from kube.resources import APPLICATIONS  # noqa: PLC0415 - files need no client

        pages = _listing(store, configuration, notes).everywhere(APPLICATIONS)
        found.extend([thing async for page in pages for thing in page])

    known = gather(given, fetch=fetch_all)
    for note in notes:
        remark(note)
    overview.show_accounts(known, found if known.live else None, form=given["form"])


def _listing(store: Any, configuration: Configuration, notes: list[str]) -> Any:
    """`notes` hears what is not seen."""
    from checks.survey import Listing  # noqa: PLC0415 - files need no client

    return Listing(store, configuration.argocd.namespace, notes)


@command.command("tracking")
@click.argument("thing", metavar="KIND[.GROUP][/NAME]")
@click.option("--namespace", "-n", help="The object's namespace.")
@all_option("Objects of all namespaces, the name may be left out", "--all-namespaces")
@object_source_options
@list_format_option
def tracking_command(*, thing: str, namespace: str | None, everything: bool, **given: Any) -> None:
    """The ids that an object should carry, those it carries, who owns it and what pruning would do."""
    from cli.explanations import overview, tracking  # noqa: PLC0415

    if everything and namespace:
        raise click.UsageError("either --namespace or -A")
    if not everything:
        _check(given, asked=thing, everything=False, what="KIND/NAME")
    found: list[Any] = []
    notes: list[str] = []

    async def fetch(store: Any, configuration: Configuration) -> Any:
        if everything:
            found.extend(await tracking.fetch_all(store, thing, _listing(store, configuration, notes)))
        else:
            found.extend(await tracking.fetch(store, thing, namespace))

    known = gather(given, fetch=fetch, applications=True)
    for note in notes:
        remark(note)
    if everything:
        things = found if known.live else overview.objects_in(known, thing)
        overview.show_objects(known, things, form=given["form"])
        return
    one, around = found if known.live else tracking.find(known, thing, namespace)
    show(tracking.explain(known, one, around), form=given["form"])


@command.command("rule")
@click.argument("rule", shell_complete=complete_rules)
@configuration_option()
@format_option()
def rule_command(*, rule: str, config: Path | None, form: str) -> None:
    """What a rule asks for, and why, with examples."""
    from cli.explanations.rule import explain  # noqa: PLC0415

    configuration = configuration_of({"config": config})
    show(explain(rule, configuration), form=form)
