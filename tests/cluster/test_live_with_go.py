"""Live objects with a real argocd-agent on one end: what it can, and what is refused rather than done wrongly."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from kube.errors import NotFoundError
from kube.resources import APPLICATIONS, CONFIG_MAPS
from scripts.argocd_agent import BINARY, agent_arguments, principal_arguments
from scripts.cluster.testing import Clusters
from scripts.ports import free_port
from tests.cluster.live_scene import DEPLOYMENTS, Live
from tests.cluster.sidecar_ends import Ends
from tests.sidecars.pair_in_memory import application, project
from tests.sidecars.proxies.hub_caller import hub_caller, resource_port
from tests.sidecars.proxies.redis.redis_servers import eventually
from tests.sidecars.wire.go_binary import running

GO_PORT = 9090  # its resource proxy has no flag for another
MERGE = "application/merge-patch+json"

pytestmark = [
    pytest.mark.skipif(not BINARY, reason="ARGOCD_AGENT_BIN names no argocd-agent"),
    pytest.mark.timeout(300),
]


def papers(ends: Ends, folder: Path) -> Path:
    """What argocd-agent reads from files."""
    for name, pair in (
        ("principal", ends.pki.pair("principal", server=True)),
        ("agent", ends.pki.pair(ends.agent, server=False)),
    ):
        (folder / f"{name}.crt").write_bytes(pair.certificate)
        (folder / f"{name}.key").write_bytes(pair.key)
    (folder / "ca.crt").write_bytes(ends.pki.authority.pair.certificate)
    return folder


async def furnished(ends: Ends) -> None:
    """argocd-agent's agent tests nothing without Argo CD's own settings."""
    metadata = {"name": "argocd-cm", "labels": {"app.kubernetes.io/part-of": "argocd"}}
    await ends.workload.create(
        CONFIG_MAPS, {"metadata": metadata, "data": {}}, namespace=ends.agent_namespace
    )
    await ends.create_on_hub(project(agents=ends.agent))
    await ends.create_on_hub(application(), resource=APPLICATIONS)
    await ends.on_workload(lambda there: "shop" in there, resource=APPLICATIONS)


@asynccontextmanager
async def with_go_agent(ends: Ends, clusters: Clusters, folder: Path) -> AsyncIterator[Live]:
    ends.principal_options["resources"] = await resource_port(
        ends.hub, ends.pki, namespace=ends.hub_namespace
    )
    async with ends.principal() as principal:
        arguments = agent_arguments(
            papers(ends, folder),
            clusters.workload,
            ends.agent_namespace,
            ends.port,
            "managed",
            resource_proxy=True,
        )
        # The certificate is for the name.
        async with running(folder, *arguments, "--server-address=localhost"):
            await furnished(ends)
            resources = principal.resources
            assert resources is not None
            await eventually(lambda: resources.port > 0)
            async with hub_caller(ends.pki, resources.port, agent=ends.agent) as hub:
                yield Live(ends, hub)


async def test_a_go_agent_is_asked_what_it_does_right_and_spared_the_rest(
    ends: Ends, clusters: Clusters, tmp_path: Path
) -> None:
    async with with_go_agent(ends, clusters, tmp_path) as at:
        await at.create(CONFIG_MAPS, at.tracked(CONFIG_MAPS, "mine", data={"a": "1"}))
        await at.create(CONFIG_MAPS, {"metadata": {"name": "nobodys"}})
        path = at.path(CONFIG_MAPS, "mine")
        found = await at.hub.get(path)
        assert (found.status, found.json.get("data")) == (200, {"a": "1"}), found.body
        refused = await at.hub.get(at.path(CONFIG_MAPS, "nobodys"))
        assert (refused.status, "does not say why" in refused.message) == (403, True)
        assert (await at.hub.get(at.path(CONFIG_MAPS, "absent"))).status == 404
        assert (await at.hub("PATCH", path, {"data": {"b": "2"}}, content_type=MERGE)).status == 200
        assert (await at.there(CONFIG_MAPS, "mine"))["data"] == {"a": "1", "b": "2"}

        assert "deployments" in (await at.hub.get("/apis/apps/v1")).body.decode()
        assert (await at.hub.get("/apis/apps")).json["name"] == "apps"
        assert (await at.hub.get("/api")).json["versions"] == ["v1"]
        assert (await at.hub.get("/version")).json["gitVersion"].startswith("v1.")

        json_patch = "application/json-patch+json"
        assert (await at.hub("PATCH", path, [], content_type=json_patch)).status == 415
        scale = at.path(DEPLOYMENTS, "web", subresource="scale")
        assert (await at.hub("DELETE", scale)).status == 501, "it would delete the Deployment"
        assert (await at.hub("PUT", path, {})).status == 501
        assert (await at.hub.get("/openapi/v2")).status == 501
        assert (await at.hub.get(at.path(CONFIG_MAPS))).status == 501
        account = "system:serviceaccount:shop:deployer"
        acting = await at.hub.get(path, Impersonate_User=account)
        assert (acting.status, "would act as itself" in acting.message) == (403, True)

        made = at.tracked(CONFIG_MAPS, "made")
        made |= {"apiVersion": "v1", "kind": "ConfigMap"}
        assert (await at.hub("POST", at.path(CONFIG_MAPS), made)).status == 200
        assert (await at.hub("DELETE", path)).status == 200
        with pytest.raises(NotFoundError):
            await at.there(CONFIG_MAPS, "mine")


async def test_a_go_principal_shows_live_objects_of_our_agent(
    ends: Ends, clusters: Clusters, tmp_path: Path
) -> None:
    with closing(socket.socket()) as bound:
        if bound.connect_ex(("127.0.0.1", GO_PORT)) == 0:
            pytest.skip("somebody listens on 9090")
    ends.port = free_port()
    arguments = principal_arguments(
        papers(ends, tmp_path),
        clusters.control_plane,
        ends.hub_namespace,
        ends.port,
        allowed=f"{ends.hub_namespace},{ends.agent}",
        resource_proxy=True,
    )
    async with running(tmp_path, *arguments), ends.connected():
        await furnished(ends)
        async with hub_caller(ends.pki, GO_PORT, agent=ends.agent) as hub:
            at = Live(ends, hub)
            await at.create(CONFIG_MAPS, at.tracked(CONFIG_MAPS, "mine", data={"a": "1"}))
            await at.create(CONFIG_MAPS, {"metadata": {"name": "nobodys"}})
            path = at.path(CONFIG_MAPS, "mine")
            found = await hub.get(path)
            assert (found.status, found.json["data"]) == (200, {"a": "1"})
            assert (await hub.get(at.path(CONFIG_MAPS, "nobodys"))).status == 403
            assert "deployments" in (await hub.get("/apis/apps/v1")).body.decode()
            assert (await hub.get("/apis")).json["groups"]
            assert (await hub("PATCH", path, {"data": {"b": "2"}}, content_type=MERGE)).status == 200
            assert (await hub("POST", at.path(CONFIG_MAPS), at.tracked(CONFIG_MAPS, "made"))).status == 200
            assert (await hub("POST", at.path(CONFIG_MAPS), {"metadata": {"name": "bad"}})).status == 403
            options = {"propagationPolicy": "Background"}
            assert (await hub("DELETE", path, options)).status == 200
            with pytest.raises(NotFoundError):
                await at.there(CONFIG_MAPS, "mine")
