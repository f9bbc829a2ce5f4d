"""The store in this process: a demonstration's cluster, a simulation's API server, a unit test's fixture."""

import copy
import random as randomness
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from datetime import UTC, datetime

from kube.embedded import drafts
from kube.embedded.drafts import Draft
from kube.embedded.history import History
from kube.embedded.hooks import Call, Hooks, Phase
from kube.embedded.managed_fields import Owners
from kube.embedded.pipeline import Deletion, Pipeline, WriteRequest
from kube.embedded.traits import WITH_STATUS
from kube.embedded.watches import Selection, Watcher
from kube.errors import ApiError, BadRequestError, ConflictError, NotFoundError
from kube.patches import apply_json_patch, apply_merge_patch
from kube.requests import (
    address_of,
    check_scope,
    check_segment,
    copied,
    decode,
    encode,
    metadata_of,
    typed,
    typed_for_apply,
    typed_for_creation,
)
from kube.resources import NAMESPACES, SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS
from kube.selectors import parse_fields, parse_labels
from kube.store import Identity, JsonPatch, ListPage, Object, PatchKind, Resource, WatchEvent

# As an API server does: about once a minute. Timers follow the event loop, so virtual time works.
BOOKMARK_EVERY = 60.0
ADMIN = Identity("kubernetes-admin", ("system:masters", "system:authenticated"))


