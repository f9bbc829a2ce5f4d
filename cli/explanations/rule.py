"""One rule: what it asks for, what it does by default and here, and an example of each side."""

from typing import Any

import yaml

from argocd.explanations.explanation import Explanation, ExplanationSection, ExplanationStep, Mark
from argocd.judging.configuration import Configuration
from argocd.judging.profiles import where_and_why
from argocd.rules.catalogue import CATALOGUE
from argocd.spelling import did_you_mean
from checks.fixes import FIXES
from checks.reports import WIDTH
from tiphys.errors import CallError


def explain(rule_id: str, configuration: Configuration) -> Explanation:
    rules = {rule.id: rule for rule in CATALOGUE}
    rule = rules.get(rule_id)
    if rule is None:
        raise CallError(f"there is no rule {rule_id}{did_you_mean(rule_id, rules)}")
    here = configuration.action_for(rule)
    data: dict[str, Any] = {
        "rule": rule.id,
        "title": rule.title,
        "explanation": rule.explanation,
        "kinds": sorted(kind.value for kind in rule.kinds),
        "profile": rule.profile.value,
        "default": rule.action.value,
        "action": here.value,
        "reads": list(rule.reads),
        "neighbours": rule.neighbours,
        "fix": rule.id in FIXES,
        "bad": rule.bad,
        "good-example": rule.good,
    }
    facts = [
        ExplanationStep(Mark.NOTE, f"judges: {', '.join(data['kinds'])}"),
        ExplanationStep(
            Mark.NOTE, f"profile {rule.profile.value}, by default {rule.action.value}; here {here.value}"
        ),
        ExplanationStep(Mark.NOTE, where_and_why(rule)),
    ]
    if rule.reads:
        facts.append(ExplanationStep(Mark.NOTE, f"asked when these change: {', '.join(rule.reads)}"))
    if rule.neighbours:
        facts.append(
            ExplanationStep(Mark.NOTE, "looks at other objects, and keeps silent where they are not known")
        )
    if rule.id in FIXES:
        facts.append(ExplanationStep(Mark.NOTE, "tiphys check --fix corrects what has one answer"))
    return Explanation(
        f"{rule.id}: {rule.title}.",
        good=None,
        data=data,
        sections=[
            ExplanationSection(rule.explanation, facts),
            ExplanationSection("refused or warned about", example=_narrow(rule.bad)),
            ExplanationSection("fine", example=_narrow(rule.good)),
        ],
    )


def _narrow(example: str) -> str:
    """The documents that are too wide for a screen are written with a line for each entry."""
    return "\n---\n".join(_written_narrowly(document) for document in example.strip("\n").split("\n---\n"))


def _written_narrowly(document: str) -> str:
    if max(map(len, document.splitlines()), default=0) <= WIDTH - 2:
        return document
    # PyYAML folds a text after the width, at the next space.
    dumped: str = yaml.safe_dump(
        yaml.safe_load(document), sort_keys=False, allow_unicode=True, width=WIDTH - 20
    )
    return dumped.rstrip("\n")
