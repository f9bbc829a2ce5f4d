"""What an API server refuses in the metadata of any object. There are no schemas here for the rest."""

import re
from typing import Any

from kube.errors import BadRequestError, InvalidError
from kube.resources import NAMESPACES
from kube.selectors import LABEL_KEY, LABEL_VALUE
from kube.store import Object, Resource

_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*\Z")
_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?\Z")
_LONGEST_NAME = 253
_LONGEST_LABEL = 63
_LARGEST_ANNOTATIONS = 256 * 1024


def check_metadata(resource: Resource, body: Object) -> None:
    metadata = body["metadata"]
    problems: list[str] = []
    name = metadata.get("name")
    rule, longest = (_LABEL, _LONGEST_LABEL) if resource == NAMESPACES else (_SUBDOMAIN, _LONGEST_NAME)
    if not isinstance(name, str) or len(name) > longest or not rule.match(name):
        problems.append(f"metadata.name: Invalid value: {str(name)[:longest]!r}")
    labels = _strings(metadata, "labels")
    problems += [f"metadata.labels: Invalid value: {key!r}" for key in labels if not LABEL_KEY.match(key)]
    problems += [
        f"metadata.labels: Invalid value: {value!r}"
        for value in labels.values()
        if not LABEL_VALUE.match(value)
    ]
    annotations = _strings(metadata, "annotations")
    problems += [
        f"metadata.annotations: Invalid value: {key!r}"
        for key in annotations
        if not LABEL_KEY.match(key.lower())
    ]
    if sum(len(key) + len(value) for key, value in annotations.items()) > _LARGEST_ANNOTATIONS:
        problems.append(f"metadata.annotations: Too long: may not be more than {_LARGEST_ANNOTATIONS} bytes")
    _check_lists(metadata)
    if problems:
        raise InvalidError(f"{resource.kind} {str(name)[:longest]!r} is invalid: {'; '.join(problems)}")


def _strings(metadata: Object, field: str) -> dict[str, str]:
    value: Any = metadata.get(field)
    if value is None:
        metadata.pop(field, None)
        return {}
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise BadRequestError(f"metadata.{field} is not a map of strings")
    return value


def _check_lists(metadata: Object) -> None:
    for field, kind in (("finalizers", str), ("ownerReferences", dict)):
        value = metadata.get(field)
        if value is None:
            metadata.pop(field, None)
        elif not isinstance(value, list) or not all(isinstance(item, kind) for item in value):
            raise BadRequestError(f"metadata.{field} is not a list of {kind.__name__}")
