"""Suites about tracking, resource filters and impersonation."""

from collections.abc import Iterable, Mapping
from typing import Any

from argocd import names
from argocd.impersonation import derivation
from argocd.kubernetes_names import is_dns_label
from argocd.settings import resource_filters
from argocd.settings.argocd_cm import ResourceFilter, Settings, TrackingMethod
from argocd.tracking import ids, marks

HEAD = (3, 6)
RELEASED = (3, 5, 1)
FORMAT_ERROR = (
    "wrong resource tracking format, should be <application-name>:<group>/<kind>:<namespace>/<name>"
)
"""Argo CD's words, which Tiphys never says."""


def _parse(text: str) -> dict[str, Any]:
    found = ids.parse_released(text)
    if found is None:
        return {"valid": False, "value": None, "error": FORMAT_ERROR}
    parts = ("application", "group", "kind", "namespace", "name")
    return {"valid": True, "value": {part: getattr(found, part) for part in parts}}


def _truncate(text: str) -> dict[str, Any]:
    try:
        return {"valid": True, "value": ids.truncate(text)}
    except ids.TruncationError as error:
        return {"valid": False, "value": "", "error": str(error)}


def _settings(given: Mapping[str, Any], *, method: str, installation_id: str | None) -> Settings:
    return Settings(
        tracking_method=TrackingMethod.of(method),
        instance_label=given.get("labelKey") or names.INSTANCE_LABEL,
        installation_id=installation_id,
    )


def _marked(thing: Mapping[str, Any], written: marks.TrackingMarks) -> dict[str, Any]:
    metadata = thing.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), **written.labels}
    annotations = {**(metadata.get("annotations") or {}), **written.annotations}
    return {**thing, "metadata": {**metadata, "labels": labels, "annotations": annotations}}


def _set_and_get(given: Mapping[str, Any]) -> dict[str, Any]:
    method, written_id = given["method"], given.get("installationID")
    writer = _settings(given, method=method, installation_id=written_id)
    reader = _settings(given, method=method, installation_id=given.get("readerInstallationID", written_id))
    try:
        written = marks.marks_for(
            given["object"],
            application=given["app"],
            settings=writer,
            destination_namespace=given.get("namespace", ""),
        )
    except ids.TruncationError as error:
        return {"error": str(error), "errorFull": str(error)}
    marked = _marked(given["object"], written)
    return {
        "labels": marked["metadata"]["labels"],
        "annotations": marked["metadata"]["annotations"],
        "getAppName": marks.application_of(marked, settings=reader, version=HEAD),
    }


def _remove(given: Mapping[str, Any]) -> dict[str, Any]:
    bare = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "my-service"}}
    writer = _settings(given, method=given["setMethod"], installation_id="some-installation-id")
    marked = _marked(bare, marks.marks_for(bare, application=given.get("app", "my-app"), settings=writer))
    # Argo CD takes away what the method that it has now would write.
    remover = _settings(given, method=given["removeMethod"], installation_id="some-installation-id")
    gone = marks.marks_for(bare, application="my-app", settings=remover)
    metadata = marked["metadata"]
    return {
        "removed": [
            *[key for key in metadata["annotations"] if key in gone.annotations],
            *[key for key in metadata["labels"] if key in gone.labels],
        ]
    }


def _self_reference(given: Mapping[str, Any]) -> dict[str, Any]:
    settings = _settings(given, method=given["method"], installation_id=given.get("installationID"))
    live, desired = given["live"], given["config"]
    if live and desired and settings.tracking_method is not TrackingMethod.LABEL:
        # What Argo CD wants there counts before the annotation; a webhook knows no desired object.
        return {"selfReferenced": ids.id_for(desired, application="").is_about(live)}
    return {"selfReferenced": marks.is_self_referencing(live, settings=settings, version=HEAD)}


def _installation_id(given: Mapping[str, Any]) -> dict[str, Any]:
    settings = Settings(installation_id=given["instanceInstallationID"])
    annotations = {names.TRACKING_ID: "app:/Service:/my-service"}
    if given["objectInstallationIDAnnotation"] is not None:
        annotations[names.INSTALLATION_ID] = given["objectInstallationIDAnnotation"]
    thing = {"metadata": {"annotations": annotations}}
    return {
        "tracked_in_2.13_to_3.5.1": bool(marks.tracking_id(thing, settings=settings, version=RELEASED)),
        "tracked_in_3.6": bool(marks.tracking_id(thing, settings=settings, version=HEAD)),
    }


