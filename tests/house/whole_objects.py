"""Objects with an entry in every list that Argo CD's definitions know."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from argocd.applications.fields import types

LEAVES: Mapping[str, Any] = {"s": "a", "b": True, "i": 1, "n": 1, "x": 1, "*": {}}
INSIDE_OF_GENERATORS = ("template", "matrix", "merge")
"""Has the same lists as what is outside."""


@cache
def whole(kind: str) -> Any:
    parts = {
        part: _filled(types()[kind][part].type) for part in ("spec", "operation") if part in types()[kind]
    }
    return {"apiVersion": "argoproj.io/v1alpha1", "kind": kind, **parts}


def _filled(kind: str, *, without: tuple[str, ...] = ()) -> Any:
    name, _, choices = kind.partition("(")
    if name in LEAVES:
        return choices.rstrip(")").split("|")[0] or LEAVES[name]
    if kind.startswith("["):
        return [_filled(kind[1:-1], without=without)]
    if kind.startswith("{"):
        return {"a": _filled(kind[1:-1], without=without)}
    return {
        name: _filled(field.type, without=INSIDE_OF_GENERATORS if name == "generators" else without)
        for name, field in types()[kind].items()
        if name not in without or (kind == "Generators2" and name != "template")
    }


def completed(thing: Any, filling: Any) -> Any:
    """With what it lacks."""
    if not isinstance(thing, dict) or not isinstance(filling, dict):
        return thing
    return {
        **filling,
        **{key: completed(value, filling[key]) if key in filling else value for key, value in thing.items()},
    }
