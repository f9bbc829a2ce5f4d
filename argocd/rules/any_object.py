"""What can be said of any object: annotations that Argo CD reads when it syncs one, and what is too large to handle."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import orjson

from argocd import names, reading
from argocd.applications import sync_annotations
from argocd.globs import Verdict
from argocd.go import strconv
from argocd.go.net_url import query_parameter
from argocd.judging.case import Action, Case, Finding, Kind, Profile, Rule
from argocd.projects.pattern_lists import in_list
from argocd.rules import examples

MAX_ANNOTATIONS = 262_144
"""Bytes of all keys and values of an object's annotations together, as Kubernetes counts them."""


def _at(key: str) -> str:
    return f"metadata.annotations[{key}]"


def _annotation(case: Case, key: str) -> str | None:
    found = sync_annotations.annotations_of(case.object).get(key)
    return found if isinstance(found, str) else None


def _sync_wave(case: Case) -> Iterator[Finding]:
    text = _annotation(case, names.SYNC_WAVE)
    if text is not None and strconv.integer(text) is None:
        counts = sync_annotations.wave(sync_annotations.annotations_of(case.object))
        yield Finding(
            "object/sync-wave",
            _at(names.SYNC_WAVE),
            f"{text!r} is no whole number: Argo CD applies the object in wave {counts}",
            "Write a whole number, such as '5' or '-1'.",
        )


def _hook(case: Case) -> Iterator[Finding]:
    text = _annotation(case, names.HOOK)
    if text is None:
        return
    found = list(sync_annotations.items(text))
    unknown = [item for item in found if item not in sync_annotations.HOOKS]
    if found and not unknown:
        return
    meant = sync_annotations.spelling(unknown[0], sync_annotations.HOOKS) if unknown else ""
    yield Finding(
        "object/hook",
        _at(names.HOOK),
        "Argo CD has no such hook and never applies an object that has no other: "
        f"{', '.join(unknown) or 'the value is empty'}",
        f"Write {meant}." if meant else f"Use {', '.join(sorted(sync_annotations.HOOKS))}.",
    )


def _unknown_items(
    case: Case, rule: str, key: str, known: frozenset[str], consequence: str
) -> Iterator[Finding]:
    text = _annotation(case, key)
    for item in sync_annotations.items(text) if text else ():
        if item not in known:
            meant = sync_annotations.spelling(item, known)
            yield Finding(
                rule,
                _at(key),
                f"Argo CD does not know {item!r} {consequence}",
                f"Write {meant}." if meant else f"Use {', '.join(sorted(known))}.",
            )


def _delete_policy(case: Case) -> Iterator[Finding]:
    return _unknown_items(
        case,
        "object/hook-delete-policy",
        names.HOOK_DELETE_POLICY,
        sync_annotations.DELETE_POLICIES,
        "and deletes the hook before it is created again",
    )


def _sync_options(case: Case) -> Iterator[Finding]:
    return _unknown_items(
        case,
        "object/sync-options",
        names.SYNC_OPTIONS,
        sync_annotations.RESOURCE_OPTIONS,
        "as an option of one object and ignores it",
    )


def _compare_options(case: Case) -> Iterator[Finding]:
    return _unknown_items(
        case,
        "object/compare-options",
        names.COMPARE_OPTIONS,
        sync_annotations.COMPARE_OPTIONS,
        "and ignores it",
    )


def _hook_lifetime(case: Case) -> Iterator[Finding]:
    if case.object.get("kind") != "Job":
        return
    lifetime = reading.value(case.object, "spec", "ttlSecondsAfterFinished")
    if lifetime == 0 and sync_annotations.is_hook(sync_annotations.annotations_of(case.object)):
        yield Finding(
            "object/hook-lifetime",
            "spec.ttlSecondsAfterFinished",
            "Kubernetes deletes the hook as soon as it ends, and Argo CD may never see how it ended",
            "Leave a minute or more, or let hook-delete-policy clean up.",
        )


