"""Server-side apply: the same on both stores."""

from typing import Any

import pytest

from kube.errors import BadRequestError, ConflictError, NotFoundError
from kube.resources import APP_PROJECTS, APPLICATION_SETS, CONFIG_MAPS
from kube.store import Object, PatchKind, Resource, Store
from tests.kube.objects import application_set


class Manager:
    """Somebody who applies."""

    def __init__(self, store: Store, home: str, name: str, *, resource: Resource = CONFIG_MAPS) -> None:
        self._store, self._home, self._name, self._resource = store, home, name, resource

    async def apply(self, body: Object, *, force: bool = False, subresource: str = "") -> Object:
        return await self._store.patch(
            self._resource,
            body,
            name="a",
            namespace=self._home,
            kind=PatchKind.APPLY,
            field_manager=self._name,
            force=force,
            subresource=subresource,
        )


def _owners(body: Object) -> set[tuple[str, str]]:
    return {(entry["manager"], entry["operation"]) for entry in body["metadata"]["managedFields"]}


def _owned(body: Object, manager: str) -> set[str]:
    """The keys of `data` that a manager owns."""
    return {
        step.removeprefix("f:")
        for entry in body["metadata"]["managedFields"]
        if entry["manager"] == manager
        for step in entry["fieldsV1"].get("f:data", {})
        if step != "."
    }


async def test_an_apply_creates_what_is_not_there(store: Store, home: str) -> None:
    applied = await Manager(store, home, "one").apply({"data": {"x": "1"}})
    assert applied["data"] == {"x": "1"}
    assert applied["metadata"]["name"] == "a"
    assert _owners(applied) == {("one", "Apply")}
    assert await store.get(CONFIG_MAPS, name="a", namespace=home) == applied


async def test_the_same_apply_again_changes_nothing(store: Store, home: str) -> None:
    one = Manager(store, home, "one")
    assert await one.apply({"data": {"x": "1"}}) == await one.apply({"data": {"x": "1"}})


async def test_what_a_manager_no_longer_wants_goes(store: Store, home: str) -> None:
    one = Manager(store, home, "one")
    await one.apply({"data": {"x": "1", "y": "2"}, "metadata": {"labels": {"a": "b"}}})
    applied = await one.apply({"data": {"y": "2"}})
    assert applied["data"] == {"y": "2"}
    assert "labels" not in applied["metadata"]


async def test_managers_with_different_fields_do_not_disturb_each_other(store: Store, home: str) -> None:
    one, two = Manager(store, home, "one"), Manager(store, home, "two")
    await one.apply({"data": {"x": "1"}})
    applied = await two.apply({"data": {"y": "2"}})
    assert applied["data"] == {"x": "1", "y": "2"}
    applied = await one.apply({"data": {"x": "3"}})
    assert applied["data"] == {"x": "3", "y": "2"}
    assert _owners(applied) == {("one", "Apply"), ("two", "Apply")}


async def test_managers_that_want_different_values_conflict(store: Store, home: str) -> None:
    one, two = Manager(store, home, "one"), Manager(store, home, "two")
    await one.apply({"data": {"x": "1", "y": "1"}})
    with pytest.raises(ConflictError, match=r'conflict with "one".*\.data\.x'):
        await two.apply({"data": {"x": "2"}})
    applied = await two.apply({"data": {"x": "2"}}, force=True)
    assert applied["data"] == {"x": "2", "y": "1"}
    with pytest.raises(ConflictError, match='conflict with "two"'):
        await one.apply({"data": {"x": "1", "y": "1"}})
    assert (_owned(applied, "one"), _owned(applied, "two")) == ({"y"}, {"x"})
    applied = await one.apply({"data": {"y": "1"}})
    assert applied["data"] == {"x": "2", "y": "1"}
    applied = await two.apply({})
    assert applied["data"] == {"y": "1"}


async def test_a_field_that_two_managers_want_stays_until_both_let_go(store: Store, home: str) -> None:
    one, two = Manager(store, home, "one"), Manager(store, home, "two")
    await one.apply({"data": {"x": "1", "y": "1"}})
    await two.apply({"data": {"x": "1", "z": "1"}})
    assert (await one.apply({"data": {"y": "1"}}))["data"] == {"x": "1", "y": "1", "z": "1"}
    assert (await two.apply({"data": {"z": "1"}}))["data"] == {"y": "1", "z": "1"}


async def test_a_plain_write_takes_what_it_changes(store: Store, home: str) -> None:
    one = Manager(store, home, "one")
    applied = await one.apply({"data": {"x": "1", "y": "1"}})
    edited = await store.replace(
        CONFIG_MAPS, {**applied, "data": {"x": "2", "y": "1"}}, field_manager="editor"
    )
    assert (_owned(edited, "one"), _owned(edited, "editor")) == ({"y"}, {"x"})
    with pytest.raises(ConflictError, match='conflict with "editor"'):
        await one.apply({"data": {"x": "1", "y": "1"}})
    # What the editor changed is the editor's: letting go of it removes nothing.
    assert (await one.apply({"data": {"y": "1"}}))["data"] == {"x": "2", "y": "1"}


