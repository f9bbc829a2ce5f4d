"""The same tests on both stores: ask for `store` and `home`."""

import uuid
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import pytest

from kube.embedded import EmbeddedStore
from kube.live import LiveStore
from kube.store import Store

if TYPE_CHECKING:
    from scripts.cluster.controlplane import Cluster


@pytest.fixture(params=["embedded", pytest.param("live", marks=pytest.mark.cluster)])
def store_kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture
def home(store_kind: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the test's own."""
    if store_kind == "embedded":
        yield f"test-{uuid.uuid4().hex[:8]}"
        return
    cluster: Cluster = request.getfixturevalue("cluster")
    name = cluster.create_namespace()
    yield name
    cluster.drop_namespace(name)


@pytest.fixture
async def store(store_kind: str, home: str, request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    if store_kind == "embedded":
        yield EmbeddedStore(namespaces=[home])
        return
    cluster: Cluster = request.getfixturevalue("cluster")
    live = await LiveStore.connect(kubeconfig=cluster.kubeconfig)
    yield live
    await live.close()
