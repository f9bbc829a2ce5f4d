"""Creating, reading and replacing: the same on both stores."""

import pytest

from kube.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from kube.resources import (
    APP_PROJECTS,
    APPLICATION_SETS,
    APPLICATIONS,
    CONFIG_MAPS,
    LEASES,
    NAMESPACES,
    SECRETS,
    SUBJECT_ACCESS_REVIEWS,
)
from kube.store import Store
from tests.kube.objects import application, application_set, config_map, project


async def test_a_created_object_can_be_read_back(store: Store, home: str) -> None:
    created = await store.create(CONFIG_MAPS, config_map("a", namespace=home, key="value"))
    assert created["data"] == {"key": "value"}
    assert created["apiVersion"] == "v1"
    assert created["kind"] == "ConfigMap"
    assert len(created["metadata"]["uid"]) == 36
    assert created["metadata"]["creationTimestamp"].endswith("Z")
    assert int(created["metadata"]["resourceVersion"]) > 0
    assert await store.get(CONFIG_MAPS, name="a", namespace=home) == created


async def test_an_unknown_object_is_not_found(store: Store, home: str) -> None:
    with pytest.raises(NotFoundError, match='configmaps "a" not found'):
        await store.get(CONFIG_MAPS, name="a", namespace=home)


async def test_a_second_object_of_a_name_already_exists(store: Store, home: str) -> None:
    await store.create(CONFIG_MAPS, config_map("a", namespace=home))
    with pytest.raises(AlreadyExistsError, match='configmaps "a" already exists'):
        await store.create(CONFIG_MAPS, config_map("a", namespace=home))


async def test_the_call_may_name_the_namespace(store: Store, home: str) -> None:
    created = await store.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, namespace=home)
    assert created["metadata"]["namespace"] == home


async def test_a_namespace_that_is_not_the_bodys_is_refused(store: Store, home: str) -> None:
    with pytest.raises(BadRequestError):
        await store.create(CONFIG_MAPS, config_map("a", namespace="other"), namespace=home)


async def test_nothing_can_be_created_in_a_namespace_that_is_not_there(store: Store) -> None:
    with pytest.raises(NotFoundError, match='namespaces "nowhere" not found'):
        await store.create(CONFIG_MAPS, config_map("a", namespace="nowhere"))


async def test_a_generated_name_starts_as_asked(store: Store, home: str) -> None:
    names = set()
    for _ in range(2):
        body = {"metadata": {"generateName": "run-", "namespace": home}}
        created = await store.create(CONFIG_MAPS, body)
        names.add(created["metadata"]["name"])
        assert created["metadata"]["name"].startswith("run-")
        assert len(created["metadata"]["name"]) == len("run-") + 5
    assert len(names) == 2


async def test_an_object_needs_a_name(store: Store, home: str) -> None:
    for body in ({"metadata": {"namespace": home}}, {}):
        with pytest.raises(InvalidError, match="name or generateName is required"):
            await store.create(CONFIG_MAPS, body, namespace=home)


@pytest.mark.parametrize("name", ["Upper", "a_b", "-a", "a" * 254])
async def test_a_name_that_dns_would_refuse_is_invalid(store: Store, home: str, name: str) -> None:
    with pytest.raises(InvalidError, match=r"metadata\.name"):
        await store.create(CONFIG_MAPS, config_map(name, namespace=home))


@pytest.mark.parametrize("labels", [{"a b": "c"}, {"a": "b c"}, {"a": "x" * 64}])
async def test_labels_have_their_own_grammar(store: Store, home: str, labels: dict[str, str]) -> None:
    body = config_map("a", namespace=home)
    body["metadata"]["labels"] = labels
    with pytest.raises(InvalidError, match=r"metadata\.labels"):
        await store.create(CONFIG_MAPS, body)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../secrets/b", "a%2fb"])
async def test_a_name_cannot_leave_its_place_in_a_path(store: Store, home: str, name: str) -> None:
    with pytest.raises(BadRequestError):
        await store.get(CONFIG_MAPS, name=name, namespace=home)
    with pytest.raises(BadRequestError):
        await store.get(CONFIG_MAPS, name="a", namespace=f"{home}/../{home}")


async def test_a_body_of_another_kind_is_refused(store: Store, home: str) -> None:
    body = {**config_map("a", namespace=home), "apiVersion": "v1", "kind": "Secret"}
    with pytest.raises(BadRequestError):
        await store.create(CONFIG_MAPS, body)


async def test_a_resource_version_on_a_creation_is_refused(store: Store, home: str) -> None:
    body = config_map("a", namespace=home)
    body["metadata"]["resourceVersion"] = "1"
    with pytest.raises(BadRequestError):
        await store.create(CONFIG_MAPS, body)


async def test_a_replacement_with_the_current_version_wins_and_the_next_conflicts(
    store: Store, home: str
) -> None:
    first = await store.create(CONFIG_MAPS, config_map("a", namespace=home, x="1"))
    second = await store.replace(CONFIG_MAPS, {**first, "data": {"x": "2"}})
    assert second["data"] == {"x": "2"}
    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])
    assert second["metadata"]["uid"] == first["metadata"]["uid"]
    with pytest.raises(ConflictError, match="the object has been modified"):
        await store.replace(CONFIG_MAPS, {**first, "data": {"x": "3"}})


async def test_a_replacement_of_another_uid_conflicts(store: Store, home: str) -> None:
    created = await store.create(CONFIG_MAPS, config_map("a", namespace=home))
    other = {**created["metadata"], "uid": "00000000-0000-4000-8000-000000000000"}
    with pytest.raises(ConflictError):
        await store.replace(CONFIG_MAPS, {**created, "metadata": other})


