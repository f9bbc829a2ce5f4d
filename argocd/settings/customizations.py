"""`resource.customizations` of argocd-cm, in one text or in keys of their own.

One that Argo CD cannot read makes it unable to read all of them, and with them every application's resources.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from argocd import charged_yaml
from argocd.go import strconv
from argocd.settings import value_forms
from argocd.spelling import did_you_mean

PREFIX = "resource.customizations"
_FIELDS = frozenset(
    {
        "health.lua",
        "health.lua.useOpenLibs",
        "actions",
        "ignoreDifferences",
        "ignoreResourceUpdates",
        "knownTypeFields",
    }
)
_IGNORING = ("jsonPointers", "jqPathExpressions", "managedFieldsManagers")
_PARTS = 3
"""Of a key after its first word: customizations, the type, and group and kind, which may have dots."""


def split_key_problems(key: str, text: str) -> Iterator[str]:
    """Of `resource.customizations.TYPE.GROUP_KIND` and its value."""
    parts = key.split(".", _PARTS)
    if len(parts) <= _PARTS or not parts[_PARTS]:
        yield "names no kind, and Argo CD passes it over"
        return
    kind, group_kind = parts[2], parts[_PARTS]
    read = _TYPES.get(kind)
    if read is None:
        known = ", ".join(_TYPES)
        yield f"is of the type {value_forms.shown(kind)}, which is none of {known}{did_you_mean(kind, _TYPES)}"
        return
    if group_kind.count("_") > 1:
        yield f"names {value_forms.shown(group_kind)}, which has more than one _ between group and kind"
    yield from read(text)


def whole_problems(text: str) -> Iterator[str]:
    """Of the value of `resource.customizations`: kinds, each with its customizations."""
    loaded, problem = _loaded(text, Mapping)
    if problem:
        yield problem
        return
    for kind, fields in loaded.items():
        if not isinstance(fields, Mapping):
            yield f"{value_forms.shown(str(kind))} holds no mapping"
            continue
        for name, value in fields.items():
            for found in _field_problems(str(name), value):
                yield f"{value_forms.shown(str(kind))}: {found}"


def _field_problems(name: str, value: Any) -> Iterator[str]:
    if name not in _FIELDS:
        yield f"{value_forms.shown(name)} is no customization{did_you_mean(name, _FIELDS)}"
    elif name in {"ignoreDifferences", "ignoreResourceUpdates"}:
        if isinstance(value, str):
            yield from _ignoring(value)
        else:
            yield f"{name} is no text (write | after it)"
    elif name in {"health.lua", "actions"} and not isinstance(value, str):
        yield f"{name} is no text (write | after it)"


def _loaded(text: str, wanted: type) -> tuple[Any, str]:
    what = "mapping" if wanted is Mapping else "list"
    try:
        loaded = charged_yaml.load(text)
    except charged_yaml.YamlError as error:
        return wanted, f"no YAML: {error}"
    if loaded is None:
        return {} if wanted is Mapping else [], ""
    return loaded, "" if isinstance(loaded, wanted) else f"no YAML {what}"


def _ignoring(text: str) -> Iterator[str]:
    loaded, problem = _loaded(text, Mapping)
    if problem:
        yield problem
        return
    for name, value in loaded.items():
        if name not in _IGNORING:
            yield f"{value_forms.shown(str(name))} says nothing that is ignored{did_you_mean(name, _IGNORING)}"
        elif not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            yield f"{name} is no list of texts"


def _list(text: str) -> Iterator[str]:
    _, problem = _loaded(text, list)
    yield from filter(None, [problem])


def _switch(text: str) -> Iterator[str]:
    if strconv.boolean(text) is None:
        yield f"{value_forms.shown(text)} is neither true nor false"


def _actions(text: str) -> Iterator[str]:
    loaded, problem = _loaded(text, Mapping)
    definitions = None if problem else loaded.get("definitions")
    if problem or (definitions is not None and not isinstance(definitions, list)):
        yield problem or "definitions is no list"


def _anything(_text: str) -> Iterator[str]:
    yield from ()


_TYPES: dict[str, Callable[[str], Iterator[str]]] = {
    "health": _anything,
    "useOpenLibs": _switch,
    "actions": _actions,
    "ignoreDifferences": _ignoring,
    "ignoreResourceUpdates": _ignoring,
    "knownTypeFields": _list,
}
