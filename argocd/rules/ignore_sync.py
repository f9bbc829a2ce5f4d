"""The label that keeps an object out of argocd-agent's sync."""

from collections.abc import Iterator
from functools import partial

from argocd import names
from argocd.agents import ignore_sync
from argocd.agents.ignore_sync import IgnoreSyncChange
from argocd.judging.case import Action, Case, Finding, Kind, Operation, Profile, Rule
from argocd.rules import examples

_LABEL = f"metadata.labels[{names.IGNORE_SYNC}]"


def _value(case: Case) -> Iterator[Finding]:
    label = ignore_sync.label_of(case.object)
    if label is not None and label not in ignore_sync.UNDERSTOOD:
        yield Finding(
            "ignore-sync/value",
            _LABEL,
            f"{label!r} does not keep argocd-agent from syncing this object: only the exact text true does",
            'Write "true", or remove the label.',
        )


def _no_effect(case: Case) -> Iterator[Finding]:
    if ignore_sync.is_ignored(case.object) and not ignore_sync.counts_for(case.object):
        yield Finding(
            "ignore-sync/no-effect",
            _LABEL,
            "argocd-agent does not look at this label here",
            "It counts on Applications, AppProjects, secrets of the types repository and repo-creds, and "
            f"{names.ARGOCD_GPG_KEYS_CM}.",
        )


def _added(case: Case) -> Iterator[Finding]:
    if ignore_sync.change(case.old, case.object) is IgnoreSyncChange.WITHDRAWN:
        yield Finding(
            "ignore-sync/added",
            _LABEL,
            "argocd-agent takes this for a deletion and removes the copies of this object on the other side",
            "Make sure that nothing there needs them; an Application's copy takes its objects along.",
        )


def _removed(case: Case) -> Iterator[Finding]:
    if ignore_sync.change(case.old, case.object) is IgnoreSyncChange.SYNCED:
        yield Finding(
            "ignore-sync/removed",
            _LABEL,
            "argocd-agent starts to sync this object at once, and may replace one of the same name on the other side",
            "Make sure that it is meant to be there.",
        )


_any_object = partial(
    Rule,
    kinds=frozenset({Kind.ANY}),
    profile=Profile.RECOMMENDED,
    action=Action.WARN,
    reads=(_LABEL,),
)


def _application(value: str) -> str:
    return examples.application(metadata=f"labels: {{{names.IGNORE_SYNC}: '{value}'}}" if value else "")


def _secret(kind: str, values: str) -> str:
    return examples.secret(kind=kind, values=values, labels=f"{names.IGNORE_SYNC}: 'true'")


RULES: tuple[Rule, ...] = (
    _any_object(
        id="ignore-sync/value",
        action=Action.DENY,
        title="ignore-sync is true or false",
        explanation=(
            "argocd-agent compares the label with true, letter by letter. Every other text, TRUE and an empty one "
            "among them, means that the object is synced."
        ),
        bad=_application("TRUE"),
        good=_application("true"),
        check=_value,
    ),
    _any_object(
        id="ignore-sync/no-effect",
        reads=(_LABEL, f"metadata.labels[{names.SECRET_TYPE}]", "metadata.name", "kind", "apiVersion"),
        needs=(_LABEL,),
        title="ignore-sync stands where argocd-agent looks",
        explanation="On other objects the label changes nothing; argocd-agent does not send most of them anyway.",
        bad=_secret("cluster", "server: https://east.example.com\nname: east"),
        good=_secret("repository", "url: https://git.example.com/shop.git"),
        check=_no_effect,
    ),
    _any_object(
        id="ignore-sync/added",
        title="Adding ignore-sync deletes copies",
        explanation=(
            "argocd-agent watches objects without the label: one that gets it disappears from its sight like one "
            "that was deleted, and is deleted on the other side."
        ),
        bad=_application("") + examples.BEFORE + _application("true"),
        good=_application("true") + examples.BEFORE + _application("true"),
        check=_added,
        operations=frozenset({Operation.UPDATE}),
    ),
    _any_object(
        id="ignore-sync/removed",
        title="Removing ignore-sync starts the sync",
        explanation="An object that loses the label appears to argocd-agent like one that was just created.",
        bad=_application("true") + examples.BEFORE + _application(""),
        good=_application("") + examples.BEFORE + _application(""),
        check=_removed,
        operations=frozenset({Operation.UPDATE}),
    ),
)
