"""What people read: a denial with all its findings, and a warning on one line."""

from collections.abc import Sequence

from argocd.judging.case import Finding
from tiphys.redaction import without_userinfo
from webhook.admission import access_reviews
from webhook.admission.review import UNREAD_RULE, Review

RULES_PAGE = "docs/rules.md"
"""Where every rule has its section; `tiphys explain rule` prints the same."""

_OTHER_PAGES = {
    access_reviews.RULE: "docs/webhook.md#what-can-check-writer-not-prove",
    UNREAD_RULE: "docs/webhook.md#which-objects-are-not-read",
}
"""Of what no rule of the catalogue says, because nothing in an object tells it."""

REFUSAL = "Tiphys refuses this"
"""How every denial begins, by which `tiphys webhook status` knows its own."""

MESSAGE_LIMIT = 16_384
"""A denial travels in a header-sized part of kubectl's output; a thousand findings help nobody."""


def denial(review: Review, findings: Sequence[Finding]) -> str:
    count = "1 finding" if len(findings) == 1 else f"{len(findings)} findings"
    name = f" {review.name}" if review.name else ""
    lines = [f"{REFUSAL} {review.kind}{name}: {count}"]
    length = len(lines[0])
    for index, finding in enumerate(findings):
        told = [f"- {_at(finding)}{finding.message} [{finding.rule}]"]
        if finding.hint:
            told.append(f"  {finding.hint}")
        told.append(f"  see {_OTHER_PAGES.get(finding.rule, f'{RULES_PAGE}#{finding.rule}')}")
        length += sum(map(len, told)) + len(told)
        if length > MESSAGE_LIMIT:
            lines.append(f"… and {len(findings) - index} more; `tiphys check` lists all")
            break
        lines.extend(told)
    return without_userinfo("\n".join(lines))


def warning(finding: Finding) -> str:
    hint = f" ({finding.hint})" if finding.hint else ""
    return without_userinfo(f"{finding.rule}: {_at(finding)}{finding.message}{hint}")


def _at(finding: Finding) -> str:
    return f"{finding.path}: " if finding.path else ""
