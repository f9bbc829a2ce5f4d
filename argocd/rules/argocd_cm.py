"""argocd-cm: settings that Argo CD ignores or misreads, and changes that reach every application."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from argocd import charged_yaml, names, reading
from argocd.judging.case import Action, Case, Finding, Kind, Operation, Profile, Rule
from argocd.judging.configuration import Behaviour, TrackingFormat
from argocd.rules import examples
from argocd.settings.argocd_cm import (
    ENFORCED_KEY_SINCE,
    IMPERSONATION_SINCE,
    TrackingMethod,
    former_installation_ids,
    read_settings,
)
from argocd.settings.keys import keys_of
from argocd.tracking.marks import INSTALLATION_ID_FIXED

_SWITCHES = tuple(key for key, known in keys_of(names.ARGOCD_CM).exact.items() if known.form == "switch")
_YAML_KEYS: Mapping[str, type] = {
    names.RESOURCE_EXCLUSIONS_KEY: list,
    names.RESOURCE_INCLUSIONS_KEY: list,
    names.GLOBAL_PROJECTS_KEY: list,
    "additionalUrls": list,
    "application.links": list,
    "project.links": list,
    "resource.links": list,
    "resource.compareoptions": dict,
    "extension.config": dict,
}
_METHODS = ("annotation", "annotation+label", "label")


def _at(key: str) -> str:
    return f"data[{key}]"


def _data(thing: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return reading.mapping(thing, "data")


def _tracking_method(case: Case) -> Iterator[Finding]:
    text = reading.text(_data(case.object), names.TRACKING_METHOD_KEY)
    if text and (TrackingMethod.of(text) is TrackingMethod.UNKNOWN):
        yield Finding(
            "settings/tracking-method",
            _at(names.TRACKING_METHOD_KEY),
            f"Argo CD has no tracking method {text!r}: it writes annotations and trusts every one that it finds",
            f"Use {', '.join(_METHODS)}.",
        )


def _switch(case: Case) -> Iterator[Finding]:
    data = _data(case.object)
    for key in _SWITCHES:
        text = reading.text(data, key)
        if text and text not in {"true", "false"}:
            yield Finding(
                "settings/switch",
                _at(key),
                f"{text!r} is neither true nor false, and Argo CD takes its default",
                "Write true or false, in lower case.",
            )


def _ignored_key(case: Case) -> Iterator[Finding]:
    data = _data(case.object)
    configuration = case.surroundings.configuration
    version = configuration.argocd.version
    released = "Argo CD never reads this key; it comes from a proposal"
    ignored = (
        (
            names.PROPOSED_IMPERSONATION_KEY,
            configuration.impersonation.behaviour is not Behaviour.PROPOSAL,
            released,
            f"Use {names.IMPERSONATION_ENABLED_KEY}.",
        ),
        (
            names.PROPOSED_TRACKING_METHOD_KEY,
            configuration.tracking.format is TrackingFormat.RELEASED,
            released,
            f"Use {names.TRACKING_METHOD_KEY}.",
        ),
        (
            names.IMPERSONATION_ENABLED_KEY,
            version < IMPERSONATION_SINCE,
            "this Argo CD cannot impersonate and ignores the key",
            "Impersonation came with Argo CD 2.13.",
        ),
        (
            names.IMPERSONATION_ENFORCED_KEY,
            version < ENFORCED_KEY_SINCE,
            "this Argo CD ignores the key: without a matching account a sync always fails",
            "The key came with Argo CD 3.5.",
        ),
    )
    for key, applies, message, hint in ignored:
        if applies and key in data:
            yield Finding("settings/ignored-key", _at(key), message, hint)


def _unreadable(case: Case) -> Iterator[Finding]:
    data = _data(case.object)
    for key, wanted in _YAML_KEYS.items():
        text = reading.text(data, key)
        if text and not _is_yaml(text, wanted):
            kind = "list" if wanted is list else "mapping"
            yield Finding(
                "settings/unreadable",
                _at(key),
                f"the value is no YAML {kind}, and Argo CD cannot read its settings",
                "Correct the YAML.",
            )


def _is_yaml(text: str, wanted: type) -> bool:
    try:
        loaded = charged_yaml.load(text)
    except charged_yaml.YamlError:
        return False
    return loaded is None or isinstance(loaded, wanted)


def _installation_id(case: Case) -> Iterator[Finding]:
    if case.old is None or case.surroundings.neighbours.application_count() == 0:
        return
    before = reading.text(_data(case.old), names.INSTALLATION_ID_KEY)
    after = reading.text(_data(case.object), names.INSTALLATION_ID_KEY)
    configuration = case.surroundings.configuration
    if read_settings(case.object, configuration=configuration).tracking_method is TrackingMethod.LABEL:
        return  # Argo CD reads no id then
    if before and not after and configuration.argocd.version >= INSTALLATION_ID_FIXED:
        yield Finding(
            "settings/installation-id",
            _at(names.INSTALLATION_ID_KEY),
            "without an installation id the objects of other installations count as this one's too, and may be pruned",
            "Keep the id while another Argo CD manages one of the same clusters.",
        )
    elif before != after:
        noted = not (before and after) or before in former_installation_ids(case.object)
        note = (
            ""
            if noted
            else f" Annotate argocd-cm with {names.TIPHYS_FORMER_INSTALLATION_IDS}: {before} first, else those syncs are"
            " refused (`tiphys installation-id ensure --renew` does both)."
        )
        yield Finding(
            "settings/installation-id",
            _at(names.INSTALLATION_ID_KEY),
            "with another installation id every object counts as untracked until its application is synced again",
            "Sync all applications afterwards; until then nothing is pruned and deletions leave objects behind."
            + note,
        )


def _instance_label(case: Case) -> Iterator[Finding]:
    if case.old is None:
        return
    configuration = case.surroundings.configuration
    before, after = (
        read_settings(
            {"data": {key: _data(thing).get(key) for key in (names.INSTANCE_LABEL_KEY,)}},
            configuration=configuration,
        ).instance_label
        for thing in (case.old, case.object)
    )
    if before != after:
        yield Finding(
            "settings/instance-label",
            _at(names.INSTANCE_LABEL_KEY),
            f"objects are labelled with {after} instead of {before}; where labels decide, none is tracked until its "
            "application is synced again",
            "Sync all applications afterwards, and remove the old label by hand.",
        )


def _global_project(case: Case) -> Iterator[Finding]:
    text = reading.text(_data(case.object), names.GLOBAL_PROJECTS_KEY)
    if not text:
        return
    settings = read_settings(
        {"data": {names.GLOBAL_PROJECTS_KEY: text}},
        configuration=case.surroundings.configuration,
    )
    for entry in settings.global_projects:
        if case.surroundings.neighbours.project(entry.project) == {}:
            yield Finding(
                "settings/global-project",
                _at(names.GLOBAL_PROJECTS_KEY),
                f"the global project {entry.project} does not exist: this entry and those after it have no effect",
                "Create the project in Argo CD's namespace, or remove the entry.",
            )


_rule = partial(
    Rule,
    kinds=frozenset({Kind.ARGOCD_CM}),
    profile=Profile.RECOMMENDED,
    action=Action.DENY,
)


def _cm(key: str, value: str) -> str:
    return examples.argocd_cm(f"{key}: {value}")


_GLOBAL = """
globalProjects: |
  - projectName: {project}
    labelSelector: {{matchLabels: {{team: shop}}}}
