"""A move to another tracking method that meets errors, without a cluster."""

import asyncio
import gc
from typing import Any

import pytest

from argocd import names
from argocd.settings.argocd_cm import TrackingMethod
from kube.embedded import EmbeddedStore
from kube.errors import ForbiddenError
from kube.resources import APPLICATIONS, CONFIG_MAPS
from kube.store import Object, Resource
from webhook.admission.cluster_state import Scope
from webhook.tracking.migration import SIDE_BY_SIDE, MethodMigration


class Forbidding(EmbeddedStore):
    """Nobody may read what Applications list."""

    async def discover(self, *, group: str, version: str) -> dict[str, Resource]:
        assert (group, version) == ("", "v1")
        return {"ConfigMap": CONFIG_MAPS}

    async def get(self, resource: Resource, *, name: str, namespace: str | None = None) -> Object:
        if name.startswith("listed"):
            raise ForbiddenError(f"{name} is not for you")
        return await super().get(resource, name=name, namespace=namespace)


async def moved() -> list[dict[str, Any]]:
    """What the event loop complains about after the first error has ended the move."""
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    store = Forbidding(namespaces=["argocd", "tiphys-system"])
    await store.create(CONFIG_MAPS, {"metadata": {"name": names.ARGOCD_CM, "namespace": "argocd"}})
    resources = [
        {"version": "v1", "kind": "ConfigMap", "name": f"listed-{n}"} for n in range(SIDE_BY_SIDE * 2)
    ]
    application: Object = {
        "metadata": {"name": "shop", "namespace": "argocd"},
        "spec": {"destination": {"server": names.IN_CLUSTER_SERVER, "namespace": "argocd"}},
        "status": {"resources": resources},
    }
    await store.create(APPLICATIONS, application)
    with pytest.raises(ForbiddenError):
        await MethodMigration(store, Scope(), to=TrackingMethod.LABEL, really=True).run()
    gc.collect()
    return complaints


def test_the_first_error_ends_the_move_and_the_others_are_not_printed() -> None:
    assert asyncio.run(moved()) == []
