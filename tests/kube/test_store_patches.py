"""JSON patches and merge patches: the same on both stores."""

from typing import Any

import pytest

from kube.errors import ApiError, BadRequestError, ConflictError, InvalidError, NotFoundError
from kube.resources import APPLICATION_SETS, CONFIG_MAPS
from kube.store import JsonPatch, Object, PatchKind, Store
from tests.kube.objects import application_set, config_map


async def _patch(store: Store, home: str, patch: JsonPatch | Object, *, dry_run: bool = False) -> Object:
    kind = PatchKind.JSON if isinstance(patch, list) else PatchKind.MERGE
    return await store.patch(CONFIG_MAPS, patch, name="a", namespace=home, kind=kind, dry_run=dry_run)


@pytest.fixture
async def stored(store: Store, home: str) -> Object:
    return await store.create(CONFIG_MAPS, config_map("a", namespace=home, x="1", y="2"))


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ([{"op": "replace", "path": "/data/x", "value": "9"}], {"x": "9", "y": "2"}),
        ([{"op": "remove", "path": "/data/x"}], {"y": "2"}),
        ([{"op": "replace", "path": "/data/z", "value": "3"}], {"x": "1", "y": "2", "z": "3"}),
        ([{"op": "add", "path": "/data", "value": {"z": "3"}}], {"z": "3"}),
        ([{"op": "move", "from": "/data/x", "path": "/data/z"}], {"y": "2", "z": "1"}),
        ([{"op": "copy", "from": "/data/x", "path": "/data/z"}], {"x": "1", "y": "2", "z": "1"}),
        (
            [{"op": "test", "path": "/data/x", "value": "1"}, {"op": "remove", "path": "/data/y"}],
            {"x": "1"},
        ),
    ],
)
async def test_json_patches_apply(
    store: Store, home: str, stored: Object, patch: JsonPatch, expected: Object
) -> None:
    patched = await _patch(store, home, patch)
    assert patched["data"] == expected
    assert await store.get(CONFIG_MAPS, name="a", namespace=home) == patched


@pytest.mark.parametrize(
    "patch",
    [
        [{"op": "remove", "path": "/data/nothing"}],
        [{"op": "replace", "path": "/nothing/x", "value": "1"}],
        [{"op": "replace", "path": "/metadata/managedFields/7", "value": {}}],
        [{"op": "test", "path": "/data/nothing", "value": "1"}],
        [{"op": "add", "path": "/nothing/x", "value": "1"}],
        [{"op": "test", "path": "/data/x", "value": "hidden"}],
    ],
)
async def test_a_json_patch_that_does_not_apply_is_invalid_and_changes_nothing(
    store: Store, home: str, stored: Object, patch: JsonPatch
) -> None:
    first = {"op": "add", "path": "/data/new", "value": "1"}
    with pytest.raises(InvalidError):
        await _patch(store, home, [first, *patch])
    assert await store.get(CONFIG_MAPS, name="a", namespace=home) == stored


async def test_a_malformed_json_patch_is_refused(store: Store, home: str, stored: Object) -> None:
    with pytest.raises(ApiError):
        await _patch(store, home, [{"op": "dance", "path": "/data"}])
    with pytest.raises(BadRequestError):
        await store.patch(CONFIG_MAPS, {"op": "add"}, name="a", namespace=home, kind=PatchKind.JSON)


async def test_a_merge_patch_sets_and_removes(store: Store, home: str, stored: Object) -> None:
    patched = await _patch(store, home, {"data": {"x": None, "z": "3"}, "metadata": {"labels": {"a": "b"}}})
    assert patched["data"] == {"y": "2", "z": "3"}
    assert patched["metadata"]["labels"] == {"a": "b"}


async def test_a_patch_can_insist_on_a_version(store: Store, home: str, stored: Object) -> None:
    version = stored["metadata"]["resourceVersion"]
    patch = {"metadata": {"resourceVersion": version}, "data": {"x": "2"}}
    await _patch(store, home, patch)
    with pytest.raises(ConflictError):
        await _patch(store, home, patch | {"data": {"x": "3"}})


async def test_a_patch_cannot_rename(store: Store, home: str, stored: Object) -> None:
    with pytest.raises((BadRequestError, InvalidError)):
        await _patch(store, home, {"metadata": {"name": "b"}})


async def test_a_patch_of_what_the_server_owns_is_refused_or_without_effect(
    store: Store, home: str, stored: Object
) -> None:
    with pytest.raises((ConflictError, InvalidError)):
        await _patch(store, home, {"metadata": {"uid": "00000000-0000-4000-8000-000000000000"}})
    patched = await _patch(
        store, home, {"metadata": {"creationTimestamp": None, "generation": 7}, "data": {"n": "1"}}
    )
    assert patched["metadata"]["creationTimestamp"] == stored["metadata"]["creationTimestamp"]


async def test_a_patch_without_effect_makes_no_version(store: Store, home: str, stored: Object) -> None:
    assert await _patch(store, home, {"data": {"x": "1"}}) == stored


async def test_a_patch_of_nothing_is_not_found(store: Store, home: str) -> None:
    with pytest.raises(NotFoundError):
        await _patch(store, home, {"data": {"x": "1"}})


async def test_a_dry_run_patches_nothing(store: Store, home: str, stored: Object) -> None:
    answer = await _patch(store, home, {"data": {"x": "9"}}, dry_run=True)
    assert answer["data"]["x"] == "9"
    assert await store.get(CONFIG_MAPS, name="a", namespace=home) == stored


async def test_a_patch_of_the_status_leaves_the_rest(store: Store, home: str) -> None:
    await store.create(APPLICATION_SETS, application_set("a", namespace=home))
    patch = {"status": {"resourcesCount": 3}, "spec": {"goTemplate": True}}
    options: dict[str, Any] = {"name": "a", "namespace": home, "kind": PatchKind.MERGE}
    patched = await store.patch(APPLICATION_SETS, patch, subresource="status", **options)
    assert patched["status"] == {"resourcesCount": 3}
    assert "goTemplate" not in patched["spec"]
    patched = await store.patch(APPLICATION_SETS, {"status": {"resourcesCount": 4}}, **options)
    assert patched["status"] == {"resourcesCount": 3}


async def test_a_failed_patch_of_a_secret_tells_no_secret(store: Store, home: str, stored: Object) -> None:
    patch = [{"op": "remove", "path": "/data/x/deeper"}]
    with pytest.raises(ApiError) as caught:
        await _patch(store, home, patch)
    assert "hidden" not in str(caught.value)
