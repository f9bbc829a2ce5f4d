"""The installation id that a leader gives a new Argo CD, once, and never one that has Applications."""

import asyncio

import pytest

from argocd.settings.argocd_cm import former_installation_ids
from kube.embedded import EmbeddedStore
from kube.resources import APPLICATIONS, CONFIG_MAPS
from webhook.admission.cluster_state import Scope
from webhook.tracking.installation_id import (
    FORMER_IDS,
    ensure_installation_id,
    read_installation_id,
    write_installation_id,
)

GUARDING = Scope()


async def a_cluster(
    *, data: dict[str, str] | None = None, applications: int = 0, configuration: str = ""
) -> EmbeddedStore:
    store = EmbeddedStore(namespaces=["argocd", "tiphys-system"])
    if data is not None:
        await store.create(CONFIG_MAPS, {"metadata": {"name": "argocd-cm"}, "data": data}, namespace="argocd")
    for index in range(applications):
        await store.create(APPLICATIONS, {"metadata": {"name": f"a{index}"}}, namespace="argocd")
    if configuration:
        body = {"metadata": {"name": "tiphys"}, "data": {"tiphys.yaml": configuration}}
        await store.create(CONFIG_MAPS, body, namespace="tiphys-system")
    return store


async def test_a_new_argo_cd_gets_one_also_when_two_leaders_come_at_once() -> None:
    store = await a_cluster(data={})
    told = await asyncio.gather(*(ensure_installation_id(store, GUARDING) for _ in range(2)))
    found, _ = await read_installation_id(store, GUARDING)
    assert [line for line in told if line] == [f"generated the installation id {found.value}"]
    assert await ensure_installation_id(store, GUARDING) == ""


async def test_with_applications_present_it_only_says_so() -> None:
    store = await a_cluster(data={}, applications=3)
    assert "3 Applications exist" in await ensure_installation_id(store, GUARDING)
    assert (await read_installation_id(store, GUARDING))[0].value is None


@pytest.mark.parametrize(
    ("data", "configuration"),
    [
        (None, ""),
        ({"installationID": ""}, ""),
        ({"installationID": "mine"}, ""),
        ({}, "tracking: {installation-id: off}"),
        ({}, "tracking: {installation-id: maybe}"),
    ],
    ids=["no argocd-cm", "opted out", "has one", "switched off", "broken configuration"],
)
async def test_otherwise_nothing_is_written(data: dict[str, str] | None, configuration: str) -> None:
    store = await a_cluster(data=data, configuration=configuration)
    before, _ = await read_installation_id(store, GUARDING)
    assert await ensure_installation_id(store, GUARDING) == ""
    assert (await read_installation_id(store, GUARDING))[0] == before


async def test_the_last_former_ids_are_kept() -> None:
    store = await a_cluster(data={"installationID": "first"})
    replaced = []
    for _ in range(FORMER_IDS + 2):
        found, held = await read_installation_id(store, GUARDING)
        assert held is not None
        replaced.append(found.value)
        await write_installation_id(store, GUARDING, held)
    _, held = await read_installation_id(store, GUARDING)
    assert list(former_installation_ids(held)) == replaced[-FORMER_IDS:]
