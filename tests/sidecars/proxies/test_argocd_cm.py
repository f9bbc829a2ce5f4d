"""Whose objects are whose is read from the agent's own argocd-cm, and nothing is shown before that was read."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from argocd import names
from kube.errors import ForbiddenError
from kube.resources import CONFIG_MAPS
from tests.sidecars.proxies.pod_scene import AGENT, PATIENCE, POD_PATH, PodScene, pod_scene


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[PodScene]:
    async with pod_scene(tmp_path) as made:
        await made.know(AGENT)
        yield made


async def answered(scene: PodScene, path: str = POD_PATH) -> tuple[int, str]:
    async with scene.get(path) as answer:
        return answer.status, orjson.loads(await answer.read()).get("message", "")


async def settings(scene: PodScene, **data: str) -> None:
    body = {"metadata": {"name": names.ARGOCD_CM}, "data": data}
    await scene._workloads[AGENT].create(CONFIG_MAPS, body, namespace="argocd")


async def test_another_installations_object_is_nobodys_here(scene: PodScene) -> None:
    await settings(scene, installationID="ours")
    await scene.agent_comes()
    for installation, status in (("theirs", 403), ("", 403), ("ours", 200)):
        scene.pods.marks = {"annotations": {names.INSTALLATION_ID: installation}}
        assert (await answered(scene))[0] == status, installation
        async with scene.get(POD_PATH + "/log") as answer:
            assert answer.status == status, installation


async def test_where_labels_count_an_id_says_nothing(scene: PodScene) -> None:
    label = {"application.resourceTrackingMethod": "label", "application.instanceLabelKey": "example.org/app"}
    await settings(scene, **label)
    await scene.agent_comes()
    assert (await answered(scene))[0] == 403, "its id names one of ours"
    for labels, status in (
        ({"app.kubernetes.io/instance": "shop"}, 403),
        ({"example.org/app": "elsewhere"}, 403),
        ({"example.org/app": "shop"}, 200),
    ):
        scene.pods.marks = {"labels": labels}
        assert (await answered(scene))[0] == status, labels


async def test_before_the_settings_are_known_nothing_is_shown_and_the_reason_is(
    scene: PodScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await settings(scene, installationID="ours")
    workload = scene._workloads[AGENT]
    listing, denied = workload.list, True

    async def refusing(resource: Any, **how: Any) -> Any:
        if denied and how.get("field_selector") == f"metadata.name={names.ARGOCD_CM}":
            raise ForbiddenError("configmaps is forbidden")
        return await listing(resource, **how)

    monkeypatch.setattr(workload, "list", refusing)
    await scene.agent_comes()
    for path in (POD_PATH, POD_PATH + "/log"):
        status, message = await answered(scene, path)
        assert status == 503, path
        assert "has not read argocd-cm yet" in message
        assert "configmaps is forbidden" in message
    assert (await answered(scene, "/api/v1"))[0] == 200, "discovery is nobody's"
    denied = False
    async with asyncio.timeout(PATIENCE):
        while (await answered(scene))[0] == 503:  # noqa: ASYNC110 - it tries again by itself
            await asyncio.sleep(0.05)
    assert (await answered(scene))[0] == 403, "and then it counts"
