"""Questions on top of a store: an object that may be missing, and a whole list in pages."""

import asyncio
from collections.abc import AsyncGenerator

from kube.errors import GoneError, NotFoundError
from kube.store import ListPage, Object, Resource, Store

PAGE_SIZE = 500
"""An answer of an API server with five hundred Applications is a few megabytes."""


async def find(store: Store, resource: Resource, *, name: str, namespace: str | None = None) -> Object | None:
    try:
        return await store.get(resource, name=name, namespace=namespace)
    except NotFoundError:
        return None


async def pages(
    store: Store,
    resource: Resource,
    *,
    namespace: str | None = None,
    label_selector: str = "",
    limit: int = PAGE_SIZE,
    metadata_only: bool = False,
) -> AsyncGenerator[list[Object], None]:
    """The next page is asked for while this one is looked at. Leave early through `contextlib.aclosing`."""

    def ask(token: str) -> asyncio.Task[ListPage]:
        page = _page(
            store,
            resource,
            namespace=namespace,
            label_selector=label_selector,
            limit=limit,
            token=token,
            metadata_only=metadata_only,
        )
        return asyncio.create_task(page, name=f"list {resource.plural}")

    asked: asyncio.Task[ListPage] | None = ask("")
    try:
        while asked is not None:
            page = await asked
            asked = ask(page.continue_token) if page.continue_token else None
            yield page.items
    finally:
        if asked is not None:
            asked.cancel()


async def _page(
    store: Store,
    resource: Resource,
    *,
    namespace: str | None,
    label_selector: str,
    limit: int,
    token: str,
    metadata_only: bool,
) -> ListPage:
    while True:
        try:
            return await store.list(
                resource,
                namespace=namespace,
                label_selector=label_selector,
                limit=limit,
                continue_token=token,
                metadata_only=metadata_only,
            )
        except GoneError as error:
            # The list took longer than the server keeps versions: it goes on with newer ones.
            token = (error.status.get("metadata") or {}).get("continue", "")
            if not token:
                raise
