"""Objects with one mistake each, and what the webhook says of them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from argocd.engine.directory import Directory, Shelf
from argocd.engine.judge import Judgement, judge
from argocd.judging.case import Action, Case, Operation, Surroundings, User, kind_of
from argocd.judging.configuration import Configuration
from argocd.settings.argocd_cm import Settings

HERE = Path(__file__).parent
FILES = ("projects.yaml", "applications.yaml", "application_sets.yaml")
REPOSITORY = "file:///repository"
"""Stands in the table for the repository that a real Argo CD is given."""

LONG = "a description that nobody will read to its end; " * 6  # more than Argo CD's 255 characters

TODAY = date(2026, 11, 17)  # no exemption depends on it here

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class BadObject:
    """`beyond` says what Argo CD needs to see the mistake besides the object, where that is so."""

    name: str
    object: Object
    beyond: str = ""


def bad_objects() -> dict[str, BadObject]:
    found: dict[str, BadObject] = {}
    for file in FILES:
        good, *patches = yaml.safe_load_all((HERE / file).read_text())
        for patch in patches:
            beyond = patch.pop("beyond", "")
            case = _case(merged(good, patch), beyond=beyond)
            assert case.name not in found, f"{case.name} is in the table twice"
            found[case.name] = case
    return found


def good_objects() -> dict[str, BadObject]:
    """By kind: what the bad ones are without their mistake."""
    cases = [_case(next(yaml.safe_load_all((HERE / file).read_text()))) for file in FILES]
    return {case.object["kind"]: case for case in cases}


def _case(whole: Object, *, beyond: str = "") -> BadObject:
    name: str = whole["metadata"]["name"]
    text = json.dumps(whole).replace("CASE", name).replace("LONG", LONG)
    return BadObject(name, json.loads(text), beyond)


def merged(target: Any, patch: Any) -> Any:
    """A JSON merge patch applied."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, part in patch.items():
        if part is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), part)
    return result


def judged(thing: Object, *, configuration: Configuration) -> list[Judgement]:
    """As the webhook does at a creation, beside an Argo CD with its default project and no cluster but its own."""
    directory = Directory(argocd_namespace="argocd", known=Shelf)
    directory.put_project({"metadata": {"name": "default", "namespace": "argocd"}, "spec": EVERYTHING})
    case = Case(
        kind=kind_of(thing),
        object=thing,
        old=None,
        operation=Operation.CREATE,
        writer=User(user="ada"),
        surroundings=Surroundings(
            settings=Settings(known=True), configuration=configuration, neighbours=directory
        ),
    )
    return [each for each in judge(case, today=TODAY) if each.action in {Action.DENY, Action.WARN}]


EVERYTHING = {
    "sourceRepos": ["*"],
    "destinations": [{"server": "*", "namespace": "*"}],
    "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
}