def _instance_name(given: Mapping[str, str]) -> dict[str, Any]:
    return {
        "instance": ids.instance_name(
            given["name"], namespace=given["namespace"], argocd_namespace=given["controllerNamespace"]
        )
    }


def _instance_parse(given: Mapping[str, str]) -> dict[str, Any]:
    name, namespace = ids.split_instance(given["instance"], default_namespace=given["defaultNamespace"])
    return {"name": name, "namespace": namespace}


def _qualified_name(given: Mapping[str, str]) -> dict[str, Any]:
    default = given["defaultNamespace"]
    name, namespace = ids.split_qualified(given["qualified"], default_namespace=default)
    instance = ids.instance_name(name, namespace=namespace, argocd_namespace=default)
    return {"name": name, "namespace": namespace, "instance": instance}


def _resource_name(text: str) -> dict[str, Any]:
    return {"valid": is_dns_label(text)}


def _filter(entry: Mapping[str, Any]) -> ResourceFilter:
    return ResourceFilter(
        groups=tuple(entry.get("apiGroups") or ()),
        kinds=tuple(entry.get("kinds") or ()),
        clusters=tuple(entry.get("clusters") or ()),
    )


def _filter_match(given: Mapping[str, Any]) -> dict[str, Any]:
    group, kind, cluster = given["query"]
    return {"match": resource_filters.covers(_filter(given), group=group, kind=kind, cluster=cluster)}


def _filter_excluded(given: Mapping[str, Any]) -> dict[str, Any]:
    group, kind, cluster = given["query"]
    settings = Settings(
        exclusions=tuple(map(_filter, given["exclusions"])),
        inclusions=tuple(map(_filter, given["inclusions"])),
    )
    excluded = resource_filters.is_excluded(settings, group=group, kind=kind, cluster=cluster)
    return {"excluded": excluded}


def _account(
    entries: Iterable[Any], *, server: str, destination_namespace: str, application_namespace: str
) -> dict[str, Any]:
    found = derivation.derive(
        derivation.entries_in(entries),
        server=server,
        destination_namespace=destination_namespace,
        application_namespace=application_namespace,
    )
    if found.outcome is derivation.AccountOutcome.PANIC:
        return {"panic": found.error}
    if found.error:
        return {"user": "", "valid": False, "error": found.error, "errorFull": found.error}
    return {"user": found.user, "valid": True}


def _derive(given: Mapping[str, Any]) -> dict[str, Any]:
    return _account(
        given["destinationServiceAccounts"] or (),
        server=given["clusterServer"],
        destination_namespace=given["destinationNamespace"],
        application_namespace=given["appNamespace"],
    )


def _derive_for_application(given: Mapping[str, Any]) -> dict[str, Any]:
    return _account(
        given["project"]["spec"].get("destinationServiceAccounts") or (),
        server=given["cluster"]["server"],
        destination_namespace=(given["app"]["spec"].get("destination") or {}).get("namespace", ""),
        application_namespace=given["app"]["metadata"].get("namespace", ""),
    )


ANSWERS = {
    "tracking_parse": _parse,
    "derived_tracking_parse": lambda given: _parse(given["text"]),
    "tracking_truncate": _truncate,
    "derived_truncate": lambda given: _truncate(given["text"]),
    "tracking_set_get": _set_and_get,
    "tracking_remove": _remove,
    "tracking_self_reference": _self_reference,
    "derived_installation_id": _installation_id,
    "app_instance_name": _instance_name,
    "app_instance_parse": _instance_parse,
    "app_qualified_name": _qualified_name,
    "resource_name": _resource_name,
    "resource_filter_match": _filter_match,
    "resource_filter_excluded": _filter_excluded,
    "derive_sa_namespaces": _derive,
    "derive_sa_servers": _derive,
    "derive_sa_unit": _derive,
    "derived_derive_sa": _derive_for_application,
}
