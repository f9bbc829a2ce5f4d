"""The four sorts of objects that are kept in step: how each is called by Kubernetes, events and comparisons."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import orjson

from argocd import names
from argocd.agents.checksums import ChecksumError, spec_checksum
from argocd.agents.identity import source_uid
from argocd.agents.own_annotations import MARKS, annotations_without, requests_on
from argocd.agents.routing import AgentMapping
from argocd.agents.vocabulary import OBJECT_MESSAGES, TRACKED_AS, Message, Mode, Target
from argocd.reading import mapping, value
from kube.resources import APP_PROJECTS, APPLICATIONS, CONFIG_MAPS, SECRETS
from kube.store import Resource
from sidecars.wire.errors import MalformedError
from sidecars.wire.events import Event

RESTORED = "tiphysrestored"
"""An extension attribute: this operation may have been given before, by a principal that has restarted."""

DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class SyncedKind:
    target: Target
    resource: Resource
    content: str
    """The field that says what the object is."""

    @property
    def tracked(self) -> str:
        """How resync messages call it."""
        return TRACKED_AS[self.target]


PROJECT = SyncedKind(Target.PROJECT, APP_PROJECTS, "spec")
APPLICATION = SyncedKind(Target.APPLICATION, APPLICATIONS, "spec")
REPOSITORY = SyncedKind(Target.REPOSITORY, SECRETS, "data")
GPG_KEYS = SyncedKind(Target.GPG_KEYS, CONFIG_MAPS, "data")

KINDS = (PROJECT, APPLICATION, REPOSITORY, GPG_KEYS)
BY_TARGET: Mapping[str, SyncedKind] = {kind.target: kind for kind in KINDS}
BY_TRACKED: Mapping[str, SyncedKind] = {kind.tracked: kind for kind in KINDS}

REPOSITORIES = f"{names.SECRET_TYPE} in ({names.SECRET_TYPE_REPOSITORY},{names.SECRET_TYPE_REPO_CREDS})"
"""The label selector of the Secrets that may travel."""
GPG_KEYS_ONLY = f"metadata.name={names.ARGOCD_GPG_KEYS_CM}"


@dataclass(frozen=True, slots=True)
class Naming:
    """How two ends call the same object when they compare: without what differs between them.

    `namespace` is that at the principal; it counts for Applications only, where one agent's may have several.
    """

    mode: Mode
    mapped_by: AgentMapping

    @property
    def _with_namespace(self) -> bool:
        return self.mapped_by is AgentMapping.DESTINATION and self.mode is Mode.MANAGED

    def key(self, kind: SyncedKind, name: str, *, namespace: str = "") -> str:
        if kind is APPLICATION and self._with_namespace:
            return f"{kind.target}/{namespace}/{name}"
        return f"{kind.target}/{name}"

    def parsed(self, key: str) -> tuple[SyncedKind, str, str]:
        """Kind, name, and namespace or nothing."""
        target, _, rest = key.partition("/")
        kind = BY_TARGET.get(target)
        namespace, _, name = rest.rpartition("/")
        if kind is None or not name:
            raise MalformedError(f"{key[:80]!r} names nothing that is compared")
        return kind, name, namespace


def message_of(event: Event) -> Message:
    message = OBJECT_MESSAGES.get(event.type)
    if message is None:
        raise MalformedError(f"{event.type[:80]!r} says nothing that can happen to a {event.target}")
    return message


def digest(kind: SyncedKind, item: Mapping[str, Any], *, with_status: bool = False) -> bytes:
    """Of all that its source tells of an object, so that equal digests mean that nothing need be told."""
    resource_kind = {"kind": kind.resource.kind}
    try:
        content = spec_checksum({**item, **resource_kind}).hex()
    except ChecksumError:
        content = ""
    told = [
        content,
        source_uid(item),
        mapping(item, "metadata", "labels"),
        annotations_without(item, MARKS),
        # The two ends' names of a cluster differ, not the namespace in it.
        value(item, "spec", "destination", "namespace"),
        # On a principal no controller would remove a project's: they are not kept there.
        [] if kind is PROJECT else value(item, "metadata", "finalizers") or [],
        value(item, "metadata", "deletionTimestamp") is not None,
        [value(item, "status"), value(item, "operation")] if with_status else None,
    ]
    return blake2b(
        orjson.dumps(told, option=orjson.OPT_SORT_KEYS), digest_size=DIGEST_BYTES, person=b"told"
    ).digest()


def status_digest(application: Mapping[str, Any]) -> bytes:
    """Of what a managed agent tells of an Application."""
    told = [
        value(application, "status"),
        value(application, "operation"),
        requests_on(application),
    ]
    return blake2b(
        orjson.dumps(told, option=orjson.OPT_SORT_KEYS), digest_size=DIGEST_BYTES, person=b"status"
    ).digest()


def operation_digest(application: Mapping[str, Any]) -> str:
    told = orjson.dumps(value(application, "operation"), option=orjson.OPT_SORT_KEYS)
    return blake2b(told, digest_size=DIGEST_BYTES, person=b"operation").hexdigest()