"""
_PROJECT = examples.project(name="base", spec="sourceRepos: ['*']") + examples.BEFORE

_NAMED = examples.application() + examples.BEFORE + _cm(names.INSTALLATION_ID_KEY, "east") + examples.BEFORE

RULES: tuple[Rule, ...] = (
    _rule(
        id="settings/tracking-method",
        reads=(_at(names.TRACKING_METHOD_KEY),),
        title="The tracking method is one of three",
        explanation="Another text is no error to Argo CD: it half works like annotation, and copies are taken for originals.",
        bad=_cm(names.TRACKING_METHOD_KEY, "label+annotation"),
        good=_cm(names.TRACKING_METHOD_KEY, "annotation+label"),
        check=_tracking_method,
    ),
    _rule(
        id="settings/switch",
        reads=tuple(_at(key) for key in _SWITCHES),
        title="Switches are true or false",
        explanation="Argo CD compares with one exact text, so True or yes leaves impersonation off without a word.",
        bad=_cm(names.IMPERSONATION_ENABLED_KEY, "'True'"),
        good=_cm(names.IMPERSONATION_ENABLED_KEY, "'true'"),
        check=_switch,
    ),
    _rule(
        id="settings/ignored-key",
        reads=tuple(
            _at(key)
            for key in (
                names.PROPOSED_IMPERSONATION_KEY,
                names.PROPOSED_TRACKING_METHOD_KEY,
                names.IMPERSONATION_ENABLED_KEY,
                names.IMPERSONATION_ENFORCED_KEY,
            )
        ),
        title="Settings are those that this Argo CD reads",
        explanation=(
            "Proposals named the switches of impersonation and tracking otherwise than they were released, and older "
            "versions know fewer of them. A key that is not read leaves the feature off while somebody relies on it."
        ),
        bad=_cm(names.PROPOSED_IMPERSONATION_KEY, "'true'"),
        good=_cm(names.IMPERSONATION_ENABLED_KEY, "'true'"),
        check=_ignored_key,
    ),
    _rule(
        id="settings/unreadable",
        reads=tuple(_at(key) for key in _YAML_KEYS),
        title="Lists and mappings in argocd-cm are YAML",
        explanation=(
            "resource.exclusions, resource.inclusions, globalProjects, additionalUrls and the links hold YAML lists as "
            "text, resource.compareoptions and extension.config mappings."
        ),
        bad=_cm(names.RESOURCE_EXCLUSIONS_KEY, "'kinds: [Lease'"),
        good=_cm(names.RESOURCE_EXCLUSIONS_KEY, "'[{kinds: [Lease]}]'"),
        check=_unreadable,
    ),
    _rule(
        id="settings/installation-id",
        action=Action.WARN,
        reads=(_at(names.INSTALLATION_ID_KEY),),
        title="The installation id stays",
        explanation=(
            "The id is written beside every tracking id; objects with another one are not Argo CD's own. With the "
            "method label Argo CD neither writes nor reads it."
        ),
        bad=_NAMED + _cm(names.INSTALLATION_ID_KEY, "west"),
        good=_NAMED + _cm(names.INSTALLATION_ID_KEY, "east"),
        check=_installation_id,
        operations=frozenset({Operation.UPDATE}),
    ),
    _rule(
        id="settings/instance-label",
        action=Action.WARN,
        reads=(_at(names.INSTANCE_LABEL_KEY),),
        title="The instance label stays",
        explanation=(
            "With the method label the key decides which objects belong to an application. With annotation+label it is "
            "written for other tools, and the annotation decides."
        ),
        bad=_cm(names.INSTANCE_LABEL_KEY, names.INSTANCE_LABEL)
        + examples.BEFORE
        + _cm(names.INSTANCE_LABEL_KEY, "argocd.argoproj.io/instance"),
        good=_cm(names.INSTALLATION_ID_KEY, "east")
        + examples.BEFORE
        + examples.argocd_cm(f"installationID: east\n{names.INSTANCE_LABEL_KEY}: {names.INSTANCE_LABEL}"),
        check=_instance_label,
        operations=frozenset({Operation.UPDATE}),
    ),
    _rule(
        id="settings/global-project",
        action=Action.WARN,
        neighbours=True,
        reads=(_at(names.GLOBAL_PROJECTS_KEY),),
        title="Global projects exist",
        explanation="Argo CD stops at the first global project that it cannot find and adds none of those after it.",
        bad=_PROJECT + examples.argocd_cm(_GLOBAL.format(project="bass")),
        good=_PROJECT + examples.argocd_cm(_GLOBAL.format(project="base")),
        check=_global_project,
    ),
)