def _too_large(case: Case) -> Iterator[Finding]:
    metadata = reading.mapping(case.object, "metadata")
    if metadata.get("uid"):
        return  # It is stored: whoever applied it found a way.
    if not reading.text(case.object, "kind") or not reading.text(case.object, "apiVersion"):
        return  # Values, a lock file: nobody applies it.
    annotations = reading.mapping(metadata, "annotations")
    if _size(case.object) + _annotations_size(annotations) <= MAX_ANNOTATIONS:
        return
    options = set(sync_annotations.items(reading.text(annotations, names.SYNC_OPTIONS)))
    if not options & {"ServerSideApply=true", "Replace=true"}:
        yield Finding(
            "object/too-large",
            "metadata.annotations",
            "client-side apply keeps a copy of the object in an annotation, for which this one is too large",
            f"Annotate it with {names.SYNC_OPTIONS}: ServerSideApply=true.",
        )


def _size(thing: Mapping[str, Any]) -> int:
    try:
        return len(orjson.dumps(thing))
    except TypeError:
        return 0  # Nested too deeply, or no JSON: no API server will store it.


def _annotations_size(annotations: Mapping[str, Any]) -> int:
    return sum(
        len(key) + len(text)
        for key, text in annotations.items()
        if isinstance(text, str) and isinstance(key, str)
    )


def too_costly(case: Case) -> Finding:
    steps = case.surroundings.configuration.limits.review_steps
    return Finding(
        "object/too-costly",
        "metadata.name",
        f"judging this object takes more than {steps} steps of work, so not every rule was asked about it",
        "Split it, or write fewer and simpler patterns; limits.review-steps in tiphys.yaml is the limit.",
    )


def _fails_open(case: Case) -> bool:
    """Whether the API server would let it pass unjudged: all but Argo CD's kinds where Argo CD reads them."""
    if case.kind not in _ARGOCD_KINDS:
        return True
    namespace = reading.text(case.object, "metadata", "namespace")
    if namespace in {"", case.surroundings.configuration.argocd.namespace} or _is_agents(namespace, case):
        return False
    enabled = case.surroundings.settings.application_namespaces
    return enabled is None or in_list(enabled, namespace) is not Verdict.YES


def _is_agents(namespace: str, case: Case) -> bool:
    """By the Secret of its cluster: an agent's namespace has its name. The label that the entry goes by is not known here."""
    clusters = case.surroundings.neighbours.clusters_by_name(namespace) or ()
    return any(query_parameter(cluster.server, names.AGENT_QUERY_PARAMETER) for cluster in clusters)


_ARGOCD_KINDS = frozenset({Kind.PROJECT, Kind.APPLICATION, Kind.APPLICATION_SET})

_any_object = partial(
    Rule,
    kinds=frozenset({Kind.ANY}),
    profile=Profile.RECOMMENDED,
    action=Action.WARN,
)


def _job(key: str, value: str, *, spec: str = "") -> str:
    return examples.job(annotations=f"{key}: '{value}'", spec=spec)


def _limited(expression: str) -> str:
    project = examples.project(spec=f"sourceNamespaces: ['{expression}']")
    return (
        "apiVersion: v1\n"
        "kind: ConfigMap\n"
        f"metadata: {{name: {names.TIPHYS_CONFIG_MAP}, namespace: {names.TIPHYS_NAMESPACE}}}\n"
        "data:\n"
        f"  {names.TIPHYS_CONFIG_KEY}: 'limits: {{review-steps: 1000}}'\n"
        f"{examples.BEFORE}{project}"
    )


TOO_COSTLY = _any_object(
    id="object/too-costly",
    profile=Profile.PARITY,
    action=Action.DENY,
    reads=("metadata", "spec", "data"),
    mild_when=_fails_open,
    title="An object can be judged within its budget",
    explanation=(
        "Work on an object is counted in steps: globs held against texts, entries compared, expressions compiled. "
        "A review that has used up limits.review-steps (a million; a large ordinary object takes a tenth) ends with "
        "what it has found. Argo CD's kinds are then refused where Argo CD reads them; other objects, about which the "
        "API server would not wait for an answer either, get a warning. On updates only entries that changed are counted, and a few steps for each of the others."
    ),
    bad=_limited("/^shop-[a-z]{1,400}$/"),
    good=_limited("/^shop-[a-z]{1,40}$/"),
    check=lambda _: (),
)
"""The engine says it, when a review ends; asked itself it has nothing to say."""

