"""Sync policies that do less, or more, than they say."""

from collections.abc import Iterator
from functools import partial

from argocd import reading
from argocd.applications import sync_annotations
from argocd.go import durations, strconv
from argocd.judging.case import Action, Case, Finding, Kind, Profile, Rule
from argocd.rules import examples

_OPTIONS = "spec.syncPolicy.syncOptions"
_AUTOMATED = "spec.syncPolicy.automated"

_LONGEST_DURATION = 200
"""Characters; ten numbers with their units in full length need fewer."""


def _options(case: Case) -> list[str]:
    return reading.texts(case.object, "spec", "syncPolicy", "syncOptions")


def _automated(case: Case, switch: str) -> bool:
    return reading.value(case.object, "spec", "syncPolicy", "automated", switch) is True


def _prune_everything(case: Case) -> Iterator[Finding]:
    if _automated(case, "prune") and _automated(case, "allowEmpty"):
        yield Finding(
            "application/prune-everything",
            f"{_AUTOMATED}.allowEmpty",
            "an empty source deletes every object of this application, without anybody being asked",
            "Remove allowEmpty: Argo CD then refuses to sync an application without objects.",
        )


def _automation_off(case: Case) -> Iterator[Finding]:
    if reading.value(case.object, "spec", "syncPolicy", "automated", "enabled") is not False:
        return
    useless = [switch for switch in ("prune", "selfHeal") if _automated(case, switch)]
    if useless:
        yield Finding(
            "application/automation-off",
            _AUTOMATED,
            f"no effect while automated.enabled is false: {', '.join(useless)}",
            "Set enabled to true, or remove what it switches off.",
        )


def _namespace_metadata(case: Case) -> Iterator[Finding]:
    wanted = reading.mapping(case.object, "spec", "syncPolicy", "managedNamespaceMetadata")
    if wanted and "CreateNamespace=true" not in _options(case):
        yield Finding(
            "application/namespace-metadata",
            "spec.syncPolicy.managedNamespaceMetadata",
            "labels and annotations of a namespace that Argo CD does not create are never written",
            "Add CreateNamespace=true to spec.syncPolicy.syncOptions.",
        )


def _create_namespace(case: Case) -> Iterator[Finding]:
    namespace = reading.text(case.object, "spec", "destination", "namespace")
    if not namespace and "CreateNamespace=true" in _options(case):
        yield Finding(
            "application/create-namespace",
            "spec.destination.namespace",
            "CreateNamespace=true has no namespace to create",
            "Set spec.destination.namespace.",
        )


def _respect_differences(case: Case) -> Iterator[Finding]:
    differences = reading.sequence(case.object, "spec", "ignoreDifferences")
    if not differences and "RespectIgnoreDifferences=true" in _options(case):
        yield Finding(
            "application/respect-differences",
            _OPTIONS,
            "RespectIgnoreDifferences=true has no spec.ignoreDifferences to respect",
            "List the differences, unless argocd-cm lists them for all applications.",
        )


def _sync_option(case: Case) -> Iterator[Finding]:
    for index, option in enumerate(reading.sequence(case.object, "spec", "syncPolicy", "syncOptions")):
        text = option if isinstance(option, str) else ""
        if text not in sync_annotations.APPLICATION_OPTIONS:
            meant = sync_annotations.spelling(text, sync_annotations.APPLICATION_OPTIONS)
            yield Finding(
                "application/sync-option",
                f"{_OPTIONS}[{index}]",
                f"Argo CD has no sync option {text!r} and ignores it",
                f"Write {meant}." if meant else "See the sync options in Argo CD's documentation.",
            )


def _replace_wins(case: Case) -> Iterator[Finding]:
    options = _options(case)
    if "Replace=true" in options and "ServerSideApply=true" in options:
        yield Finding(
            "application/replace-wins",
            _OPTIONS,
            "Replace=true wins over ServerSideApply=true: objects are replaced, or deleted and created",
            "Keep one of the two.",
        )


def _force_alone(case: Case) -> Iterator[Finding]:
    options = _options(case)
    if "Force=true" in options and "Replace=true" not in options:
        yield Finding(
            "application/force-alone",
            _OPTIONS,
            "Force=true does nothing without Replace=true",
            "Annotate the objects that must be recreated with sync-options: Force=true,Replace=true.",
        )


def _retry_backoff(case: Case) -> Iterator[Finding]:
    backoff = reading.mapping(case.object, "spec", "syncPolicy", "retry", "backoff")
    for key in ("duration", "maxDuration") if backoff else ():
        text = reading.text(backoff, key)
        if text and strconv.integer(text) is None and _is_no_duration(text):
            yield Finding(
                "application/retry-backoff",
                f"spec.syncPolicy.retry.backoff.{key}",
                f"{text} is not valid duration string",
                "Write whole seconds or a Go duration such as 90s, 5m or 1h30m.",
            )


