"""YAML inside of objects whose reading counts: a short text may have many values, and aliases make them more."""

from functools import partial
from typing import Any

import yaml

from argocd.budget import left, spend
from tiphys import safe_yaml
from tiphys.safe_yaml import HostileYamlError, YamlError

__all__ = ["HostileYamlError", "YamlError", "first_document", "load"]

_VALUE = 12
"""Steps for each value: it is counted, read, kept, built, and looked at by whoever asked."""
_NODE = 6
"""Steps for each value that is not built."""
_AT_ONCE = 16
"""Characters that one step takes, before it is known what they are."""


def load(text: str) -> Any:
    """As safe_yaml.load; the work ends where the budget does."""
    most = _affordable(text, _VALUE)
    return safe_yaml.load(text, most=most, charge=partial(_charge, _VALUE))


def first_document(text: str) -> yaml.Node | None:
    """As the first of safe_yaml.compose; None where there is no document."""
    most = _affordable(text, _NODE)
    return next(safe_yaml.compose(text, most=most, in_all=most, charge=partial(_charge, _NODE)), None)


def _affordable(text: str, each: int) -> int:
    """How many values may be read: with one more the budget is used up."""
    spend(len(text) // _AT_ONCE)
    return min(safe_yaml.MAX_NODES, left() // each + 1)


def _charge(each: int, values: int) -> None:
    spend(each * values)
