"""argocd-agent's end-to-end scenarios of AppProjects, on two real API servers and over grpc."""

from argocd.agents.vocabulary import Mode
from kube.resources import APP_PROJECTS
from kube.store import Store
from tests.cluster.sidecar_ends import Ends
from tests.sidecars.pair_in_memory import describe, described, project

LINE = "p, proj:sample:r, applications, get, sample/*, allow"


async def delete(store: Store, name: str, namespace: str) -> None:
    await store.delete(APP_PROJECTS, name=name, namespace=namespace)


async def test_managed_a_project_arrives_changes_is_guarded_and_is_deleted(ends: Ends) -> None:
    async with ends.both():
        await ends.create_on_hub(project())
        copy = (await ends.on_workload(lambda there: "web" in there))["web"]
        assert copy["spec"]["destinations"] == [
            {"name": "in-cluster", "server": "https://kubernetes.default.svc", "namespace": "*"}
        ]
        assert "sourceNamespaces" not in copy["spec"]
        await describe(ends.hub, "web", "new", namespace=ends.hub_namespace)
        copy = (await ends.on_workload(described("web", "new")))["web"]
        assert copy["spec"]["destinations"][0]["name"] == "in-cluster"

        changed = await describe(ends.workload, "web", "meddled", namespace=ends.agent_namespace)
        version = changed["metadata"]["resourceVersion"]
        await ends.on_workload(
            lambda there: (
                described("web", "new")(there) and there["web"]["metadata"]["resourceVersion"] != version
            )
        )
        await delete(ends.workload, "web", ends.agent_namespace)
        await ends.on_workload(
            lambda there: "web" in there and there["web"]["metadata"]["uid"] != changed["metadata"]["uid"]
        )
        await delete(ends.hub, "web", ends.hub_namespace)
        await ends.on_workload(lambda there: "web" not in there)


async def test_managed_the_default_project_of_both_sides_follows_the_hub(ends: Ends) -> None:
    await ends.create_on_hub(project("default"))
    await ends.create_on_workload(project("default"))
    async with ends.both():
        await describe(ends.hub, "default", "from the hub", namespace=ends.hub_namespace)
        await ends.on_workload(described("default", "from the hub"))


async def test_managed_what_happened_while_one_side_was_down(ends: Ends) -> None:
    for name in ("stays", "goes", "leaves"):
        await ends.create_on_hub(project(name))
    async with ends.both():
        await ends.on_workload(lambda there: {"stays", "goes", "leaves"} <= set(there))
    # Both down, as far as anybody can tell; then only the agent.
    await delete(ends.hub, "goes", ends.hub_namespace)
    await ends.create_on_hub(project("comes"))
    await describe(ends.hub, "stays", "changed", namespace=ends.hub_namespace)
    async with ends.principal():
        async with ends.connected():
            await ends.on_workload(
                lambda there: (
                    set(there) == {"stays", "comes", "leaves"} and described("stays", "changed")(there)
                )
            )
        await delete(ends.hub, "leaves", ends.hub_namespace)
        await ends.create_on_hub(project("follows"))
        async with ends.connected():
            await ends.on_workload(lambda there: set(there) == {"stays", "comes", "follows"})


async def test_autonomous_a_project_is_mirrored_guarded_and_deleted(ends: Ends) -> None:
    ends.mode = Mode.AUTONOMOUS
    mirror = f"{ends.agent}-sample"
    native = await ends.create_on_hub(project("default", description="hub's"))
    async with ends.both():
        await ends.create_on_workload(project("sample", description="agent's"))
        there = await ends.on_hub(lambda there: mirror in there)
        assert there[mirror]["spec"]["sourceNamespaces"] == [ends.agent]
        assert there[mirror]["spec"]["destinations"] == [
            {"name": ends.agent, "server": "*", "namespace": "*"}
        ]
        await describe(ends.workload, "sample", "changed", namespace=ends.agent_namespace)
        await ends.on_hub(described(mirror, "changed"))

        meddled = await describe(ends.hub, mirror, "meddled", namespace=ends.hub_namespace)
        version = meddled["metadata"]["resourceVersion"]
        await ends.on_hub(
            lambda there: (
                described(mirror, "changed")(there)
                and there[mirror]["metadata"]["resourceVersion"] != version
            )
        )
        await delete(ends.hub, mirror, ends.hub_namespace)
        await ends.on_hub(
            lambda there: mirror in there and there[mirror]["metadata"]["uid"] != meddled["metadata"]["uid"]
        )
        await ends.create_on_workload(project("default", description="agent's"))
        there = await ends.on_hub(described(f"{ends.agent}-default", "agent's"))
        assert there["default"]["spec"] == native["spec"]
        await delete(ends.workload, "sample", ends.agent_namespace)
        await ends.on_hub(lambda there: mirror not in there)


async def test_autonomous_what_happened_while_one_side_was_down(ends: Ends) -> None:
    ends.mode = Mode.AUTONOMOUS
    names = ("kept", "meddled", "changed", "gone", "lost", "sample")
    for name in names:
        await ends.create_on_workload(project(name, description="agent's"))

    def mirrored(name: str) -> str:
        return f"{ends.agent}-{name}"

    async with ends.both():
        await ends.on_hub(lambda there: {mirrored(name) for name in names} <= set(there))
    await describe(ends.hub, mirrored("meddled"), "hub's", namespace=ends.hub_namespace)
    await describe(ends.workload, "changed", "new", namespace=ends.agent_namespace)
    await delete(ends.workload, "gone", ends.agent_namespace)
    await delete(ends.hub, mirrored("lost"), ends.hub_namespace)
    sample = await ends.workload.get(APP_PROJECTS, name="sample", namespace=ends.agent_namespace)
    roles = {"roles": [{"name": "r", "policies": [LINE]}]}
    await ends.workload.replace(APP_PROJECTS, {**sample, "spec": {**sample["spec"], **roles}})
    async with ends.both():
        there = await ends.on_hub(
            lambda there: (
                described(mirrored("meddled"), "agent's")(there)
                and described(mirrored("changed"), "new")(there)
                and described(mirrored("lost"), "agent's")(there)
                and mirrored("gone") not in there
                and "roles" in there[mirrored("sample")]["spec"]
            )
        )
        name = mirrored("sample")
        assert there[name]["spec"]["roles"][0]["policies"] == [
            f"p, proj:{name}:r, applications, get, {name}/{ends.agent}/*, allow"
        ]
        assert there[mirrored("kept")]["spec"]["sourceNamespaces"] == [ends.agent]
