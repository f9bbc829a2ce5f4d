"""Which kind of rules an object is judged by."""

from collections.abc import Mapping
from typing import Any

from argocd import names, reading
from argocd.judging.case import Kind

_CONFIG_MAPS = {kind.value: kind for kind in (Kind.ARGOCD_CM, Kind.RBAC_CM, Kind.PARAMETERS_CM)}
_OWN = {kind.value: kind for kind in (Kind.PROJECT, Kind.APPLICATION, Kind.APPLICATION_SET)}


def kind_of(thing: Mapping[str, Any]) -> Kind:
    """A Secret is told by its label: any type but `cluster`, unknown ones too, is judged as a repository."""
    api_version, kind = reading.text(thing, "apiVersion"), reading.text(thing, "kind")
    if api_version.startswith(f"{names.GROUP}/"):
        return _OWN.get(kind, Kind.ANY)
    if api_version != "v1":
        return Kind.ANY
    if kind == "ConfigMap":
        return _CONFIG_MAPS.get(reading.text(thing, "metadata", "name"), Kind.ANY)
    if kind == "Secret" and names.SECRET_TYPE in reading.mapping(thing, "metadata", "labels"):
        secret_type = reading.text(thing, "metadata", "labels", names.SECRET_TYPE)
        return Kind.CLUSTER if secret_type == names.SECRET_TYPE_CLUSTER else Kind.REPOSITORY
    return Kind.ANY