class EmbeddedStore:
    """For one event loop. The package says what it does not do."""

    def __init__(
        self,
        *,
        namespaces: Iterable[str] = (),
        hooks: Hooks | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        random: randomness.Random | None = None,
        history: int = 10_000,
        watch_backlog: int = 10_000,
        bookmark_every: float = BOOKMARK_EVERY,
        with_status: frozenset[Resource] = WITH_STATUS,
    ) -> None:
        """`history` is how many changes of a kind a watch can resume over, `watch_backlog` how many events
        may wait for one reader; with a seeded `random` uids and generated names repeat.
        """
        self.hooks = hooks or Hooks()
        self.identity = ADMIN
        self._history = History(length=history)
        self._pipeline = Pipeline(
            history=self._history,
            hooks=self.hooks,
            clock=clock,
            random=random or randomness.Random(),  # noqa: S311  uids must differ, not be secret
            with_status=with_status,
        )
        self._watch_backlog = watch_backlog
        self._bookmark_every = bookmark_every
        for name in dict.fromkeys(("default", "kube-system", *namespaces)):
            body = typed(NAMESPACES, {"metadata": {"name": name}})
            self._history.write(NAMESPACES, self._pipeline.draft(NAMESPACES, body, namespace=None).body)

    def as_user(self, identity: Identity) -> "EmbeddedStore":
        """The same store as another user: admission is told so. There are no permissions here."""
        face = copy.copy(self)
        face.identity = identity
        return face

    @property
    def resource_version(self) -> str:
        return str(self._history.revision)

    def compact(self) -> None:
        """Watches and continue tokens from before now get 410 from now on."""
        self._history.compact()

    def cut_watches(self, error: ApiError | None = None) -> None:
        """Ends every watch, or makes it raise the error, after what it still has to deliver."""
        for _, collection in self._history.collections():
            for watcher in collection.watchers.all():
                watcher.end(error)

    def send_bookmarks(self) -> None:
        """To every watch that is waiting, now."""
        for _, collection in self._history.collections():
            for watcher in collection.watchers.all():
                watcher.rouse()

    async def close(self) -> None:
        self.cut_watches()

    async def get(self, resource: Resource, *, name: str, namespace: str | None = None) -> Object:
        namespace = check_scope(resource, namespace)
        check_segment(name, what="the name")
        await self._strike("get", resource, namespace, name)
        return self._pipeline.find(resource, namespace, name).decoded()

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
        selection = _selection(resource, namespace, label_selector, field_selector)
        await self._strike("list", resource, namespace, "")
        page = self._history.page(resource, selection=selection, limit=limit, continue_token=continue_token)
        if not metadata_only:
            return page
        return ListPage(
            [_metadata_of(item) for item in page.items], page.resource_version, page.continue_token
        )

    async def watch(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str,
        metadata_only: bool = False,
    ) -> AsyncGenerator[WatchEvent, None]:
        selection = _selection(resource, namespace, label_selector, field_selector)
        await self._strike("watch", resource, namespace, "")
        watcher = Watcher(selection, limit=self._watch_backlog)
        watcher.preload(self._history.since(resource, resource_version))
        watchers = self._history.collection(resource).watchers
        watchers.add(watcher)
        events = watcher.events(bookmark_every=self._bookmark_every, revision=lambda: self._history.revision)
        try:
            async with aclosing(events):
                async for event in events:
                    yield WatchEvent(event.kind, _metadata_of(event.object)) if metadata_only else event
        finally:
            watchers.discard(watcher)

    async def create(
        self,
        resource: Resource,
        body: Object,
        *,
        namespace: str | None = None,
        field_manager: str = "tiphys",
        dry_run: bool = False,
    ) -> Object:
        body, namespace = typed_for_creation(resource, copied(body), namespace=namespace)
        await self._strike("create", resource, namespace, body["metadata"].get("name", ""))
        if resource == SUBJECT_ACCESS_REVIEWS:
            allowed = self.hooks.access is not None and self.hooks.access(body.get("spec", {}))
            return {**body, "status": {"allowed": allowed}}
        if resource == TOKEN_REVIEWS:
            known = self.hooks.tokens(body.get("spec", {})) if self.hooks.tokens is not None else {}
            return {**body, "status": known}
        draft = self._pipeline.draft(resource, body, namespace=namespace)
        writer = WriteRequest(self.identity, field_manager, dry_run=dry_run)
        created = await self._pipeline.create(resource, draft, writer)
        await self._strike("create", resource, namespace, created["metadata"]["name"], Phase.AFTER)
        return created

    async def replace(
        self,
        resource: Resource,
        body: Object,
        *,
        field_manager: str = "tiphys",
        dry_run: bool = False,
        subresource: str = "",
    ) -> Object:
        raw = encode(typed(resource, body))
        namespace, name = address_of(resource, body)
        await self._strike("replace", resource, namespace, name)
        writer = WriteRequest(self.identity, field_manager, subresource, dry_run)
        traits = self._pipeline.traits(resource, writer)

        def draft(old: Object) -> Draft:
            new = decode(raw)
            drafts.check_race(resource, old, new, traits=traits)
            return Draft(new, Owners(old), base=old)

        updated = await self._pipeline.update(
            resource, namespace=namespace, name=name, draft=draft, writer=writer
        )
        await self._strike("replace", resource, namespace, name, Phase.AFTER)
        return updated

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
    ) -> Object:
        namespace = check_scope(resource, namespace)
        check_segment(name, what="the name")
        raw = encode(patch)
        await self._strike("patch", resource, namespace, name)
        writer = WriteRequest(self.identity, field_manager, subresource, dry_run)
        if kind is PatchKind.APPLY:
            patched = await self._apply(resource, decode(raw), name, namespace, force=force, writer=writer)
        else:
            change = apply_json_patch if kind is PatchKind.JSON else apply_merge_patch
            traits = self._pipeline.traits(resource, writer)

            def draft(old: Object) -> Draft:
                new = typed(resource, change(copied(old), decode(raw)))
                metadata_of(new).setdefault("resourceVersion", old["metadata"]["resourceVersion"])
                drafts.check_race(resource, old, new, traits=traits)
                return Draft(new, Owners(old), base=old)

            patched = await self._pipeline.update(
                resource, namespace=namespace, name=name, draft=draft, writer=writer
            )
        await self._strike("patch", resource, namespace, name, Phase.AFTER)
        return patched

    async def _apply(
        self,
        resource: Resource,
        config: Object,
        name: str,
        namespace: str | None,
        *,
        force: bool,
        writer: WriteRequest,
    ) -> Object:
        config = typed_for_apply(resource, config, name=name, namespace=namespace)
        metadata = config["metadata"]
        traits = self._pipeline.traits(resource, writer)
        wanted = drafts.scope_of_apply(config, traits=traits, subresource=writer.subresource)

        def draft(old: Object) -> Draft:
            race = {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"], **metadata}}
            drafts.check_race(resource, old, race, traits=traits)
            owners = Owners(old)
            applied = owners.apply(
                old,
                copied(wanted),
                manager=writer.manager,
                subresource=writer.subresource,
                force=force,
                time=self._pipeline.now(),
            )
            return Draft(applied, owners, base=copied(applied))

        try:
            return await self._pipeline.update(
                resource, namespace=namespace, name=name, draft=draft, writer=writer
            )
        except NotFoundError:
            if writer.subresource:
                raise
        if metadata.get("uid"):
            raise ConflictError(f'uid mismatch: there is no {resource.kind} "{name}" to have it')
        new = self._pipeline.draft(resource, copied(config), namespace=namespace)
        skeleton = {**{key: new.body[key] for key in ("apiVersion", "kind")}, "metadata": {}}
        new.owners.apply(
            skeleton, wanted, manager=writer.manager, subresource="", force=False, time=self._pipeline.now()
        )
        return await self._pipeline.create(resource, Draft(new.body, new.owners, copied(new.body)), writer)

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
        namespace = check_scope(resource, namespace)
        check_segment(name, what="the name")
        if propagation not in {"", "Foreground", "Background", "Orphan"}:
            raise BadRequestError(f"propagation {propagation!r} is none of Foreground, Background, Orphan")
        await self._strike("delete", resource, namespace, name)
        await self._pipeline.delete(
            resource,
            namespace=namespace,
            name=name,
            deletion=Deletion(propagation, uid, resource_version),
            writer=WriteRequest(self.identity, dry_run=dry_run),
        )
        await self._strike("delete", resource, namespace, name, Phase.AFTER)

    async def _strike(
        self, verb: str, resource: Resource, namespace: str | None, name: str, phase: Phase = Phase.BEFORE
    ) -> None:
        if self.hooks.faults is not None:
            await self.hooks.faults(Call(verb, resource, namespace, name, phase))


def _selection(resource: Resource, namespace: str | None, labels: str, fields: str) -> Selection:
    namespace = check_scope(resource, namespace, all_namespaces=True)
    return Selection(namespace, parse_labels(labels), parse_fields(fields))


def _metadata_of(body: Object) -> Object:
    return {key: body[key] for key in ("apiVersion", "kind", "metadata") if key in body}
