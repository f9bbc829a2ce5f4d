"""An object that was made anew at the source, and what the agent does with the one it has: as the flag, the
object itself and the principal's identity say.
"""

from base64 import b64encode
from typing import Any

import pytest

from argocd import names
from argocd.agents.identity import Adoption, Mismatch
from kube.resources import APP_PROJECTS, APPLICATIONS, SECRETS
from kube.store import Object, Resource
from tests.sidecars.pair_in_memory import ARGOCD, Pair, application, change, project, until

AGENT = "agent-a"


def repository() -> Object:
    return {
        "metadata": {"name": "repo", "labels": {names.SECRET_TYPE: "repository"}},
        "data": {"project": b64encode(b"web").decode(), "url": b64encode(b"https://git").decode()},
    }


SORTS: dict[str, tuple[Resource, str, str, Object]] = {
    "application": (APPLICATIONS, "shop", AGENT, application()),
    "project": (APP_PROJECTS, "web", ARGOCD, project()),
    "repository": (SECRETS, "repo", ARGOCD, repository()),
}


async def made_anew(sort: str, *, mismatch: Mismatch, said: str = "") -> tuple[Object, Object, Object]:
    """The agent's copy before and after, and what the hub has by then."""
    resource, name, namespace, body = SORTS[sort]
    pair = Pair(agent={"mismatch": mismatch})
    await pair.hub.store.create(APP_PROJECTS, project(), namespace=ARGOCD)
    if sort != "project":
        await pair.hub.store.create(resource, body, namespace=namespace)
    async with pair.together():
        before = (await until(pair.workload, resource, lambda there: name in there))[name]
    # While nobody looks: no deletion is told.
    await pair.hub.store.delete(resource, name=name, namespace=namespace)
    annotations = {names.SOURCE_UID_MISMATCH_POLICY: said} if said else {}
    metadata = {**body["metadata"], "annotations": annotations, "labels": {"new": "yes"}}
    if sort == "repository":
        metadata["labels"] |= body["metadata"]["labels"]
    hub = await pair.hub.store.create(resource, {**body, "metadata": metadata}, namespace=namespace)
    async with pair.together():
        there = await until(
            pair.workload,
            resource,
            lambda there: name in there and there[name]["metadata"].get("labels", {}).get("new") == "yes",
        )
    return before, there[name], hub


@pytest.mark.parametrize("sort", list(SORTS))
@pytest.mark.parametrize(
    ("flag", "said", "stays"),
    [
        (Mismatch.RECREATE, "", False),
        (Mismatch.UPSERT, "", True),
        (Mismatch.RECREATE, "upsert", True),
        (Mismatch.UPSERT, "recreate", False),
        (Mismatch.UPSERT, "nonsense", True),
    ],
)
async def test_another_uid_means_what_the_object_says_else_the_flag(
    sort: str, flag: Mismatch, said: str, *, stays: bool
) -> None:
    before, after, hub = await made_anew(sort, mismatch=flag, said=said)

    assert (before["metadata"]["uid"] == after["metadata"]["uid"]) is stays
    assert after["metadata"]["annotations"][names.SOURCE_UID] == hub["metadata"]["uid"]
    assert before["metadata"]["annotations"][names.SOURCE_UID] != hub["metadata"]["uid"]


async def with_local(annotations: dict[str, str], **settings: Any) -> tuple[Object, Object, Object]:
    """An Application that was at the agent before its principal had one of that name."""
    pair = Pair(agent=settings)
    metadata = {"annotations": annotations, "labels": {"old": "yes"}}
    local = await pair.workload.create(APPLICATIONS, application(metadata=metadata), namespace=ARGOCD)
    hub = await pair.hub.store.create(APPLICATIONS, application(), namespace=AGENT)
    async with pair.together():
        there = await until(
            pair.workload,
            APPLICATIONS,
            lambda there: (
                "shop" in there
                and there["shop"]["metadata"]["annotations"].get(names.SOURCE_UID) == hub["metadata"]["uid"]
            ),
        )
    return local, there["shop"], hub


async def test_after_another_principal_took_over_nothing_is_deleted() -> None:
    """Its objects have other uids and are the same: also where a mismatch means to recreate."""
    annotations = {names.SOURCE_UID: "before", names.PRINCIPAL_UID: "another"}
    before, after, hub = await with_local(annotations, mismatch=Mismatch.RECREATE)

    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["metadata"]["annotations"][names.SOURCE_UID] == hub["metadata"]["uid"]
    assert after["metadata"]["annotations"][names.PRINCIPAL_UID] == "principal-1"
    assert "old" not in after["metadata"].get("labels", {})


async def test_a_copy_from_before_principals_said_who_they_are_is_kept() -> None:
    before, after, _ = await with_local({names.SOURCE_UID: "before"}, mismatch=Mismatch.RECREATE)

    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["metadata"]["annotations"][names.PRINCIPAL_UID] == "principal-1"


async def test_the_same_principals_other_application_is_another_one() -> None:
    annotations = {names.SOURCE_UID: "before", names.PRINCIPAL_UID: "principal-1"}
    before, after, _ = await with_local(annotations, mismatch=Mismatch.RECREATE)

    assert after["metadata"]["uid"] != before["metadata"]["uid"]


async def test_an_application_that_nobody_manages_is_taken_over() -> None:
    before, after, _ = await with_local({"mine": "yes"})

    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"]["destination"]["name"] == names.IN_CLUSTER_NAME


async def test_a_local_application_may_ask_for_what_the_flag_forbids() -> None:
    before, after, _ = await with_local(
        {names.ADOPTION_POLICY: Adoption.ALWAYS.value}, adoption=Adoption.NEVER
    )

    assert after["metadata"]["uid"] == before["metadata"]["uid"]


async def test_an_application_that_may_not_be_taken_over_is_left_as_it_is() -> None:
    pair = Pair(agent={"adoption": Adoption.NEVER})
    local = await pair.workload.create(APPLICATIONS, application(), namespace=ARGOCD)
    await pair.hub.store.create(APPLICATIONS, application(), namespace=AGENT)
    async with pair.together():
        there = await until(
            pair.hub.store, APPLICATIONS, lambda there: there["shop"].get("status"), namespace=AGENT
        )
        assert "--adoption-policy" in there["shop"]["status"]["conditions"][0]["message"]
        assert await pair.workload.get(APPLICATIONS, name="shop", namespace=ARGOCD) == local
        # Nor is it deleted when the hub's goes.
        await pair.hub.store.delete(APPLICATIONS, name="shop", namespace=AGENT)
        await pair.hub.store.create(APP_PROJECTS, project(), namespace=ARGOCD)
        await until(pair.workload, APP_PROJECTS, lambda there: "web" in there)
        assert await pair.workload.get(APPLICATIONS, name="shop", namespace=ARGOCD) == local


async def test_foreign_credentials_are_never_written_over() -> None:
    pair = Pair(agent={"mismatch": Mismatch.UPSERT})
    local = await pair.workload.create(SECRETS, repository(), namespace=ARGOCD)
    await pair.hub.store.create(APP_PROJECTS, project(), namespace=ARGOCD)
    changed = repository()
    changed["data"]["password"] = b64encode(b"hub").decode()
    await pair.hub.store.create(SECRETS, changed, namespace=ARGOCD)
    async with pair.together():
        await until(pair.workload, APP_PROJECTS, lambda there: "web" in there)
        await change(pair.hub.store, SECRETS, "repo", metadata={"labels": {**changed["metadata"]["labels"]}})
        assert await pair.workload.get(SECRETS, name="repo", namespace=ARGOCD) == local
