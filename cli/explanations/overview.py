"""`explain -A`: the answers about all agents, Applications or objects, one line each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from argocd import names, reading
from argocd.explanations import account, project
from argocd.explanations.explanation import Explanation, UnexplainedError
from argocd.explanations.link import LinkExplanation
from argocd.judging.case import Kind, kind_of
from argocd.tracking.ids import group_of
from checks.manifests import Object
from cli.explanations import tracking
from cli.explanations.explanation import told
from cli.options.explained_objects import ExplainedObjects
from cli.output import ListColumns, ListRow, show_list
from tiphys.errors import CallError

UNKNOWN = "-"


@dataclass(frozen=True, slots=True)
class ExplainedOne:
    name: str
    explanation: Explanation


def explained(name: str, explain: Callable[[], Explanation]) -> ExplainedOne:
    """What cannot be explained of one is its answer, and no reason to tell nothing of the others."""
    try:
        return ExplainedOne(name, explain())
    except UnexplainedError as error:
        return ExplainedOne(name, Explanation(str(error), good=False, data={}))


def agents_in(known: ExplainedObjects) -> list[str]:
    """Those whose cluster Secrets are in the files."""
    found = {reading.text(thing, "metadata", "labels", names.AGENT_NAME) for thing in known.objects} - {""}
    if not found:
        raise CallError(f"no agent is in the files: none of their Secrets has the label {names.AGENT_NAME}")
    return sorted(found)


def show_agents(
    known: ExplainedObjects,
    name: str,
    links: Sequence[LinkExplanation] | None,
    *,
    mode: str | None,
    to: str | None,
    form: str,
) -> None:
    """Where a project gets; `links` are what a cluster tells of its agents."""
    found: list[ExplainedOne] = []
    modes: dict[str, str] = {}
    linked = {link.agent: link for link in links} if links is not None else dict.fromkeys(agents_in(known))
    for agent, link in linked.items():
        is_mode = project.mode_of(agent, known, mode, link)
        modes[agent] = is_mode.value
        explain = partial(project.explain, known, name, agent=agent, mode=is_mode, to=to, link=link)
        found.append(explained(agent, explain))
    rows = [
        ListRow(
            each.name,
            (
                each.name,
                modes[each.name],
                "yes" if each.explanation.good else "no",
                each.explanation.answer,
            ),
        )
        for each in found
    ]
    columns = ListColumns(("AGENT", "MODE", "GOES", "WHY"))
    _show(columns, rows, found, form=form, empty="no agent is registered: `tiphys agents create` makes one")


def show_accounts(known: ExplainedObjects, applications: Sequence[Object] | None, *, form: str) -> None:
    """As whom each Application syncs."""
    if applications is None:
        applications = [thing for thing in known.objects if kind_of(thing) is Kind.APPLICATION]
    found = [
        explained(qualified(application), partial(account.explain_application, known, application))
        for application in applications
    ]
    rows = [
        ListRow(
            each.name,
            (
                each.name,
                str(each.explanation.data.get("project", UNKNOWN)),
                str(each.explanation.data.get("user") or each.explanation.data.get("outcome") or UNKNOWN),
            ),
            (each.explanation.answer,),
        )
        for each in found
    ]
    columns = ListColumns(("APPLICATION", "PROJECT", "SYNCS AS"), ("WHY",))
    _show(columns, rows, found, form=form, empty="no Applications")


def objects_in(known: ExplainedObjects, text: str) -> list[tuple[Object, Object]]:
    """Those of a kind that are in the files, each with its Namespace."""
    group, kind, name = tracking.parse_kind(text)
    around = {
        reading.text(thing, "metadata", "name"): thing
        for thing in known.objects
        if reading.text(thing, "kind") == "Namespace"
    }
    return [
        (thing, around.get(reading.text(thing, "metadata", "namespace"), {}))
        for thing in known.objects
        if reading.text(thing, "kind").lower() == kind.lower()
        and group_of(thing) == group
        and name in {"", reading.text(thing, "metadata", "name")}
    ]


def show_objects(known: ExplainedObjects, things: Sequence[tuple[Object, Object]], *, form: str) -> None:
    """Whose each object is."""
    found = [
        explained(qualified(thing), partial(tracking.explain, known, thing, around))
        for thing, around in things
    ]
    rows = [
        ListRow(
            each.name,
            (
                each.name,
                str(each.explanation.data.get("owner") or UNKNOWN),
                str(each.explanation.data.get("argo-cd-takes-it-for") or UNKNOWN),
                "yes" if each.explanation.data.get("pruned-when-its-source-has-it-no-more") else "no",
            ),
            (each.explanation.answer,),
        )
        for each in found
    ]
    columns = ListColumns(("OBJECT", "OWNER", "ARGO CD SAYS", "PRUNED"), ("WHY",))
    _show(columns, rows, found, form=form, empty="no such objects")


def qualified(thing: Object) -> str:
    namespace, name = reading.text(thing, "metadata", "namespace"), reading.text(thing, "metadata", "name")
    return f"{namespace}/{name}" if namespace else name


def _show(
    columns: ListColumns, rows: Sequence[ListRow], found: Sequence[ExplainedOne], *, form: str, empty: str
) -> None:
    data: list[dict[str, Any]] = [{"name": each.name, **told(each.explanation)} for each in found]
    show_list(columns, rows, form=form, empty=empty, told={"items": data})