def _is_no_duration(text: str) -> bool:
    return len(text) > _LONGEST_DURATION or bool(durations.problem(text))


_recommended = partial(
    Rule,
    kinds=frozenset({Kind.APPLICATION}),
    profile=Profile.RECOMMENDED,
    action=Action.WARN,
    good=examples.application(),
)


def _with_policy(policy: str, *, destination: str = examples.SERVER, more: str = "") -> str:
    return examples.application(spec=f"syncPolicy: {{{policy}}}\n{more}", destination=destination)


RULES: tuple[Rule, ...] = (
    _recommended(
        id="application/prune-everything",
        reads=(f"{_AUTOMATED}.prune", f"{_AUTOMATED}.allowEmpty"),
        title="Automated pruning should not reach zero objects",
        explanation=(
            "With prune and allowEmpty a wrong path, a deleted folder or a broken generator removes everything "
            "that the application ever deployed, at the next reconciliation."
        ),
        bad=_with_policy("automated: {prune: true, allowEmpty: true}"),
        good=_with_policy("automated: {prune: true}"),
        check=_prune_everything,
    ),
    _recommended(
        id="application/automation-off",
        reads=(_AUTOMATED,),
        title="Switches of an automation that is off do nothing",
        explanation="automated.enabled: false turns automatic sync off, whatever prune and selfHeal say.",
        bad=_with_policy("automated: {enabled: false, prune: true}"),
        good=_with_policy("automated: {enabled: true, prune: true}"),
        check=_automation_off,
    ),
    _recommended(
        id="application/namespace-metadata",
        reads=("spec.syncPolicy.managedNamespaceMetadata", _OPTIONS),
        title="Metadata of a namespace needs CreateNamespace",
        explanation="Argo CD writes managedNamespaceMetadata only where it creates the namespace itself.",
        bad=_with_policy("managedNamespaceMetadata: {labels: {team: shop}}"),
        good=_with_policy(
            "managedNamespaceMetadata: {labels: {team: shop}}, syncOptions: [CreateNamespace=true]"
        ),
        check=_namespace_metadata,
    ),
    _recommended(
        id="application/create-namespace",
        reads=("spec.destination.namespace", _OPTIONS),
        title="CreateNamespace needs a namespace",
        explanation="Argo CD creates spec.destination.namespace and no other.",
        bad=_with_policy(
            "syncOptions: [CreateNamespace=true]",
            destination="server: https://kubernetes.default.svc",
        ),
        good=_with_policy("syncOptions: [CreateNamespace=true]"),
        check=_create_namespace,
    ),
    _recommended(
        id="application/respect-differences",
        reads=("spec.ignoreDifferences", _OPTIONS),
        title="RespectIgnoreDifferences needs differences",
        explanation="The option makes a sync leave alone what spec.ignoreDifferences lists; an empty list is nothing.",
        bad=_with_policy("syncOptions: [RespectIgnoreDifferences=true]"),
        good=_with_policy(
            "syncOptions: [RespectIgnoreDifferences=true]",
            more="ignoreDifferences: [{group: apps, kind: Deployment, jsonPointers: [/spec/replicas]}]",
        ),
        check=_respect_differences,
    ),
    _recommended(
        id="application/sync-option",
        reads=(_OPTIONS,),
        title="A sync option is one that Argo CD knows",
        explanation="Argo CD compares options letter by letter; createNamespace=true or a space makes one it ignores.",
        bad=_with_policy("syncOptions: [createNamespace=true]"),
        good=_with_policy("syncOptions: [CreateNamespace=true]"),
        check=_sync_option,
    ),
    _recommended(
        id="application/replace-wins",
        reads=(_OPTIONS,),
        title="Replace beats server-side apply",
        explanation="With both options Argo CD replaces objects, which can mean deleting and creating them.",
        bad=_with_policy("syncOptions: [Replace=true, ServerSideApply=true]"),
        good=_with_policy("syncOptions: [ServerSideApply=true]"),
        check=_replace_wins,
    ),
    _recommended(
        id="application/force-alone",
        reads=(_OPTIONS,),
        title="Force needs Replace",
        explanation="Force deletes and recreates objects that are replaced; where nothing is replaced it does nothing.",
        bad=_with_policy("syncOptions: [Force=true]"),
        good=_with_policy("syncOptions: [Force=true, Replace=true]"),
        check=_force_alone,
    ),
    _recommended(
        id="application/retry-backoff",
        action=Action.DENY,
        refused_by_argocd=True,
        reads=("spec.syncPolicy.retry.backoff",),
        title="A backoff is a duration",
        explanation=(
            "duration and maxDuration are whole seconds or Go durations. Argo CD reads them when a sync has failed, "
            "and a text that it cannot read ends the retries."
        ),
        bad=_with_policy("retry: {limit: 3, backoff: {duration: 5 minutes}}"),
        good=_with_policy("retry: {limit: 3, backoff: {duration: 5m, maxDuration: '600'}}"),
        check=_retry_backoff,
    ),
)
