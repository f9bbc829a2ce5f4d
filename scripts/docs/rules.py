"""The catalogue of rules, from the rules themselves."""

from collections.abc import Iterator
from itertools import groupby

from argocd.judging.case import Operation, Rule
from argocd.judging.configuration import group_of
from argocd.judging.profiles import where_and_why
from argocd.rules.catalogue import CATALOGUE

PAGE = "docs/rules.md"

HEAD = """# Rules

What Tiphys looks for, in the order in which it tells. The same id is in the denial, the log, the metric, the
SARIF file and here; [configuration](configuration.md) says how to change an action or to exempt an object.

- **parity** rules are what Argo CD's own API server refuses, in its words; **recommended** ones are what its
  documentation and its users' accidents teach, and speak of few objects that work; **strict** ones are opinions, which
  many good objects do not share. A profile has the rules of those before it too.
- A rule marked *neighbours* looks at other objects too: it speaks in every profile and only where they are known.
- On an update only rules are asked whose fields changed.
- Of an example's documents the last is judged; those before it are in the cluster already.
"""


def generate() -> str:
    return "\n".join([HEAD, *_overview(), *(line for rule in CATALOGUE for line in _section(rule))])


def _overview() -> Iterator[str]:
    by_group = sorted(CATALOGUE, key=lambda rule: group_of(rule.id))
    for group, rules in groupby(by_group, key=lambda rule: group_of(rule.id)):
        yield f"## {group}"
        yield ""
        yield "| rule | | action | profile |"
        yield "|---|---|---|---|"
        for rule in rules:
            profile = f"{rule.profile}, neighbours" if rule.neighbours else str(rule.profile)
            yield f"| [{rule.id}](#{rule.id}) | {rule.title} | {rule.action} | {profile} |"
        yield ""


def _section(rule: Rule) -> Iterator[str]:
    kinds = ", ".join(sorted(rule.kinds))
    deleting = " deleted" if rule.operations == {Operation.DELETE} else ""
    reads = f" Reads {', '.join(f'`{read}`' for read in rule.reads)}." if rule.reads else ""
    yield f'<a id="{rule.id}"></a>'
    yield ""
    yield f"## {rule.id}"
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
