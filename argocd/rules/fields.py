"""Fields and types of Argo CD's kinds, in files: what an API server would refuse or drop."""

import re
from collections.abc import Iterable, Iterator
from functools import partial

from argocd import names, reading
from argocd.applications import fields
from argocd.applications.fields import FieldFault, FieldProblem
from argocd.judging.case import Action, Case, Finding, Kind, Profile, Rule, SharedLook
from argocd.rules import examples
from argocd.spelling import nearest

_KINDS = (Kind.APPLICATION, Kind.APPLICATION_SET, Kind.PROJECT)
_NAMES = tuple(kind.value for kind in _KINDS)
_CLOSE = 0.8
_CLOSE_KIND = 0.85
"""One letter of ten may be wrong; Argo's other projects have kinds of their own in the same group."""
_ALIKE = re.compile("ap|pl|pro", re.IGNORECASE)

_SAID_OTHERWISE = (".destination", ".repoURL", ".drySource", ".targetBranch", ".mergeKeys")
"""Required fields of which rules about destinations, sources, hydrators and combinations tell more."""


def _problems(case: Case) -> list[FieldProblem]:
    if case.kind not in _KINDS:
        return []
    version = case.surroundings.configuration.argocd.version
    return [
        found
        for found in fields.problems(case.object, kind=case.kind.value, version=version)
        if found.fault is not FieldFault.REQUIRED or not found.path.endswith(_SAID_OTHERWISE)
    ]


def _tell(_: Case, noticed: Iterable[FieldProblem], *, fault: FieldFault) -> Iterator[Finding]:
    for found in noticed:
        if found.fault is fault:
            yield Finding(f"field/{fault}", found.path, found.message, found.hint)


def _rule(fault: FieldFault, **parts: object) -> Rule:
    return Rule(
        id=f"field/{fault}",
        kinds=frozenset(_KINDS),
        profile=Profile.RECOMMENDED,
        reads=("metadata", "spec", "operation"),
        check=SharedLook(_problems, partial(_tell, fault=fault)),
        files_only=True,
        **{"action": Action.DENY, "good": examples.application(), **parts},  # type: ignore[arg-type]
    )


def _kind(case: Case) -> Iterator[Finding]:
    api_version, kind = reading.text(case.object, "apiVersion"), reading.text(case.object, "kind")
    group = api_version.partition("/")[0]
    meant = _meant_kind(group, kind)
    if meant and meant != kind:
        yield Finding(
            "object/argocd-kind",
            "kind",
            f"Argo CD has no kind {kind[:60]}",
            f"Did you mean {meant}?",
        )
    elif meant and api_version != names.API_VERSION:
        yield Finding(
            "object/argocd-kind",
            "apiVersion",
            f"Argo CD's {kind} is no {api_version[:60] or 'object without apiVersion'}",
            f"Write apiVersion: {names.API_VERSION}.",
        )


def _meant_kind(group: str, kind: str) -> str:
    """One of the three, where group and kind are it or nearly so; the group has other kinds of other projects."""
    # Every object of a run passes here: the careful look is for the few that have something in common.
    if not _ALIKE.search(kind) or len(kind) > 2 * len(Kind.APPLICATION_SET.value):
        return ""
    ours = "argo" in group or bool(nearest(group, [names.GROUP], close=_CLOSE))
    if kind in _NAMES:
        return kind if ours or (not group and kind != Kind.APPLICATION.value) else ""
    if not ours:
        return ""
    lower = {name.lower(): name for name in _NAMES}
    return lower.get(nearest(kind.lower(), lower, close=_CLOSE_KIND), "")


def _older(version: str) -> str:
    return f"""\
apiVersion: v1
kind: ConfigMap
metadata: {{name: tiphys, namespace: tiphys-system}}
data: {{tiphys.yaml: 'argocd: {{version: "{version}"}}'}}
{examples.BEFORE}"""


_GIT = "- git: {{repoURL: https://git.example.com/shop.git, {more}directories: [{{path: apps/*}}]}}"


def _git(more: str) -> str:
    return examples.application_set(generators=_GIT.format(more=more), name="'shop-{{.path.basename}}'")


RULES: tuple[Rule, ...] = (
    Rule(
        id="object/argocd-kind",
        kinds=frozenset({Kind.ANY}),
        profile=Profile.RECOMMENDED,
        action=Action.DENY,
        reads=("apiVersion", "kind"),
        title="Kind and apiVersion are spelt as Argo CD's are",
        explanation=(
            "An API server takes no object of a kind that it does not know, and Argo CD never sees it. Only files are "
            "judged."
        ),
        bad=examples.application().replace("kind: Application", "kind: Aplication"),
        good=examples.application(),
        check=_kind,
        files_only=True,
    ),
    _rule(
        FieldFault.UNKNOWN,
        title="Every field is one that Argo CD has",
        explanation=(
            "The API server drops a field that it does not know, kubectl refuses it, and the setting never takes "
            "effect. Compared with the definitions of the release that argocd.version names; only files are judged."
        ),
        bad=examples.application(spec="syncPolicy: {automated: {selfheal: true}}"),
        good=examples.application(spec="syncPolicy: {automated: {selfHeal: true}}"),
    ),
    _rule(
        FieldFault.MISPLACED,
        title="Every field stands where Argo CD looks for it",
        explanation="A field that exists elsewhere is dropped like one that does not exist; only files are judged.",
        bad=examples.application(spec="syncPolicy: {prune: true}"),
        good=examples.application(spec="syncPolicy: {automated: {prune: true}}"),
    ),
    _rule(
        FieldFault.RELEASE,
        action=Action.WARN,
        title="The Argo CD that runs has every field",
        explanation=(
            "Fields come with releases. What the release that argocd.version names does not have is dropped; only "
            "files are judged."
        ),
        bad=_older("2.14") + examples.application(spec="syncPolicy: {automated: {enabled: true}}"),
        good=examples.application(spec="syncPolicy: {automated: {enabled: true}}"),
    ),
    _rule(
        FieldFault.TYPE,
        title="Every value has the type of its field",
        explanation=(
            "The API server refuses a text where a switch, a list or a mapping belongs, and the other way round; only "
            "files are judged."
        ),
        bad=examples.application(spec="syncPolicy: {automated: {prune: 'true'}}"),
        good=examples.application(spec="syncPolicy: {automated: {prune: true}}"),
    ),
    _rule(
        FieldFault.REQUIRED,
        title="Required fields are there",
        explanation="The API server refuses an object without a field that its definition requires; only files are judged.",
        bad=_git(""),
        good=_git("revision: main, "),
    ),
)
