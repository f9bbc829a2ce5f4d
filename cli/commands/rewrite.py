"""`tiphys rewrite`: a project as it will look on the other side, to be prepared in Git."""

from pathlib import Path

import click

from argocd import reading
from argocd.agents.project_copies import NameTooLongError, project_at_principal, project_for_agent
from argocd.agents.routing import AgentMapping, explain_project
from argocd.agents.vocabulary import Mode
from argocd.explanations.explanation import plain
from argocd.explanations.project import lean
from argocd.judging.case import Kind, kind_of
from argocd.judging.configuration import Configuration
from checks.manifests import Object
from cli.explanations.explanation import as_yaml
from cli.options import configuration_option
from cli.options.explained_objects import configuration_of, read_objects
from tiphys.errors import CallError


@click.command()
@click.option("--agent", required=True, help="The agent's name.")
@click.option(
    "--to",
    type=click.Choice(["agent", "principal"]),
    default="agent",
    show_default=True,
    help="Whose copy: the agent's, or the principal's of the agent's project.",
)
@click.option("--file", "-f", "files", multiple=True, required=True, help="A file, a folder or -.")
@click.option(
    "--mapping",
    type=click.Choice([mapping.value for mapping in AgentMapping]),
    default=AgentMapping.NAMESPACE.value,
    show_default=True,
    help="How the principal tells whose an Application is.",
)
@configuration_option()
@click.option("--argocd-namespace", help="The principal's namespace, instead of the configuration's.")
def command(
    *,
    agent: str,
    to: str,
    files: tuple[str, ...],
    mapping: str,
    config: Path | None,
    argocd_namespace: str | None,
) -> None:
    """Print the copy of a project that an agent would get, or that the principal would store of an agent's.

    Ends with 1 if a project does not go there; `tiphys explain project` tells why.
    """
    configuration = configuration_of({"config": config, "argocd_namespace": argocd_namespace})
    projects = [thing for thing in read_objects(files, configuration) if kind_of(thing) is Kind.PROJECT]
    if not projects:
        raise CallError(f"there is no AppProject in {', '.join(files)}")
    printed, refused = 0, False
    for project in projects:
        try:
            copy = (
                _to_principal(project, agent, configuration)
                if to == "principal"
                else _to_agent(project, agent, mapping)
            )
        except CallError as error:
            click.echo(f"tiphys: {error}", err=True)
            refused = True
            continue
        click.echo(f"{'---' if printed else ''}\n{as_yaml(lean(plain(copy)))}".lstrip("\n"), nl=False)
        printed += 1
    if refused:
        raise click.exceptions.Exit(1)


def _to_agent(project: Object, agent: str, mapping: str) -> Object:
    mapped_by = AgentMapping(mapping)
    route = explain_project(project, agent, mapped_by=mapped_by, mode_of=lambda _: Mode.MANAGED)
    if not route.goes:
        name = reading.text(project, "metadata", "name")
        raise CallError(f"project {name} does not go to agent {agent}: {route.because}")
    return project_for_agent(project, agent=agent, mapped_by=mapped_by)


def _to_principal(project: Object, agent: str, configuration: Configuration) -> Object:
    try:
        return project_at_principal(project, agent=agent, namespace=configuration.argocd.namespace)
    except NameTooLongError as error:
        raise CallError(str(error)) from error
