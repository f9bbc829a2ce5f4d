"""Deletion, preconditions and finalizers: the same on both stores."""

import pytest

from kube.errors import BadRequestError, ConflictError, InvalidError, NotFoundError
from kube.resources import APP_PROJECTS, CONFIG_MAPS
from kube.store import Object, PatchKind, Store
from tests.kube.objects import config_map, project, watching

FINALIZER = "resources-finalizer.argocd.argoproj.io"


async def _held(store: Store, home: str) -> Object:
    body = project("a", namespace=home)
    body["metadata"]["finalizers"] = [FINALIZER]
    return await store.create(APP_PROJECTS, body)


async def _release(store: Store, home: str) -> Object:
    patch = {"metadata": {"finalizers": None}}
    return await store.patch(APP_PROJECTS, patch, name="a", namespace=home, kind=PatchKind.MERGE)


async def test_a_deleted_object_is_gone(store: Store, home: str) -> None:
    await store.create(CONFIG_MAPS, config_map("a", namespace=home))
    await store.delete(CONFIG_MAPS, name="a", namespace=home)
    with pytest.raises(NotFoundError):
        await store.get(CONFIG_MAPS, name="a", namespace=home)
    with pytest.raises(NotFoundError):
        await store.delete(CONFIG_MAPS, name="a", namespace=home)


async def test_a_name_can_be_used_again_by_another_uid(store: Store, home: str) -> None:
    first = await store.create(CONFIG_MAPS, config_map("a", namespace=home))
    await store.delete(CONFIG_MAPS, name="a", namespace=home)
    second = await store.create(CONFIG_MAPS, config_map("a", namespace=home))
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    with pytest.raises(ConflictError):
        await store.delete(CONFIG_MAPS, name="a", namespace=home, uid=first["metadata"]["uid"])


async def test_a_deletion_can_insist_on_a_version(store: Store, home: str) -> None:
    first = await store.create(CONFIG_MAPS, config_map("a", namespace=home))
    second = await store.replace(CONFIG_MAPS, config_map("a", namespace=home, x="1"))
    version = first["metadata"]["resourceVersion"]
    with pytest.raises(ConflictError):
        await store.delete(CONFIG_MAPS, name="a", namespace=home, resource_version=version)
    await store.delete(
        CONFIG_MAPS,
        name="a",
        namespace=home,
        uid=second["metadata"]["uid"],
        resource_version=second["metadata"]["resourceVersion"],
    )


async def test_a_dry_run_deletes_nothing(store: Store, home: str) -> None:
    created = await store.create(CONFIG_MAPS, config_map("a", namespace=home))
    await store.delete(CONFIG_MAPS, name="a", namespace=home, dry_run=True)
    assert await store.get(CONFIG_MAPS, name="a", namespace=home) == created


async def test_an_unknown_propagation_is_refused(store: Store, home: str) -> None:
    await store.create(CONFIG_MAPS, config_map("a", namespace=home))
    with pytest.raises((BadRequestError, InvalidError)):
        await store.delete(CONFIG_MAPS, name="a", namespace=home, propagation="Sideways")


async def test_a_finalizer_keeps_an_object_until_it_is_removed(store: Store, home: str) -> None:
    async with watching(store, APP_PROJECTS, namespace=home) as watch:
        await _held(store, home)
        await store.delete(APP_PROJECTS, name="a", namespace=home)
        held = await store.get(APP_PROJECTS, name="a", namespace=home)
        assert held["metadata"]["deletionTimestamp"].endswith("Z")
        assert held["metadata"]["deletionGracePeriodSeconds"] == 0
        assert held["metadata"]["generation"] == 2
        await _release(store, home)
        with pytest.raises(NotFoundError):
            await store.get(APP_PROJECTS, name="a", namespace=home)
        assert [await watch.next() for _ in range(3)] == [
            ("ADDED", "a"),
            ("MODIFIED", "a"),
            ("DELETED", "a"),
        ]


async def test_a_second_deletion_changes_nothing(store: Store, home: str) -> None:
    await _held(store, home)
    await store.delete(APP_PROJECTS, name="a", namespace=home)
    held = await store.get(APP_PROJECTS, name="a", namespace=home)
    await store.delete(APP_PROJECTS, name="a", namespace=home)
    assert await store.get(APP_PROJECTS, name="a", namespace=home) == held
    await _release(store, home)


async def test_a_dying_object_can_be_changed_but_not_saved(store: Store, home: str) -> None:
    await _held(store, home)
    await store.delete(APP_PROJECTS, name="a", namespace=home)
    held = await store.get(APP_PROJECTS, name="a", namespace=home)
    revived = {key: value for key, value in held["metadata"].items() if key != "deletionTimestamp"}
    changed = await store.replace(APP_PROJECTS, {**held, "metadata": revived, "spec": {"description": "x"}})
    assert changed["spec"] == {"description": "x"}
    assert changed["metadata"]["deletionTimestamp"] == held["metadata"]["deletionTimestamp"]
    more = {**changed["metadata"], "finalizers": [FINALIZER, "example.com/another"]}
    with pytest.raises(InvalidError, match="no new finalizers can be added"):
        await store.replace(APP_PROJECTS, {**changed, "metadata": more})
    await _release(store, home)


@pytest.mark.parametrize(
    ("propagation", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")]
)
async def test_propagation_is_left_to_a_controller_as_a_finalizer(
    store: Store, home: str, propagation: str, finalizer: str
) -> None:
    await store.create(APP_PROJECTS, project("a", namespace=home))
    await store.delete(APP_PROJECTS, name="a", namespace=home, propagation=propagation)
    held = await store.get(APP_PROJECTS, name="a", namespace=home)
    assert held["metadata"]["finalizers"] == [finalizer]
    await _release(store, home)


async def test_background_deletion_is_at_once(store: Store, home: str) -> None:
    await store.create(APP_PROJECTS, project("a", namespace=home))
    await store.delete(APP_PROJECTS, name="a", namespace=home, propagation="Background")
    with pytest.raises(NotFoundError):
        await store.get(APP_PROJECTS, name="a", namespace=home)
