"""The catalogue of rules, from the rules themselves."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from argocd.judging.case import Action, Operation, Rule
from argocd.judging.configuration import group_of
from argocd.judging.profiles import where_and_why
from argocd.rules.catalogue import CATALOGUE

PAGE = "docs/rules.md"
ACTIONS = tuple(action for action in Action if any(rule.action is action for rule in CATALOGUE))
"""That some rule has by default."""

HEAD = """# Rules

What Tiphys looks for. The same id is in the denial, the log, the metric, the SARIF file and here;
[configuration](configuration.md) says how to change an action or to exempt an object, and `tiphys explain rule ID` prints a
rule without this page.

- **parity** rules are what Argo CD's own API server refuses, in its words; **recommended** ones are what its
  documentation and its users' accidents teach, and speak of few objects that work; **strict** ones are opinions, which
  many good objects do not share. A profile has the rules of those before it too.
- A rule marked *neighbours* looks at other objects too: it speaks in every profile and only where they are known.
- On an update only rules are asked whose fields changed.
- Of an example's documents the last is judged; those before it are in the cluster already.
"""


def generate() -> str:
    groups = _groups()
    one_by_one = (line for rules in groups.values() for rule in rules for line in _section(rule))
    return "\n".join([HEAD, *_index(groups), *_overview(groups), "## One by one", "", *one_by_one])


def _groups() -> dict[str, list[Rule]]:
    """By name; in each the denials first, and otherwise in the order in which they are told."""
    by_group = sorted(CATALOGUE, key=lambda rule: (group_of(rule.id), ACTIONS.index(rule.action)))
    return {group: list(rules) for group, rules in groupby(by_group, key=lambda rule: group_of(rule.id))}


def _index(groups: Mapping[str, Sequence[Rule]]) -> Iterator[str]:
    yield f"{len(CATALOGUE)} rules, by what they judge and what they do by default:"
    yield ""
    yield f"| group | judges | {' | '.join(ACTIONS)} |"
    yield f"|---|---|{'---|' * len(ACTIONS)}"
    for group, rules in groups.items():
        kinds = sorted({kind for rule in rules for kind in rule.kinds})
        counts = Counter(rule.action for rule in rules)
        told = " | ".join(str(counts[action] or "") for action in ACTIONS)
        yield f"| [{group}](#{_anchor(group)}) | {', '.join(kinds)} | {told} |"
    yield ""


def _overview(groups: Mapping[str, Sequence[Rule]]) -> Iterator[str]:
    for group, rules in groups.items():
        yield f"## {group}"
        yield ""
        yield "| rule | what it asks for | action | profile |"
        yield "|---|---|---|---|"
        for rule in rules:
            profile = f"{rule.profile}, neighbours" if rule.neighbours else str(rule.profile)
            yield f"| [{rule.id}](#{rule.id}) | {rule.title} | {rule.action} | {profile} |"
        yield ""


def _anchor(group: str) -> str:
    """Of its heading, as GitHub and GitLab make one."""
    return group.removesuffix("/*")


def _section(rule: Rule) -> Iterator[str]:
    kinds = ", ".join(sorted(rule.kinds))
    deleting = " deleted" if rule.operations == {Operation.DELETE} else ""
    reads = f" Reads {', '.join(f'`{read}`' for read in rule.reads)}." if rule.reads else ""
    yield f'<a id="{rule.id}"></a>'
    yield ""
    yield f"### {rule.id}"
    yield ""
    yield f"**{rule.title}.** {rule.explanation}"
    yield ""
    yield f"{rule.action} · {rule.profile} · {kinds}{deleting}.{reads}"
    yield ""
    yield where_and_why(rule)
    yield ""
    yield from _example("Bad", rule.bad)
    yield from _example("Good", rule.good)


def _example(title: str, text: str) -> Iterator[str]:
    yield f"{title}:"
    yield ""
    yield "```yaml"
    yield text.strip("\n")
    yield "```"
    yield ""
