"""The contract that the live and the embedded store keep; one suite of tests runs against both."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

Object = dict[str, Any]
"""A Kubernetes object as plain JSON; there are no generated models in this house."""

JsonPatch = list[Object]


@dataclass(frozen=True, slots=True)
class Resource:
    """What a URL of the API needs to know about a kind."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


@dataclass(frozen=True, slots=True)
class Identity:
    """A user as the API knows one: whom to impersonate, or who asked."""

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class PatchKind(StrEnum):
    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class WatchEventKind(StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One line of a watch; a bookmark's object carries only its resource version."""

    kind: WatchEventKind
    object: Object


@dataclass(frozen=True, slots=True)
class ListPage:
    """One page of a list: `continue_token` asks for the next, empty on the last."""

    items: list[Object] = field(default_factory=list)
    resource_version: str = ""
    continue_token: str = ""


def version_number(version: str) -> int:
    """Versions are numbers that grow (so every conformant API server since 1.35 promises); others do not order."""
    return int(version) if version.isascii() and version.isdigit() else 0


class Store(Protocol):
    """Every call raises `kube.errors.ApiError` or one of its kinds, nothing else.

    Objects come with `apiVersion` and `kind`, also those of a list, and belong to the caller. A body may
    leave both out. Where a write raises `UnavailableError` with `outcome_unknown`, read before trying again.
    """

    async def get(self, resource: Resource, *, name: str, namespace: str | None = None) -> Object: ...

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        limit: int | None = None,
        continue_token: str = "",
        metadata_only: bool = False,
    ) -> ListPage:
        """With `metadata_only` the server leaves out all but metadata: a Secret's data does not come here."""
        ...

    def watch(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str,
        metadata_only: bool = False,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Events after `resource_version`, bookmarks included; ends when the server closes the watch.

        Without a version, or with "0", every object there is comes first, as added. Raises `GoneError`
        where the version has been compacted away. Leave early through `contextlib.aclosing`.
        """
        ...

    async def create(
        self,
        resource: Resource,
        body: Object,
        *,
        namespace: str | None = None,
        field_manager: str = "tiphys",
        dry_run: bool = False,
    ) -> Object: ...

    async def replace(
        self,
        resource: Resource,
        body: Object,
        *,
        field_manager: str = "tiphys",
        dry_run: bool = False,
        subresource: str = "",
    ) -> Object:
        """Name and namespace are the body's; with a resourceVersion in it a lost race is a `ConflictError`."""
        ...

    async def patch(
        self,
        resource: Resource,
        patch: Object | JsonPatch,
        *,
        name: str,
        namespace: str | None = None,
        kind: PatchKind,
        field_manager: str = "tiphys",
        force: bool = False,
        dry_run: bool = False,
        subresource: str = "",
    ) -> Object: ...

    async def delete(
        self,
        resource: Resource,
        *,
        name: str,
        namespace: str | None = None,
        propagation: str = "",
        uid: str = "",
        resource_version: str = "",
        dry_run: bool = False,
    ) -> None:
        """`propagation` is Foreground, Background or Orphan; uid and resource_version are preconditions."""
        ...

    async def close(self) -> None: ...
