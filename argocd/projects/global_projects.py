"""Projects whose permissions are added to another's: `globalProjects` in argocd-cm selects by labels."""

from collections.abc import Mapping
from typing import Any

from argocd import reading
from argocd.judging.neighbours import Neighbours
from argocd.settings.argocd_cm import Settings


def global_projects_of(
    project: Mapping[str, Any], *, settings: Settings, neighbours: Neighbours
) -> tuple[Mapping[str, Any], ...] | None:
    """In the order of the setting; None where a selected project is not known.

    As in Argo CD a project is not added to itself, and a bad selector or a missing project ends the list.
    """
    found: list[Mapping[str, Any]] = []
    for entry in settings.global_projects:
        if entry.project == reading.text(project, "metadata", "name"):
            continue
        selected = selects(entry.selector, reading.mapping(project, "metadata", "labels"))
        if selected is None:
            break
        if selected:
            added = neighbours.project(entry.project)
            if added is None:
                return None
            if not added:
                break
            found.append(added)
    return tuple(found)


def selects(selector: Mapping[str, Any], labels: Mapping[str, Any]) -> bool | None:
    """Whether a Kubernetes label selector selects these labels; None where it is no selector."""
    verdict = all(labels.get(key) == value for key, value in reading.mapping(selector, "matchLabels").items())
    for expression in reading.sequence(selector, "matchExpressions"):
        met = _meets(expression, labels)
        if met is None:
            return None
        verdict = verdict and met
    return verdict


def _meets(expression: Any, labels: Mapping[str, Any]) -> bool | None:
    key, operator = reading.text(expression, "key"), reading.text(expression, "operator")
    values = reading.texts(expression, "values")
    if not key:
        return None
    if operator in {"In", "NotIn"}:
        if not values:
            return None
        return (key in labels and labels[key] in values) is (operator == "In")
    if operator in {"Exists", "DoesNotExist"}:
        return None if values else (key in labels) is (operator == "Exists")
    return None