async def test_a_replacement_of_nothing_is_not_found(store: Store, home: str) -> None:
    with pytest.raises(NotFoundError):
        await store.replace(CONFIG_MAPS, config_map("a", namespace=home))


async def test_a_config_map_can_be_replaced_without_a_version(store: Store, home: str) -> None:
    await store.create(CONFIG_MAPS, config_map("a", namespace=home, x="1"))
    replaced = await store.replace(CONFIG_MAPS, config_map("a", namespace=home, x="2"))
    assert replaced["data"] == {"x": "2"}


async def test_a_custom_resource_cannot_be_replaced_without_a_version(store: Store, home: str) -> None:
    await store.create(APP_PROJECTS, project("a", namespace=home, description="one"))
    with pytest.raises(InvalidError, match="must be specified for an update"):
        await store.replace(APP_PROJECTS, project("a", namespace=home, description="two"))


async def test_a_write_that_changes_nothing_makes_no_version(store: Store, home: str) -> None:
    created = await store.create(CONFIG_MAPS, config_map("a", namespace=home, x="1"))
    assert await store.replace(CONFIG_MAPS, created) == created


async def test_the_generation_counts_changes_outside_metadata(store: Store, home: str) -> None:
    body = await store.create(APPLICATIONS, application("a", namespace=home))
    assert body["metadata"]["generation"] == 1
    body["metadata"]["labels"] = {"a": "b"}
    body = await store.replace(APPLICATIONS, body)
    assert body["metadata"]["generation"] == 1
    body["spec"]["project"] = "other"
    body = await store.replace(APPLICATIONS, body)
    assert body["metadata"]["generation"] == 2
    body["status"] = {"reconciledAt": "2026-01-01T00:00:00Z"}  # Applications have no status subresource
    body = await store.replace(APPLICATIONS, body)
    assert body["metadata"]["generation"] == 3


async def test_config_maps_count_no_generation(store: Store, home: str) -> None:
    created = await store.create(CONFIG_MAPS, config_map("a", namespace=home))
    assert "generation" not in created["metadata"]


async def test_a_status_subresource_is_written_apart(store: Store, home: str) -> None:
    body = {**application_set("a", namespace=home), "status": {"resourcesCount": 1}}
    created = await store.create(APPLICATION_SETS, body)
    assert "status" not in created
    created["status"] = {"resourcesCount": 2}
    assert "status" not in await store.replace(APPLICATION_SETS, created)
    created["spec"]["goTemplate"] = True
    written = await store.replace(APPLICATION_SETS, created, subresource="status")
    assert written["status"] == {"resourcesCount": 2}
    assert "goTemplate" not in written["spec"]
    assert written["metadata"]["generation"] == 1


async def test_a_subresource_that_a_kind_does_not_have_is_not_found(store: Store, home: str) -> None:
    created = await store.create(APPLICATIONS, application("a", namespace=home))
    with pytest.raises(NotFoundError):
        await store.replace(APPLICATIONS, created, subresource="status")


async def test_a_dry_run_creates_nothing(store: Store, home: str) -> None:
    answer = await store.create(CONFIG_MAPS, config_map("a", namespace=home, x="1"), dry_run=True)
    assert answer["data"] == {"x": "1"}
    assert answer["metadata"]["uid"]
    with pytest.raises(NotFoundError):
        await store.get(CONFIG_MAPS, name="a", namespace=home)


async def test_a_dry_run_replaces_nothing(store: Store, home: str) -> None:
    created = await store.create(CONFIG_MAPS, config_map("a", namespace=home, x="1"))
    answer = await store.replace(CONFIG_MAPS, {**created, "data": {"x": "2"}}, dry_run=True)
    assert answer["data"] == {"x": "2"}
    assert await store.get(CONFIG_MAPS, name="a", namespace=home) == created


async def test_plain_text_of_a_secret_becomes_data(store: Store, home: str) -> None:
    body = {"metadata": {"name": "a", "namespace": home}, "stringData": {"x": "y"}, "data": {"z": "eg=="}}
    created = await store.create(SECRETS, body)
    assert created["data"] == {"x": "eQ==", "z": "eg=="}
    assert "stringData" not in created
    assert created["type"] == "Opaque"


async def test_a_namespace_carries_its_name_as_a_label(store: Store, home: str) -> None:
    found = await store.get(NAMESPACES, name=home)
    assert found["metadata"]["labels"]["kubernetes.io/metadata.name"] == home
    assert found["status"]["phase"] == "Active"


async def test_what_has_no_namespace_takes_none_and_the_rest_needs_one(store: Store, home: str) -> None:
    with pytest.raises(BadRequestError):
        await store.get(NAMESPACES, name=home, namespace=home)
    with pytest.raises(BadRequestError):
        await store.get(CONFIG_MAPS, name="a")


async def test_an_access_review_is_answered_and_not_kept(store: Store, home: str) -> None:
    attributes = {"verb": "get", "resource": "secrets", "namespace": home}
    spec = {"user": "nobody", "resourceAttributes": attributes}
    answer = await store.create(SUBJECT_ACCESS_REVIEWS, {"spec": spec})
    assert answer["status"]["allowed"] is False
    assert answer["spec"] == spec


async def test_a_lease_holds_what_was_written(store: Store, home: str) -> None:
    spec = {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:00.123456Z",
        "leaseTransitions": 0,
    }
    created = await store.create(LEASES, {"metadata": {"name": "a", "namespace": home}, "spec": spec})
    assert created["spec"] == spec


async def test_a_body_that_is_no_json_is_refused(store: Store, home: str) -> None:
    with pytest.raises(BadRequestError, match="not plain JSON"):
        await store.create(
            CONFIG_MAPS, {"metadata": {"name": "a", "namespace": home}, "data": {"x": object()}}
        )
