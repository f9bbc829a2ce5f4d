"""`tiphys doctor`: is this installation well, and what to do where it is not."""

from collections import Counter
from typing import Any

import click

from checks.doctor.cluster_checks import REACHABLE
from checks.doctor.diagnosis import CheckHealth
from checks.doctor.examination import Examination, examine
from checks.doctor.examined import DoctorOptions, Examined
from cli.options import format_option
from cli.options.cluster import ask, cluster_options
from cli.options.namespaces import namespace_options
from cli.options.principal_pages import principal_page_options
from cli.output import JSON_VERSION, LIST_FORMS, TEXT, ListColumns, ListRow, show_list
from kube.live import LiveStore
from tiphys import settings
from tiphys.printable import visible

COLUMNS = ListColumns(("CHECK", "HEALTH", "SECTION", "TITLE", "MESSAGE", "TO DO"))
MARKS = {
    CheckHealth.OK: click.style("√", fg="green"),
    CheckHealth.WARNING: click.style("‼", fg="yellow"),
    CheckHealth.ERROR: click.style("×", fg="red"),  # noqa: RUF001 - as `linkerd check` has it
}


@click.command()
@click.option("--pre", is_flag=True, help="Look whether Tiphys can be installed here.")
@click.option(
    "--wait",
    type=settings.DURATION,
    default="0",
    help="How long to look again, such as 5m, until what is red is well.",
)
@namespace_options
@principal_page_options
@click.option(
    "--server-address",
    default="",
    help="Where an agent here finds its principal.  [default: as its Deployment says]",
)
@click.option("--server-port", default=0, help="And its port.  [default: as its Deployment says]")
@click.option(
    "--ha-address",
    default="127.0.0.1:8405",
    show_default=True,
    help="The admin port of a principal of a pair, through kubectl port-forward.",
)
@click.option("--health-url", default="", help="Its /healthz.  [default: through the API server]")
@cluster_options
@format_option(
    LIST_FORMS, text="For people or for programs; wide is a table, name has the ids of the checks."
)
def command(*, pre: bool, wait: float, form: str, **given: Any) -> None:
    """Check an installation line by line, and say what to do where something is wrong.

    Ends with 0 if nothing is red, 1 if something is, 2 if the API server cannot be asked.
    """
    found = ask(given, lambda store: _examine(store, given, pre=pre, wait=wait, told=form == TEXT))
    counts = Counter(each.diagnosis.health for each in found)
    if form == TEXT:
        click.echo("\n" + ", ".join(f"{counts[health]} {MARKS[health]}" for health in CheckHealth))
    else:
        show_list(COLUMNS, [_row(each) for each in found], form=form, empty="no checks", told=_told(found))
    if found[0].check.id == REACHABLE and found[0].diagnosis.health is CheckHealth.ERROR:
        raise click.exceptions.Exit(2)
    if counts[CheckHealth.ERROR]:
        raise click.exceptions.Exit(1)


async def _examine(
    store: LiveStore, given: dict[str, Any], *, pre: bool, wait: float, told: bool
) -> list[Examination]:
    examined = Examined(
        store,
        DoctorOptions(
            namespace=given["namespace"],
            argocd_namespace=given["argocd_namespace"],
            application_namespaces=given["application_namespaces"],
            principal_service=given["principal_service"],
            principal_url=given["principal_url"],
            server_address=given["server_address"],
            server_port=given["server_port"],
            ha_address=given["ha_address"],
            health_url=given["health_url"],
        ),
    )
    found: list[Examination] = []
    async for each in examine(examined, before_installation=pre, wait_seconds=wait):
        if told:
            if not found or found[-1].section is not each.section:
                title = each.section.title
                click.echo(("\n" if found else "") + f"{click.style(title, bold=True)}\n{'-' * len(title)}")
            _show(each)
        found.append(each)
    return found


def _show(examination: Examination) -> None:
    check, diagnosis = examination.check, examination.diagnosis
    message = visible(diagnosis.message)
    if diagnosis.health is CheckHealth.OK:
        click.echo(f"{MARKS[diagnosis.health]} {check.title}" + (f": {message}" if message else ""))
        return
    click.echo(f"{MARKS[diagnosis.health]} {check.title} [{check.id}]")
    click.echo(f"    {message}")
    click.echo(f"    to do: {visible(diagnosis.remedy)}")


def _row(examination: Examination) -> ListRow:
    check, diagnosis = examination.check, examination.diagnosis
    told = (examination.section.title, check.title, diagnosis.message, diagnosis.remedy)
    cells = [visible(each).replace("\n", " ") or "-" for each in told]
    return ListRow(check.id, (check.id, diagnosis.health.value, *cells))


def _told(found: list[Examination]) -> dict[str, Any]:
    return {
        "version": JSON_VERSION,
        "healthy": all(each.diagnosis.health is not CheckHealth.ERROR for each in found),
        "checks": [
            {
                "id": each.check.id,
                "section": each.section.title,
                "title": each.check.title,
                "health": each.diagnosis.health.value,
                "message": each.diagnosis.message,
                "remedy": each.diagnosis.remedy,
            }
            for each in found
        ],
    }