async def test_plain_writes_of_one_manager_add_up(store: Store, home: str) -> None:
    body: Object = {"metadata": {"name": "a", "namespace": home}, "data": {"x": "1"}}
    await store.create(CONFIG_MAPS, body, field_manager="maker")
    for data in ({"x": "1", "y": "1"}, {"x": "1", "y": "1", "z": "1"}):
        written = await store.replace(CONFIG_MAPS, body | {"data": data}, field_manager="editor")
    assert (_owned(written, "maker"), _owned(written, "editor")) == ({"x"}, {"y", "z"})
    written = await store.replace(CONFIG_MAPS, body | {"data": {"z": "1"}}, field_manager="editor")
    assert (_owned(written, "maker"), _owned(written, "editor")) == (set(), {"z"})


async def test_a_creation_owns_what_it_wrote(store: Store, home: str) -> None:
    body = {"metadata": {"name": "a", "namespace": home}, "data": {"x": "1"}}
    created = await store.create(CONFIG_MAPS, body, field_manager="maker")
    assert _owners(created) == {("maker", "Update")}
    with pytest.raises(ConflictError, match='conflict with "maker"'):
        await Manager(store, home, "one").apply({"data": {"x": "2"}})


async def test_finalizers_of_two_managers_come_together(store: Store, home: str) -> None:
    one, two = Manager(store, home, "one"), Manager(store, home, "two")
    await one.apply({"metadata": {"finalizers": ["example.com/one"]}})
    applied = await two.apply({"metadata": {"finalizers": ["example.com/two"]}})
    assert set(applied["metadata"]["finalizers"]) == {"example.com/one", "example.com/two"}
    applied = await one.apply({})
    assert applied["metadata"]["finalizers"] == ["example.com/two"]
    await two.apply({})


async def test_a_list_of_a_custom_resource_is_one_value(store: Store, home: str) -> None:
    one = Manager(store, home, "one", resource=APP_PROJECTS)
    two = Manager(store, home, "two", resource=APP_PROJECTS)
    await one.apply({"spec": {"sourceRepos": ["a", "b"]}})
    with pytest.raises(ConflictError, match=r"\.spec\.sourceRepos"):
        await two.apply({"spec": {"sourceRepos": ["b", "c"]}})
    applied = await two.apply({"spec": {"sourceRepos": ["b", "c"], "description": "x"}}, force=True)
    assert applied["spec"] == {"sourceRepos": ["b", "c"], "description": "x"}
    assert applied["metadata"]["generation"] == 2


async def test_an_apply_of_another_name_or_with_owners_is_refused(store: Store, home: str) -> None:
    one = Manager(store, home, "one")
    with pytest.raises(BadRequestError):
        await one.apply({"metadata": {"name": "b"}})
    applied = await one.apply({"data": {"x": "1"}})
    with pytest.raises(BadRequestError, match="managedFields must be nil"):
        await one.apply(applied)


async def test_an_apply_can_insist_on_a_version(store: Store, home: str) -> None:
    one = Manager(store, home, "one")
    first = await one.apply({"data": {"x": "1"}})
    await one.apply({"data": {"x": "2"}})
    version = first["metadata"]["resourceVersion"]
    with pytest.raises(ConflictError):
        await one.apply({"metadata": {"resourceVersion": version}, "data": {"x": "3"}})


async def test_an_apply_that_insists_on_a_uid_creates_nothing(store: Store, home: str) -> None:
    uid = "00000000-0000-4000-8000-000000000000"
    with pytest.raises(ConflictError):
        await Manager(store, home, "one").apply({"metadata": {"uid": uid}, "data": {"x": "3"}})
    with pytest.raises(NotFoundError):
        await store.get(CONFIG_MAPS, name="a", namespace=home)


async def test_a_dry_run_applies_nothing(store: Store, home: str) -> None:
    options: dict[str, Any] = {"name": "a", "namespace": home, "kind": PatchKind.APPLY}
    answer = await store.patch(CONFIG_MAPS, {"data": {"x": "1"}}, dry_run=True, **options)
    assert answer["data"] == {"x": "1"}
    with pytest.raises(NotFoundError):
        await store.get(CONFIG_MAPS, name="a", namespace=home)


async def test_the_status_is_applied_apart(store: Store, home: str) -> None:
    body = application_set("a", namespace=home)
    one = Manager(store, home, "one", resource=APPLICATION_SETS)
    applied = await one.apply({**body, "status": {"resourcesCount": 1}})
    assert "status" not in applied
    applied = await one.apply({"status": {"resourcesCount": 2}}, subresource="status")
    assert applied["status"] == {"resourcesCount": 2}
    applied = await one.apply(body)
    assert applied["status"] == {"resourcesCount": 2}
    assert applied["spec"] == body["spec"]
