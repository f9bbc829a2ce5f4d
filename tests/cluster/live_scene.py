"""Principal and agent on real API servers with the resource proxy before them, and Argo CD's side of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from argocd import names
from kube.resources import APPLICATIONS
from kube.store import Object, Resource
from tests.cluster.sidecar_ends import PATIENCE, Ends
from tests.sidecars.pair_in_memory import application, project
from tests.sidecars.proxies.hub_caller import HubCaller, hub_caller, resource_port

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")


class Live:
    """A pair with an Application `shop` whose project permits ConfigMaps and Deployments of the agent's namespace."""

    def __init__(self, ends: Ends, hub: HubCaller) -> None:
        self.ends = ends
        self.hub = hub
        self.namespace = ends.agent_namespace

    def path(self, resource: Resource, name: str = "", *, subresource: str = "") -> str:
        root = f"/apis/{resource.group}" if resource.group else "/api"
        parts = [root, resource.version, "namespaces", self.namespace, resource.plural, name, subresource]
        return "/".join(part for part in parts if part)

    def tracked(self, resource: Resource, name: str, *, app: str = "shop", **content: Any) -> Object:
        mark = f"{app}:{resource.group}/{resource.kind}:{self.namespace}/{name}"
        return {"metadata": {"name": name, "annotations": {names.TRACKING_ID: mark}}, **content}

    async def create(self, resource: Resource, body: Object) -> Object:
        return await self.ends.workload.create(resource, body, namespace=self.namespace)

    async def there(self, resource: Resource, name: str) -> Object:
        return await self.ends.workload.get(resource, name=name, namespace=self.namespace)


@asynccontextmanager
async def live(ends: Ends, **project_spec: Any) -> AsyncIterator[Live]:
    ends.principal_options["resources"] = await resource_port(
        ends.hub, ends.pki, namespace=ends.hub_namespace
    )
    async with ends.principal() as principal, ends.connected():
        await ends.create_on_hub(project(agents=ends.agent, **project_spec))
        await ends.create_on_hub(application(), resource=APPLICATIONS)
        await ends.on_workload(lambda there: "shop" in there, resource=APPLICATIONS)
        assert principal.resources is not None
        async with asyncio.timeout(PATIENCE):
            await principal.resources.listening.wait()
        async with hub_caller(ends.pki, principal.resources.port, agent=ends.agent) as hub:
            yield Live(ends, hub)


def deployment(name: str, **metadata: Any) -> Object:
    labels = {"app": name}
    container = {"name": "web", "image": "example.org/web:1"}
    return {
        "metadata": {"name": name, **metadata},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
