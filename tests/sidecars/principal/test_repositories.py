"""Repository Secrets go where their project goes; the key ring goes to every managed agent."""

from typing import Any

import pytest

from argocd import names
from kube.resources import APP_PROJECTS, CONFIG_MAPS, SECRETS
from kube.store import Object
from tests.sidecars.pair_in_memory import ARGOCD, OURS, PLAIN, Pair, change, project, until

PEERS = pytest.mark.parametrize("extensions", [OURS, PLAIN], ids=["ours", "plain"])


def repository(name: str = "repo", *, of: str = "web", kind: str = "repository", **more: Any) -> Object:
    return {
        "metadata": {"name": name, "labels": {names.SECRET_TYPE: kind}},
        "stringData": {"project": of, "url": "https://git.example.org/web.git", **more},
    }


@PEERS
async def test_repositories_follow_their_project(extensions: frozenset[str]) -> None:
    pair = Pair(extensions=extensions)
    async with pair.together():
        await pair.hub.store.create(SECRETS, repository(), namespace=ARGOCD)
        await pair.hub.store.create(SECRETS, repository("unscoped", of=""), namespace=ARGOCD)
        await pair.hub.store.create(APP_PROJECTS, project(), namespace=ARGOCD)
        there = await until(pair.workload, SECRETS, lambda there: "repo" in there)
        assert "unscoped" not in there
        await change(pair.hub.store, SECRETS, "repo", stringData={"password": "changed"})
        await until(pair.workload, SECRETS, lambda there: "password" in there["repo"]["data"])
        await change(pair.hub.store, APP_PROJECTS, "web", spec=project(agents="other")["spec"])
        await until(pair.workload, SECRETS, lambda there: "repo" not in there)
        await change(pair.hub.store, APP_PROJECTS, "web", spec=project()["spec"])
        await until(pair.workload, SECRETS, lambda there: "repo" in there)
        await pair.hub.store.delete(APP_PROJECTS, name="web", namespace=ARGOCD)
        await until(pair.workload, SECRETS, lambda there: "repo" not in there)


async def test_credentials_that_are_nobodys_copy_are_left_alone() -> None:
    pair = Pair()
    own = await pair.workload.create(SECRETS, repository(password="local"), namespace=ARGOCD)
    await pair.hub.store.create(APP_PROJECTS, project(), namespace=ARGOCD)
    await pair.hub.store.create(SECRETS, repository(), namespace=ARGOCD)
    await pair.hub.store.create(SECRETS, repository("other", kind="repo-creds"), namespace=ARGOCD)
    async with pair.together():
        there = await until(pair.workload, SECRETS, lambda there: "other" in there)
        assert there["repo"] == own


@PEERS
async def test_a_repository_changed_or_withdrawn_while_the_agent_was_down(extensions: frozenset[str]) -> None:
    pair = Pair(extensions=extensions)
    await pair.hub.store.create(APP_PROJECTS, project(), namespace=ARGOCD)
    for name in ("changes", "goes"):
        await pair.hub.store.create(SECRETS, repository(name), namespace=ARGOCD)
    async with pair.principal_alone() as principal:
        async with pair.agent_alone() as agent, pair.connection(principal, agent):
            await until(pair.workload, SECRETS, lambda there: {"changes", "goes"} <= set(there))
        await change(pair.hub.store, SECRETS, "changes", stringData={"password": "new"})
        await pair.hub.store.delete(SECRETS, name="goes", namespace=ARGOCD)
    async with pair.together():
        await until(
            pair.workload,
            SECRETS,
            lambda there: "goes" not in there and "password" in there["changes"]["data"],
        )


async def test_the_label_keeps_a_repository_out() -> None:
    pair = Pair()
    await pair.hub.store.create(APP_PROJECTS, project(), namespace=ARGOCD)
    async with pair.together():
        await pair.hub.store.create(SECRETS, repository(), namespace=ARGOCD)
        there = await until(pair.workload, SECRETS, lambda there: "repo" in there)
        labels = {names.SECRET_TYPE: "repository"}
        ignored = {"labels": {**labels, names.IGNORE_SYNC: "true"}}
        await change(pair.hub.store, SECRETS, "repo", metadata=ignored)
        await until(pair.workload, SECRETS, lambda there: "repo" not in there)
        await change(pair.hub.store, SECRETS, "repo", metadata={"labels": labels})
        again = await until(pair.workload, SECRETS, lambda there: "repo" in there)
        assert again["repo"]["metadata"]["uid"] != there["repo"]["metadata"]["uid"]


@PEERS
async def test_the_key_ring_reaches_every_managed_agent(extensions: frozenset[str]) -> None:
    pair = Pair(extensions=extensions)
    keys = {"metadata": {"name": names.ARGOCD_GPG_KEYS_CM}, "data": {"ABCD": "key"}}
    async with pair.together():
        await pair.hub.store.create(CONFIG_MAPS, keys, namespace=ARGOCD)
        await until(
            pair.workload,
            CONFIG_MAPS,
            lambda there: there.get(names.ARGOCD_GPG_KEYS_CM, {}).get("data") == keys["data"],
        )
        await change(pair.hub.store, CONFIG_MAPS, names.ARGOCD_GPG_KEYS_CM, data={"EF": "other"})
        await until(
            pair.workload,
            CONFIG_MAPS,
            lambda there: there[names.ARGOCD_GPG_KEYS_CM]["data"] == {"EF": "other"},
        )
