"""The webhook takes the principal's word on which agents are autonomous, as it changes."""

from argocd import names
from kube.embedded import EmbeddedStore
from kube.resources import CONFIG_MAPS, SECRETS
from kube.store import Object, PatchKind
from tests.sidecars.wire.listening_principal import until
from webhook.admission.cluster_state import ClusterState, Scope

ARGOCD = names.DEFAULT_NAMESPACE


def cluster(agent: str, **labels: str) -> Object:
    return {
        "metadata": {
            "name": f"cluster-{agent}",
            "labels": {names.SECRET_TYPE: "cluster", names.AGENT_NAME: agent, **labels},
        },
        "stringData": {"name": agent, "server": f"https://proxy?agentName={agent}", "config": "{}"},
    }


async def test_labels_and_first_logins_say_who_is_autonomous() -> None:
    store = EmbeddedStore(namespaces=[ARGOCD, names.TIPHYS_NAMESPACE])
    first = {"metadata": {"name": names.AGENT_MODES}, "data": {"b": "autonomous", "c": "autonomous"}}
    await store.create(CONFIG_MAPS, first, namespace=ARGOCD)
    for body in (
        cluster("a", **{names.TIPHYS_MODE: "autonomous"}),
        cluster("b"),
        cluster("c", **{names.TIPHYS_MODE: "managed"}),
    ):
        await store.create(SECRETS, body, namespace=ARGOCD)
    state = ClusterState(store, Scope(), told=lambda _what, _trouble: None)

    def autonomous() -> set[str]:
        agents = state.snapshot.surroundings.configuration.agents
        return {name for name in ("a", "b", "c", "d") if agents.is_autonomous(name)}

    await state.start()
    try:
        assert autonomous() == {"a", "b"}  # an operator's label counts more than a login, and d is nobody
        patch = {"metadata": {"labels": {names.TIPHYS_MODE: "managed"}}}
        await store.patch(SECRETS, patch, name="cluster-a", namespace=ARGOCD, kind=PatchKind.MERGE)
        await until(lambda: autonomous() == {"b"})
        await store.delete(SECRETS, name="cluster-b", namespace=ARGOCD)
        await until(lambda: autonomous() == set())
    finally:
        await state.stop()
