"""A write on its way through the embedded store: lock, rules, admission, ownership, revision."""

import random as randomness
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kube.embedded import drafts
from kube.embedded.drafts import Draft
from kube.embedded.history import History
from kube.embedded.hooks import AdmissionOperation, AdmissionRequest, Hooks
from kube.embedded.managed_fields import Owners
from kube.embedded.traits import Traits, complete, traits_of
from kube.embedded.watches import Record
from kube.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
)
from kube.requests import copied
from kube.resources import NAMESPACES
from kube.selectors import LABEL_KEY, LABEL_VALUE
from kube.store import Identity, Object, Resource

# A write that meets another one while admission thinks tries again this often, as an API server does.
_MOST_TRIES = 5
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_FINALIZERS_OF_PROPAGATION = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*\Z")
_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?\Z")
_LONGEST_NAME = 253
_LONGEST_LABEL = 63
_LARGEST_ANNOTATIONS = 256 * 1024


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """Who writes, and how."""

    identity: Identity
    manager: str = "tiphys"
    subresource: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Deletion:
    propagation: str = ""
    uid: str = ""
    resource_version: str = ""


class Pipeline:
    def __init__(
        self,
        *,
        history: History,
        hooks: Hooks,
        clock: Callable[[], datetime],
        random: randomness.Random,
        with_status: frozenset[Resource],
    ) -> None:
        self._history = history
        self._hooks = hooks
        self._clock = clock
        self._random = random
        self._with_status = with_status

    def find(self, resource: Resource, namespace: str | None, name: str) -> Record:
        record = self._history.collection(resource).find(namespace or "", name)
        if record is None:
            group = f".{resource.group}" if resource.group else ""
            raise NotFoundError(f'{resource.plural}{group} "{name}" not found')
        return record

    def _is_current(self, resource: Resource, record: Record) -> bool:
        return self._history.collection(resource).find(record.namespace, record.name) is record

    def traits(self, resource: Resource, writer: WriteRequest) -> Traits:
        traits = traits_of(resource, with_status=self._with_status)
        if writer.subresource and not (writer.subresource == "status" and traits.status):
            raise NotFoundError(f"{resource.plural} have no subresource {writer.subresource!r}")
        return traits

    def now(self) -> str:
        return self._clock().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def draft(self, resource: Resource, body: Object, *, namespace: str | None) -> Draft:
        """A new object before anybody has looked at it."""
        body = drafts.fresh(
            body,
            namespace=namespace,
            traits=traits_of(resource, with_status=self._with_status),
            uid=str(uuid.UUID(int=self._random.getrandbits(128), version=4)),
            suffix="".join(self._random.choices(_SUFFIX_LETTERS, k=_SUFFIX_LENGTH)),
            time=self.now(),
        )
        complete(resource, body)
        return Draft(body, Owners(None), base=None)

    async def create(self, resource: Resource, draft: Draft, writer: WriteRequest) -> Object:
        metadata = draft.body["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        self._check_namespace(resource, namespace)
        body = await self._admitted(AdmissionOperation.CREATE, resource, None, draft.body, writer)
        identity = ("name", "namespace", "uid", "creationTimestamp")  # not admission's to change
        body["metadata"] |= {key: metadata[key] for key in identity if key in metadata}
        self._check_namespace(resource, namespace)  # admission may have taken its time
        if self._history.collection(resource).find(namespace, name) is not None:
            raise AlreadyExistsError(f'{resource.plural} "{name}" already exists')
        self._own(draft, body, writer)
        _check_metadata(resource, body)
        if writer.dry_run:
            return copied(body)
        return self._history.write(resource, body).decoded()

    async def update(
        self,
        resource: Resource,
        *,
        namespace: str | None,
        name: str,
        draft: Callable[[Object], Draft],
        writer: WriteRequest,
    ) -> Object:
        """`draft` makes the new object of the old one and leaves that as it is; again, if another write comes between."""
        traits = self.traits(resource, writer)
        for _ in range(_MOST_TRIES):
            record = self.find(resource, namespace, name)
            old = record.decoded()
            drafted = draft(old)
            new = drafts.revised(resource, old, drafted.body, traits=traits, subresource=writer.subresource)
            complete(resource, new)
            admitted = await self._admitted(AdmissionOperation.UPDATE, resource, old, new, writer)
            if admitted is not new:
                new = drafts.revised(resource, old, admitted, traits=traits, subresource=writer.subresource)
            drafts.count_generation(old, new, traits=traits)
            self._own(drafted, new, writer)
            _check_metadata(resource, new)
            if self._is_current(resource, record):
                return self._commit(resource, old, new, record, writer)
        raise ConflictError(f'{resource.plural} "{name}": other writes came between {_MOST_TRIES} times')

    def _commit(
        self, resource: Resource, old: Object, new: Object, record: Record, writer: WriteRequest
    ) -> Object:
        if writer.dry_run:
            return copied(new)
        if new == old:
            return record.decoded()  # a write that changes nothing is none: no revision, no event
        if self._is_finished(resource, new):
            return self._remove(resource, new).decoded()
        return self._history.write(resource, new).decoded()

    @staticmethod
    def _is_finished(resource: Resource, body: Object) -> bool:
        metadata = body["metadata"]
        held = metadata.get("finalizers") or (
            resource == NAMESPACES and body.get("spec", {}).get("finalizers")
        )
        return bool(metadata.get("deletionTimestamp")) and not held

    async def delete(
        self,
        resource: Resource,
        *,
        namespace: str | None,
        name: str,
        deletion: Deletion,
        writer: WriteRequest,
    ) -> None:
        for _ in range(_MOST_TRIES):
            record = self.find(resource, namespace, name)
            old = record.decoded()
            self._check_preconditions(resource, old, deletion)
            await self._admitted(AdmissionOperation.DELETE, resource, old, None, writer)
            if self._is_current(resource, record):
                if not writer.dry_run:
                    self._delete(resource, old, propagation=deletion.propagation)
                return
        raise ConflictError(f'{resource.plural} "{name}": other writes came between {_MOST_TRIES} times')

    @staticmethod
    def _check_preconditions(resource: Resource, old: Object, deletion: Deletion) -> None:
        for field, wanted in (("uid", deletion.uid), ("resourceVersion", deletion.resource_version)):
            if wanted and wanted != old["metadata"][field]:
                raise ConflictError(
                    f'{resource.plural} "{old["metadata"]["name"]}": Precondition failed: {field} is '
                    f"{old['metadata'][field]}, not {wanted}"
                )

    def _delete(self, resource: Resource, old: Object, *, propagation: str) -> None:
        finalizers = list(old["metadata"].get("finalizers") or ())
        extra = _FINALIZERS_OF_PROPAGATION.get(propagation)
        if extra and extra not in finalizers and not old["metadata"].get("deletionTimestamp"):
            finalizers.append(extra)
        if resource == NAMESPACES:
            self._empty_namespace(old, finalizers=finalizers)
        elif not finalizers:
            self._remove(resource, old)
        elif not old["metadata"].get("deletionTimestamp"):
            marked = drafts.marked_for_deletion(old, finalizers=finalizers, time=self.now())
            self._history.write(resource, marked)

    def _remove(self, resource: Resource, last: Object) -> Record:
        record = self._history.remove(resource, last)
        if record.namespace:
            self._finish_namespace(record.namespace)
        return record

    def _empty_namespace(self, old: Object, *, finalizers: list[str]) -> None:
        """What the namespace controller of a whole cluster does, at once."""
        name = old["metadata"]["name"]
        if not old["metadata"].get("deletionTimestamp"):
            marked = drafts.marked_for_deletion(old, finalizers=finalizers, time=self.now())
            self._history.write(NAMESPACES, {**marked, "status": {"phase": "Terminating"}})
        for resource, collection in self._history.collections():
            for record in collection.records(name) if resource.namespaced else ():
                self._delete(resource, record.decoded(), propagation="")
        self._finish_namespace(name)

    def _finish_namespace(self, name: str) -> None:
        """A namespace that is being deleted goes when its last object has gone."""
        record = self._history.collection(NAMESPACES).find("", name)
        if record is None or b'"deletionTimestamp"' not in record.raw:
            return
        if any(collection.objects.get(name) for _, collection in self._history.collections()):
            return
        last = record.decoded()
        if last["metadata"].get("deletionTimestamp") and not last["metadata"].get("finalizers"):
            self._history.remove(NAMESPACES, last)

    def _check_namespace(self, resource: Resource, namespace: str) -> None:
        if not resource.namespaced:
            return
        home = self.find(NAMESPACES, None, namespace)
        if b'"deletionTimestamp"' in home.raw and home.decoded()["metadata"].get("deletionTimestamp"):
            raise ForbiddenError(
                f"namespace {namespace} is being terminated: nothing new can be created in it"
            )

    async def _admitted(
        self,
        operation: AdmissionOperation,
        resource: Resource,
        old: Object | None,
        new: Object | None,
        writer: WriteRequest,
    ) -> Object:
        subject = new if new is not None else old
        assert subject is not None
        if self._hooks.admission is None:
            return subject
        answer = await self._hooks.admission(
            AdmissionRequest(
                operation=operation,
                resource=resource,
                subresource=writer.subresource,
                namespace=subject["metadata"].get("namespace", ""),
                name=subject["metadata"]["name"],
                old=copied(old),
                new=copied(new),
                user=writer.identity,
                dry_run=writer.dry_run,
            )
        )
        for warning in answer.warnings if self._hooks.on_warning else ():
            self._hooks.on_warning(warning)  # type: ignore[misc]  # the line above asked
        if answer.body is None or new is None:
            return subject
        if not isinstance(answer.body.get("metadata"), dict):
            raise BadRequestError("admission answered with something that is no object")
        return copied(answer.body)

    def _own(self, draft: Draft, body: Object, writer: WriteRequest) -> None:
        draft.owners.update(
            draft.base, body, manager=writer.manager, subresource=writer.subresource, time=self.now()
        )
        body["metadata"]["managedFields"] = draft.owners.entries()


def _check_metadata(resource: Resource, body: Object) -> None:
    """What an API server refuses in the metadata of any object. There are no schemas here for the rest."""
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
