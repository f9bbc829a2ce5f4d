"""What people read: a denial with all its findings, and a warning on one line. What weighs most comes first."""

import re
from collections.abc import Iterable, Sequence

from argocd.judging.case import Action, Finding, Profile, Rule
from argocd.rules.catalogue import CATALOGUE
from tiphys.redaction import without_userinfo
from webhook.admission.review import Review

REFUSAL = "Tiphys refuses this"
"""How every denial begins, by which `tiphys webhook status` knows its own."""

MESSAGE_LIMIT = 16_384
"""A denial travels in a header-sized part of kubectl's output; a thousand findings help nobody."""


_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|\d+")

MORE_PLACES = 2
"""Named of what is found again and again: a line should fit a terminal."""


def _weight(rule: Rule) -> int:
    """What Argo CD refuses, what it ignores or misreads, what is missing around the object, habits."""
    if rule.refused_by_argocd or rule.profile is Profile.PARITY:
        return 0
    if rule.action is Action.DENY:
        return 1
    return 2 if rule.neighbours else 3


_WEIGHTS = {rule.id: _weight(rule) for rule in CATALOGUE}


def _by_weight(findings: Iterable[Finding]) -> list[Finding]:
    """Whoever cuts the end off cuts what matters least; what is no rule an API server has refused."""
    return sorted(findings, key=lambda finding: _WEIGHTS.get(finding.rule, 0))


def _more(rule: str, pages_url: str) -> str:
    """Where more is said of a rule; nowhere of what is none of the catalogue, because nothing in an object tells it."""
    if rule not in _WEIGHTS:
        return ""
    return f"see {pages_url}/rules/{rule}" if pages_url else f"see: tiphys explain rule {rule}"


def denial(review: Review, findings: Sequence[Finding], *, pages_url: str = "") -> str:
    findings = _by_weight(findings)
    count = "1 finding" if len(findings) == 1 else f"{len(findings)} findings"
    name = f" {review.name}" if review.name else ""
    lines = [f"{REFUSAL} {review.kind}{name}: {count}"]
    length = len(lines[0])
    for index, finding in enumerate(findings):
        told = [f"- {_at(finding)}{finding.message} [{finding.rule}]"]
        if finding.hint:
            told.append(f"  {finding.hint}")
        if more := _more(finding.rule, pages_url):
            told.append(f"  {more}")
        length += sum(map(len, told)) + len(told)
        if length > MESSAGE_LIMIT:
            lines.append(f"… and {len(findings) - index} more; `tiphys check` lists all")
            break
        lines.extend(told)
    return without_userinfo("\n".join(lines))


def warnings(findings: Sequence[Finding]) -> list[str]:
    """A line for each cause; one that comes again and again, at other places and with other values, is counted."""
    causes: dict[tuple[str, str], list[Finding]] = {}
    for finding in _by_weight(findings):
        causes.setdefault((finding.rule, _QUOTED.sub("", finding.message)), []).append(finding)
    return [_warning(*found) for found in causes.values()]


def _warning(first: Finding, *others: Finding) -> str:
    again = ""
    if others:
        paths = [
            path for path in dict.fromkeys(other.path for other in others) if path not in {"", first.path}
        ]
        named = f": {', '.join(paths[:MORE_PLACES])}" if paths else ""
        again = f" [{len(others)} more{named}{', …' if len(paths) > MORE_PLACES else ''}]"
    hint = f" ({first.hint})" if first.hint else ""
    return without_userinfo(f"{first.rule}:{again} {_at(first)}{first.message}{hint}")


def _at(finding: Finding) -> str:
    return f"{finding.path}: " if finding.path else ""
