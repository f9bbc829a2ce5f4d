"""Whose repositories are whose, as a Go replica is told."""

from argocd import names
from kube.embedded import EmbeddedStore
from kube.resources import APP_PROJECTS, SECRETS
from kube.store import PatchKind
from sidecars.principal.roles.routing import HubRouting
from tests.sidecars.pair_in_memory import ARGOCD, Hub, project


async def test_a_repository_is_its_managed_agents_before_they_have_connected_too() -> None:
    hub = Hub(EmbeddedStore(namespaces=[ARGOCD, "agent-a"]), allowed_namespaces=("agent-*",))
    modes = {"agent-a": "managed", "agent-b": "autonomous", "other": "managed"}
    for agent, mode in modes.items():
        await hub.know(agent)
        await hub.store.patch(
            SECRETS,
            {"metadata": {"labels": {names.TIPHYS_MODE: mode}}},
            name=f"cluster-{agent}",
            namespace=ARGOCD,
            kind=PatchKind.MERGE,
        )
    await hub.store.create(APP_PROJECTS, project("web", agents="agent-*"), namespace=ARGOCD)
    body = {
        "metadata": {"name": "repo", "labels": {names.SECRET_TYPE: names.SECRET_TYPE_REPOSITORY}},
        "stringData": {"url": "https://git", "project": "web"},
    }
    secret = await hub.store.create(SECRETS, body, namespace=ARGOCD)
    async with hub.running() as principal:
        routing = HubRouting(principal.hub_state)
        assert dict(routing.agents()) == modes
        assert routing.agents_of_repository(secret) == ["agent-a"]
        unscoped = {**secret, "data": {"url": secret["data"]["url"]}}
        assert routing.agents_of_repository(unscoped) == []
