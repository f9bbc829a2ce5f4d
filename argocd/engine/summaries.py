"""What is kept of an object in memory: what rules ask of neighbours, and never a secret's data."""

from collections.abc import Iterator, Mapping
from sys import intern
from typing import Any

from argocd import names, reading
from argocd.settings import git_urls, secrets

Object = Mapping[str, Any]


def summarize(thing: Object) -> Object:
    """An object as caches keep it; call it while decoding, so that the rest is never held."""
    kind = reading.text(thing, "kind")
    if kind == "Application":
        return summarize_application(thing)
    if kind == "Secret":
        return summarize_secret(thing)
    return _lean(thing, "spec")


def summarize_application(application: Object) -> Object:
    """Metadata and spec whole, of the status only the keys of the resources that are not about to be pruned."""
    if "resources" in application:  # summarized before
        return application
    kept = _lean(application, "spec")
    kept["resources"] = tuple(_listed(application))
    return kept


def summarize_secret(secret: Object) -> dict[str, Any]:
    """Of a cluster: server, name, project, namespaces; of a repository: URL and project."""
    kept = _lean(secret)
    kind = secrets.secret_type(secret)
    if kind == names.SECRET_TYPE_CLUSTER:
        kept["cluster"] = {
            "server": secrets.server(secret),
            "name": secrets.value(secret, "name") or "",
            "project": secrets.value(secret, "project") or "",
            "namespaces": [
                found
                for part in (secrets.value(secret, "namespaces") or "").split(",")
                if (found := part.strip())
            ],
        }
    elif kind == names.SECRET_TYPE_REPOSITORY:
        url = secrets.value(secret, "url") or ""
        kept["repository"] = {
            "url": url,
            "normalized": git_urls.normalize(url),
            "project": secrets.value(secret, "project") or "",
        }
    return kept


def resource_key(group: str, kind: str, namespace: str, name: str) -> str:
    return f"{group}/{kind}/{namespace}/{name}"


def _lean(thing: Object, *sections: str) -> dict[str, Any]:
    metadata = reading.mapping(thing, "metadata")
    kept: dict[str, Any] = {
        key: metadata[key]
        for key in ("name", "namespace", "uid", "resourceVersion", "labels", "deletionTimestamp")
        if key in metadata
    }
    annotations = {
        key: value
        for key, value in reading.mapping(metadata, "annotations").items()
        if key != names.LAST_APPLIED  # a second copy of the whole object
    }
    if annotations:
        kept["annotations"] = annotations
    lean: dict[str, Any] = {
        key: intern(thing[key]) for key in ("apiVersion", "kind") if isinstance(thing.get(key), str)
    }
    lean["metadata"] = kept
    for section in sections:
        if section in thing:
            lean[section] = thing[section]
    return lean


def _listed(application: Object) -> Iterator[str]:
    for resource in reading.sequence(application, "status", "resources"):
        if reading.value(resource, "requiresPruning") is not True:
            yield resource_key(
                *(reading.text(resource, key) for key in ("group", "kind", "namespace", "name"))
            )