RULES: tuple[Rule, ...] = (
    _any_object(
        id="object/sync-wave",
        action=Action.DENY,
        reads=(_at(names.SYNC_WAVE),),
        title="A sync wave is a whole number",
        explanation="Argo CD reads any other text as wave 0, or as the weight of a Helm hook, and says nothing.",
        bad=_job(names.SYNC_WAVE, "first"),
        good=_job(names.SYNC_WAVE, "-1"),
        check=_sync_wave,
    ),
    _any_object(
        id="object/hook",
        action=Action.DENY,
        reads=(_at(names.HOOK),),
        title="A hook is one that Argo CD runs",
        explanation=(
            "An object with the annotation is a hook, also when its value is misspelt: it is left out of the sync "
            "and, having no phase, is never applied at all."
        ),
        bad=_job(names.HOOK, "Presync"),
        good=_job(names.HOOK, "PreSync"),
        check=_hook,
    ),
    _any_object(
        id="object/hook-delete-policy",
        reads=(_at(names.HOOK_DELETE_POLICY),),
        title="A hook's delete policy is one that Argo CD knows",
        explanation="Unknown policies are skipped; without any the hook is deleted before it is created again.",
        bad=_job(names.HOOK_DELETE_POLICY, "HookSuceeded"),
        good=_job(names.HOOK_DELETE_POLICY, "HookSucceeded,BeforeHookCreation"),
        check=_delete_policy,
    ),
    _any_object(
        id="object/hook-lifetime",
        reads=(
            "kind",
            "spec.ttlSecondsAfterFinished",
            _at(names.HOOK),
            _at(names.HELM_HOOK),
        ),
        needs=(_at(names.HOOK), _at(names.HELM_HOOK)),
        title="A hook lives long enough to be seen",
        explanation="Argo CD looks at the finished Job; a lifetime of zero deletes it before that.",
        bad=_job(names.HOOK, "PreSync", spec="ttlSecondsAfterFinished: 0"),
        good=_job(names.HOOK, "PreSync", spec="ttlSecondsAfterFinished: 600"),
        check=_hook_lifetime,
    ),
    _any_object(
        id="object/sync-options",
        reads=(_at(names.SYNC_OPTIONS),),
        title="An object's sync options are spelt exactly",
        explanation="A misspelt Prune=false protects nothing: Argo CD ignores options that it does not know.",
        bad=_job(names.SYNC_OPTIONS, "prune=false"),
        good=_job(names.SYNC_OPTIONS, "Prune=false, Delete=confirm"),
        check=_sync_options,
    ),
    _any_object(
        id="object/compare-options",
        reads=(_at(names.COMPARE_OPTIONS),),
        title="Compare options are spelt exactly",
        explanation="Argo CD ignores compare options that it does not know.",
        bad=_job(names.COMPARE_OPTIONS, "ServerSideDiff"),
        good=_job(names.COMPARE_OPTIONS, "IgnoreExtraneous, ServerSideDiff=true"),
        check=_compare_options,
    ),
    _any_object(
        id="object/too-large",
        reads=("metadata", "spec", "data"),
        title="Large objects need server-side apply",
        explanation=(
            "kubectl and Argo CD keep the last applied manifest in an annotation unless they apply on the server's "
            "side, and annotations together may have 262144 bytes."
        ),
        bad="""\
apiVersion: v1
kind: ConfigMap
metadata: {name: dashboards, namespace: shop}
data:
  dashboards.json: "…"  # some 300 kB
""",
        good=f"""\
apiVersion: v1
kind: ConfigMap
metadata: {{name: dashboards, namespace: shop, annotations: {{{names.SYNC_OPTIONS}: ServerSideApply=true}}}}
data:
  dashboards.json: "…"  # some 300 kB
""",
        check=_too_large,
    ),
    TOO_COSTLY,
)
