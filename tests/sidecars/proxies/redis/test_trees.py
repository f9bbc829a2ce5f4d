import gzip
import zlib
from typing import Any

import orjson
import pytest

from sidecars.proxies.redis import trees
from sidecars.proxies.redis.trees import TreeError, renamed


def _to_prod(_: str) -> str:
    return "prod"


def _tree(*nodes: dict[str, Any], orphaned: tuple[dict[str, Any], ...] = ()) -> bytes:
    return orjson.dumps({"nodes": nodes, "orphanedNodes": orphaned, "hosts": None})


APPLICATION: dict[str, Any] = {
    "group": "argoproj.io",
    "kind": "Application",
    "namespace": "argocd",
    "name": "child",
    "version": "v1alpha1",
}


@pytest.mark.parametrize("compressed", [True, False])
def test_applications_in_a_tree_are_where_the_control_plane_has_them(*, compressed: bool) -> None:
    pod: dict[str, Any] = {"kind": "Pod", "namespace": "argocd", "name": "x", "parentRefs": [APPLICATION]}
    project = {**APPLICATION, "kind": "AppProject"}
    tree = _tree(APPLICATION, pod, project, orphaned=(APPLICATION,))
    done = renamed(gzip.compress(tree) if compressed else tree, compressed=compressed, hub_namespace=_to_prod)
    content = orjson.loads(gzip.decompress(done) if compressed else done)
    moved = {**APPLICATION, "namespace": "prod"}
    assert content["nodes"] == [moved, {**pod, "parentRefs": [moved]}, project]
    assert content["orphanedNodes"] == [moved]
    assert content["hosts"] is None


def test_a_tree_without_applications_is_passed_on_as_it_came() -> None:
    tree = gzip.compress(_tree({"kind": "Pod", "namespace": "argocd", "name": "x"}))
    assert renamed(tree, compressed=True, hub_namespace=_to_prod) is tree
    same = gzip.compress(_tree({**APPLICATION, "namespace": "prod"}))
    assert renamed(same, compressed=True, hub_namespace=_to_prod) is same


def test_what_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "MAX_TREE_BYTES", 1 << 20)
    with pytest.raises(TreeError, match="more than"):
        renamed(gzip.compress(b"\0" * (2 << 20)), compressed=True, hub_namespace=_to_prod)


@pytest.mark.parametrize(
    "tree",
    [b"", b"argoproj.io", zlib.compress(b"{}"), gzip.compress(b"{}")[:-3], gzip.compress(b"argoproj.io")],
    ids=["nothing", "no gzip", "another compression", "cut off", "no JSON"],
)
def test_what_is_no_tree_is_refused(tree: bytes) -> None:
    with pytest.raises(TreeError):
        renamed(tree, compressed=True, hub_namespace=_to_prod)


def test_a_tree_that_can_be_read_and_not_written_is_refused() -> None:
    deep = b'{"nodes":[%b],"hosts":%b%b}' % (orjson.dumps(APPLICATION), b"[" * 300, b"]" * 300)
    with pytest.raises(TreeError, match="deeper"):
        renamed(deep, compressed=False, hub_namespace=_to_prod)


@pytest.mark.parametrize(
    "tree",
    [
        b'"argoproj.io"',
        b'{"nodes":"argoproj.io"}',
        b'{"nodes":[1,{"parentRefs":["argoproj.io"]}]}',
        b'{"nodes":[{"group":"argoproj.io","kind":["Application"]}]}',
        b'{"nodes":[{"group":["argoproj.io"],"kind":{}}]}',
    ],
)
def test_odd_trees_are_left_alone(tree: bytes) -> None:
    assert renamed(tree, compressed=False, hub_namespace=_to_prod) == tree
