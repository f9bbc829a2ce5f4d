"""The installation id of Argo CD: generated once where nobody has objects without it yet."""

import uuid
from dataclasses import dataclass

from argocd import names, reading
from argocd.settings.argocd_cm import TrackingMethod, former_installation_ids, read_settings
from argocd.tracking.installation_ids import InstallationIdStep, next_step
from kube import queries
from kube.errors import ConflictError
from kube.resources import APPLICATIONS, CONFIG_MAPS
from kube.store import Object, PatchKind, Store
from webhook.admission.cluster_state import Scope
from webhook.admission.configuration_map import find_configuration

FORMER_IDS = 20
"""Kept in argocd-cm, the last of them: an object is synced again long before its id was replaced this often."""


@dataclass(frozen=True, slots=True)
class InstallationId:
    """`value` is None where the key is absent, empty where the admin opted out."""

    value: str | None
    applications: int


async def read_installation_id(store: Store, scope: Scope) -> tuple[InstallationId, Object | None]:
    held = await queries.find(store, CONFIG_MAPS, name=names.ARGOCD_CM, namespace=scope.argocd_namespace)
    data = reading.mapping(held, "data")
    value = reading.text(data, names.INSTALLATION_ID_KEY) if names.INSTALLATION_ID_KEY in data else None
    count = 0
    for namespace in (scope.argocd_namespace, *scope.application_namespaces):
        async for page in queries.pages(store, APPLICATIONS, namespace=namespace):
            count += len(page)
    return InstallationId(value=value, applications=count), held


async def read_tracking_method(store: Store, scope: Scope, held: Object) -> TrackingMethod:
    """With the method label Argo CD reads no id."""
    configuration = await find_configuration(store, home=scope.home, broken=lambda read, _problems: read)
    return read_settings(held, configuration=configuration).tracking_method


async def write_installation_id(store: Store, scope: Scope, held: Object) -> str:
    """A new id into argocd-cm, and beside it the one that it replaces: whoever meets that on an object can tell.

    Raises `ConflictError` if it changed since it was read.
    """
    fresh = str(uuid.uuid4())
    metadata: Object = {"resourceVersion": held["metadata"]["resourceVersion"]}
    if replaced := reading.text(held, "data", names.INSTALLATION_ID_KEY):
        former = [each for each in former_installation_ids(held) if each != replaced] + [replaced]
        kept = ",".join(former[-FORMER_IDS:])
        metadata["annotations"] = {names.TIPHYS_FORMER_INSTALLATION_IDS: kept}
    patch = {
        "metadata": metadata,
        "data": {names.INSTALLATION_ID_KEY: fresh},
    }
    await store.patch(
        CONFIG_MAPS, patch, name=names.ARGOCD_CM, namespace=scope.argocd_namespace, kind=PatchKind.MERGE
    )
    return fresh


async def ensure_installation_id(store: Store, scope: Scope) -> str:
    """What the leader does by itself; the line says what happened, empty if there was nothing to do."""
    configuration = await find_configuration(store, home=scope.home, broken=lambda _read, _problems: None)
    if configuration is None:  # nothing is written until somebody has mended it
        return ""
    found, held = await read_installation_id(store, scope)
    settings = read_settings(held, configuration=configuration)
    step = next_step(settings, configuration=configuration, application_count=found.applications)
    if step is InstallationIdStep.TELL:
        return (
            f"argocd-cm has no {names.INSTALLATION_ID_KEY}, and {found.applications} Applications exist:"
            " `tiphys installation-id ensure` tells what setting one means"
        )
    if step is not InstallationIdStep.GENERATE or held is None:
        return ""
    try:
        fresh = await write_installation_id(store, scope, held)
    except ConflictError:
        return await ensure_installation_id(store, scope)
    return f"generated the installation id {fresh}"
