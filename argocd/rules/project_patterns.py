"""Patterns in a project that Argo CD cannot read, that bring it down, or that do not mean what they say.

Its API server looks at none of them, but for those of destinationServiceAccounts.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, auto
from functools import partial
from typing import Any

from argocd import globs, reading
from argocd.budget import FINDING, remembered, spend
from argocd.globs.surprises import SurpriseKind as Surprising
from argocd.globs.surprises import surprises
from argocd.go import filepath, regexp2
from argocd.judging.case import Action, Case, Finding
from argocd.judging.entries import Entry
from argocd.judging.memo import Remembered
from argocd.projects import pattern_lists, sync_windows
from argocd.rules.project_rule import project_rule
from argocd.settings import git_urls

_HARMLESS_TEXT = r"(?:[A-Za-z0-9.:@_-][A-Za-z0-9.:@_/-]*\*{0,2}|\*{1,2})"
"""What most patterns are: text with a star at its end means the same everywhere."""
_HARMLESS = re.compile(_HARMLESS_TEXT)
_ALL_HARMLESS = re.compile(rf"(?:{_HARMLESS_TEXT}\n)*")


_LISTS = ("sourceRepos", "sourceNamespaces", "destinations", "syncWindows", "destinationServiceAccounts")
_KIND_LISTS = (
    "clusterResourceWhitelist",
    "clusterResourceBlacklist",
    "namespaceResourceWhitelist",
    "namespaceResourceBlacklist",
)


class _Place(Enum):
    """Where a pattern stands decides how Argo CD reads it."""

    DESTINATION = auto()
    """A glob, or a `!` and a glob."""
    REPOSITORY = auto()
    """As that, normalised as a URL first, and `*` stops at a slash."""
    NAMESPACE = auto()
    """A glob, or a regular expression between slashes."""
    WINDOW = auto()
    """A glob and nothing else."""
    ACCOUNT = auto()
    """As that; the API server has already looked whether it compiles."""


_Problem = tuple[str, str]
"""A rule and what it says."""

_RULE_OF = {
    Surprising.PANICS: "project/glob-panics",
    Surprising.HANGS: "project/glob-hangs",
    Surprising.MISLEADS: "project/glob-misleading",
}


@Remembered
def _found(case: Case) -> list[Finding]:
    """What is wrong with every pattern that is new to the project; one pass serves all rules about them."""
    spec = reading.mapping(case.object, "spec")
    found: list[Finding] = []
    if _is_harmless(spec):
        return found
    for key, place in (("sourceRepos", _Place.REPOSITORY), ("sourceNamespaces", _Place.NAMESPACE)):
        _list(case.changed_entries("spec", key), place, f"spec.{key}", found)
    _entries(case, "destinations", ("server", "name", "namespace"), _Place.DESTINATION, found)
    _entries(case, "destinationServiceAccounts", ("server", "namespace"), _Place.ACCOUNT, found)
    for index, window in case.changed_entries("spec", "syncWindows"):
        for key in sync_windows.TARGETS:
            patterns = enumerate(reading.sequence(window, key))
            _list(patterns, _Place.WINDOW, f"spec.syncWindows[{index}].{key}", found)
    return found


def _is_harmless(spec: Mapping[str, Any]) -> bool:
    """Whether all patterns together are what most are; most projects have no others."""
    texts = [*reading.sequence(spec, "sourceRepos"), *reading.sequence(spec, "sourceNamespaces")]
    for key in ("destinations", "destinationServiceAccounts"):
        for entry in reading.sequence(spec, key):
            texts += entry.values() if type(entry) is dict else (None,)
    for window in reading.sequence(spec, "syncWindows"):
        for key in sync_windows.TARGETS:
            if found := reading.sequence(window, key):
                texts += found
    try:
        joined = "\n".join([*texts, ""])
    except TypeError:
        return False
    return joined.count("\n") == len(texts) and _ALL_HARMLESS.fullmatch(joined) is not None


def _list(patterns: Iterable[Entry], place: _Place, at: str, found: list[Finding]) -> None:
    for index, pattern in patterns:
        if isinstance(pattern, str) and (problems := _problems(pattern, place)):
            spend(FINDING * len(problems))
            found += [Finding(rule, f"{at}[{index}]", said, HINTS[rule]) for rule, said in problems]


def _entries(case: Case, key: str, fields: tuple[str, ...], place: _Place, found: list[Finding]) -> None:
    for index, entry in case.changed_entries("spec", key):
        for field in fields:
            pattern = reading.text(entry, field)
            if pattern and (problems := _problems(pattern, place)):
                path = f"spec.{key}[{index}].{field}"
                spend(FINDING * len(problems))
                found += [Finding(rule, path, said, HINTS[rule]) for rule, said in problems]


def _problems(pattern: str, place: _Place) -> tuple[_Problem, ...]:
    if _HARMLESS.fullmatch(pattern):
        return ()
    spend(1)
    return _judged(pattern, place)


@remembered(longest=300, most=4096)
def _judged(pattern: str, place: _Place) -> tuple[_Problem, ...]:
    if place is _Place.REPOSITORY:
        return _repository(pattern)
    if place is _Place.DESTINATION:
        denies = pattern_lists.is_denial(pattern)
        return tuple(_glob(pattern[denies:], denies=denies))
    if place is _Place.ACCOUNT:
        return tuple(problem for problem in _glob(pattern) if problem[0] != "project/glob-invalid")
    if place is _Place.NAMESPACE and pattern_lists.is_expression(pattern):
        return tuple(_expression(pattern))
    if pattern_lists.is_denial(pattern):
        said = f"'{pattern}' denies nothing: there are no denials in this list"
        return (("project/denial-unsupported", said), *_glob(pattern))
    return tuple(_glob(pattern))


def _repository(pattern: str) -> tuple[_Problem, ...]:
    denies = pattern_lists.is_denial(pattern)
    normalized = git_urls.normalize(pattern[denies:])
    return tuple(_glob(normalized, denies=denies, separators="/")) if normalized else ()


def _glob(pattern: str, *, denies: bool = False, separators: str = "") -> Iterator[_Problem]:
    if error := globs.compile_error(pattern, separators):
        meaning = "so this denial permits everything" if denies else "so it matches nothing"
        yield "project/glob-invalid", f"'{pattern}' does not compile: {error}; {meaning}"
        return
    for surprise in surprises(pattern, separators):
        yield _RULE_OF[surprise.kind], f"'{pattern}': {surprise.message}"


def _expression(pattern: str) -> Iterator[_Problem]:
    if len(pattern) == 1:
        yield (
            "project/regular-expression",
            "Argo CD panics on a lone slash: it takes it for a regular expression",
        )
        return
    expression = regexp2.compiled(pattern[1:-1])
    if expression.error:
        yield (
            "project/regular-expression",
            f"'{pattern}' is no regular expression: {expression.error}; so it matches nothing",
        )
    elif expression.unsupported:
        yield "project/regular-expression-unsupported", f"'{pattern}': {expression.unsupported}"


@Remembered
def _kinds(case: Case) -> list[Finding]:
    found: list[Finding] = []
    spec = reading.mapping(case.object, "spec")
    for key in _KIND_LISTS:
        if key not in spec:
            continue
        entries = case.changed_entries("spec", key)
        spend(len(entries))
        for index, entry in entries:
            for field in ("group", "kind", "name"):
                pattern = reading.text(entry, field)
                if pattern and filepath.is_malformed(pattern):
                    spend(FINDING)
                    path = f"spec.{key}[{index}].{field}"
                    said = f"'{pattern}' is malformed, so the entry matches nothing"
                    hint = "Close the bracket, and put a backslash before a character that is special."
                    found.append(Finding("project/kind-pattern", path, said, hint))
    return found


HINTS = {
    "project/glob-invalid": "Close brackets, and put one range or one list of characters into a class.",
    "project/glob-panics": "Write the alternatives as entries of their own.",
    "project/glob-hangs": "Use fewer wildcards; entries of their own are cheaper than one clever pattern.",
    "project/glob-misleading": "Write it without what is ambiguous; entries of their own are clearer than alternatives.",
    "project/denial-unsupported": "List what is meant; `!` counts in destinations and sourceRepos alone.",
    "project/regular-expression": "Correct it, or write a glob without the slashes.",
    "project/regular-expression-unsupported": "Write a glob, or an expression without lookaround and references.",
}


_READS = tuple(f"spec.{key}" for key in _LISTS)


_rule = partial(project_rule, check=_found, reads=_READS, action=Action.DENY)


def _in_namespace(pattern: str) -> str:
    return f"destinations: [{{server: https://kubernetes.default.svc, namespace: '{pattern}'}}]"


RULES = (
    _rule(
        "project/glob-invalid",
        refused_by_argocd=True,
        title="Globs compile",
        explanation=(
            "Argo CD checks the globs of a project only when it needs them, logs one that does not compile and takes "
            "it for one that matches nothing; a denial of that kind permits everything. `[a-z0-9]` is no class: one "
            "range or one list of characters fits into a pair of brackets."
        ),
        bad=_in_namespace("shop-[a-z0-9]"),
        good=_in_namespace("shop-?"),
    ),
    _rule(
        "project/glob-panics",
        title="Globs do not make Argo CD panic",
        explanation=(
            "Some globs with braces compile and panic when they are compared: with an empty alternative, or with one "
            "that is exactly what stands before another's wildcard. The application that is being compared is never "
            "reconciled again."
        ),
        bad=_in_namespace("{shop*,shop}"),
        good=_in_namespace("shop*"),
    ),
    _rule(
        "project/glob-hangs",
        title="Globs do not keep Argo CD busy",
        explanation=(
            "Argo CD tries all ways to match a glob one after the other: with many wildcards a short text takes "
            "seconds, a long one for ever, and every application of the project waits."
        ),
        bad=_in_namespace("?*a" * 16),
        good=_in_namespace("?*a"),
    ),
    _rule(
        "project/glob-misleading",
        action=Action.WARN,
        title="Globs mean what they say",
        explanation=(
            "Argo CD's globs are no textbook globs. `?` alone matches the empty text, `a*a` matches `a`, `[^a]` is a "
            "list of two characters, alternatives with a wildcard in them are unreliable, an open brace is taken for "
            "a closed one. The message names a text that shows it where there is one."
        ),
        bad=_in_namespace("shop*shop"),
        good=_in_namespace("shop-*"),
    ),
    _rule(
        "project/denial-unsupported",
        action=Action.WARN,
        title="A denial stands where denials count",
        explanation=(
            "`!` denies in destinations and in sourceRepos. In sourceNamespaces and in sync windows it is a character "
            "like any other, and no name begins with it."
        ),
        bad="sourceNamespaces: ['shop-*', '!shop-live']",
        good="sourceNamespaces: [shop-test, shop-stage]",
        reads=("spec.sourceNamespaces", "spec.syncWindows"),
    ),
    _rule(
        "project/regular-expression",
        title="Regular expressions can be read",
        explanation=(
            "An entry of sourceNamespaces between two slashes is a regular expression. One that cannot be read "
            "matches nothing, and a single slash makes Argo CD panic."
        ),
        bad="sourceNamespaces: ['/shop-(a|b/']",
        good="sourceNamespaces: ['/^shop-(a|b)$/']",
        reads=("spec.sourceNamespaces",),
    ),
    _rule(
        "project/regular-expression-unsupported",
        action=Action.WARN,
        title="Regular expressions can be judged",
        explanation=(
            "Argo CD runs them on an engine that looks ahead, looks behind and can take for ever. Tiphys runs them in "
            "linear time and cannot tell what this one matches, so nothing that depends on it is judged."
        ),
        bad="sourceNamespaces: ['/^shop-(?!live).*(?<!old)$/']",
        good="sourceNamespaces: ['/^(?!shop-live).*$/']",
        reads=("spec.sourceNamespaces",),
    ),
    _rule(
        "project/kind-pattern",
        title="Patterns of groups, kinds and names are well-formed",
        explanation=(
            "These lists are compared as file names are: `*`, `?`, `[a-z]` and `[^a]`. A malformed one matches "
            "nothing, so that what it was meant to deny is permitted."
        ),
        bad="namespaceResourceBlacklist: [{group: '', kind: '[Secret'}]",
        good="namespaceResourceBlacklist: [{group: '', kind: Secret}]",
        reads=tuple(f"spec.{key}" for key in _KIND_LISTS),
        check=_kinds,
    ),
)
