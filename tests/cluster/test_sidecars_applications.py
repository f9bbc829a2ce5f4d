"""The life of Applications in both modes, repositories and a long absence, on two real API servers."""

import asyncio

from argocd import names
from argocd.agents.vocabulary import Mode
from kube.resources import APP_PROJECTS, APPLICATIONS, SECRETS
from kube.store import Object, PatchKind, Store
from tests.cluster.sidecar_ends import Ends
from tests.sidecars.pair_in_memory import application, change, project

SYNC = {"sync": {"revision": "main"}}
CHANGES = 2000


async def merge(store: Store, body: Object, *, namespace: str, name: str = "shop") -> None:
    await store.patch(APPLICATIONS, body, name=name, namespace=namespace, kind=PatchKind.MERGE)


async def test_managed_the_whole_life_of_an_application(ends: Ends) -> None:
    async with ends.both():
        body = application(metadata={"finalizers": [names.RESOURCES_FINALIZER]})
        hub = await ends.create_on_hub(body, resource=APPLICATIONS)
        copy = (await ends.on_workload(lambda there: "shop" in there, resource=APPLICATIONS))["shop"]
        assert copy["spec"]["destination"] == {"name": "in-cluster", "namespace": "shop"}
        assert copy["metadata"]["annotations"][names.SOURCE_UID] == hub["metadata"]["uid"]

        await merge(ends.hub, {"spec": {"source": {"targetRevision": "v2"}}}, namespace=ends.agent)
        await ends.on_workload(
            lambda there: there["shop"]["spec"]["source"]["targetRevision"] == "v2", resource=APPLICATIONS
        )
        await merge(ends.hub, {"operation": SYNC}, namespace=ends.agent)
        await ends.on_workload(lambda there: "operation" in there["shop"], resource=APPLICATIONS)
        running = {
            "phase": "Running",
            "operation": SYNC,
            "startedAt": "2026-01-01T00:00:00Z",
        }
        done = {"operation": None, "status": {"operationState": running}}
        await merge(ends.workload, done, namespace=ends.agent_namespace)
        there = await ends.on_hub(lambda there: "operation" not in there["shop"], resource=APPLICATIONS)
        assert there["shop"]["status"]["operationState"]["phase"] == "Running"

        end = {"status": {"operationState": {"phase": "Terminating"}}}
        await merge(ends.hub, end, namespace=ends.agent)
        await ends.on_workload(
            lambda there: there["shop"]["status"]["operationState"]["phase"] == "Terminating",
            resource=APPLICATIONS,
        )
        refresh = {"metadata": {"annotations": {names.REFRESH: "normal"}}}
        await merge(ends.hub, refresh, namespace=ends.agent)
        await ends.on_workload(
            lambda there: names.REFRESH in there["shop"]["metadata"]["annotations"], resource=APPLICATIONS
        )
        answered = {"metadata": {"annotations": {names.REFRESH: None}}, "status": {"reconciledAt": None}}
        await merge(ends.workload, answered, namespace=ends.agent_namespace)
        await ends.on_hub(
            lambda there: names.REFRESH not in (there["shop"]["metadata"].get("annotations") or {}),
            resource=APPLICATIONS,
        )
        await ends.hub.delete(APPLICATIONS, name="shop", namespace=ends.agent)
        await ends.on_workload(
            lambda there: there["shop"]["metadata"].get("deletionTimestamp"), resource=APPLICATIONS
        )
        await merge(ends.workload, {"metadata": {"finalizers": None}}, namespace=ends.agent_namespace)
        await ends.on_workload(lambda there: not there, resource=APPLICATIONS)
        await ends.on_hub(lambda there: not there, resource=APPLICATIONS)

        await ends.create_on_hub(body, resource=APPLICATIONS)
        again = await ends.on_workload(lambda there: "shop" in there, resource=APPLICATIONS)
        assert again["shop"]["metadata"]["uid"] != copy["metadata"]["uid"]

        # As argocd-server deletes it without what it deployed; no controller runs here that would take its finalizer.
        await merge(ends.hub, {"metadata": {"finalizers": None}}, namespace=ends.agent)
        await ends.hub.delete(APPLICATIONS, name="shop", namespace=ends.agent)
        await ends.on_workload(lambda there: not there, resource=APPLICATIONS)


async def test_autonomous_the_whole_life_of_an_application(ends: Ends) -> None:
    ends.mode = Mode.AUTONOMOUS
    async with ends.both():
        await ends.create_on_workload(application(), resource=APPLICATIONS)
        mirror = (await ends.on_hub(lambda there: "shop" in there, resource=APPLICATIONS))["shop"]
        assert mirror["spec"]["project"] == f"{ends.agent}-web"
        await merge(ends.hub, {"operation": SYNC}, namespace=ends.agent)
        await ends.on_workload(lambda there: "operation" in there["shop"], resource=APPLICATIONS)
        done = {"operation": None, "status": {"health": {"status": "Healthy"}}}
        await merge(ends.workload, done, namespace=ends.agent_namespace)
        await ends.on_hub(
            lambda there: (
                "operation" not in there["shop"]
                and (there["shop"].get("status") or {}).get("health", {}).get("status") == "Healthy"
            ),
            resource=APPLICATIONS,
        )
        await ends.workload.delete(APPLICATIONS, name="shop", namespace=ends.agent_namespace)
        await ends.on_hub(lambda there: not there, resource=APPLICATIONS)


async def test_repositories_and_the_label_that_keeps_out(ends: Ends) -> None:
    secret = {
        "metadata": {"name": "repo", "labels": {names.SECRET_TYPE: "repository"}},
        "stringData": {"project": "web", "url": "https://git.example.org/web.git"},
    }
    async with ends.both():
        await ends.create_on_hub(project())
        await ends.create_on_hub(secret, resource=SECRETS)
        await ends.on_workload(lambda there: "repo" in there, resource=SECRETS)
        ignored = {"labels": {names.IGNORE_SYNC: "true"}}
        await change(ends.hub, APP_PROJECTS, "web", namespace=ends.hub_namespace, metadata=ignored)
        await ends.on_workload(lambda there: "web" not in there)
        await ends.on_workload(lambda there: "repo" not in there, resource=SECRETS)
        await change(ends.hub, APP_PROJECTS, "web", namespace=ends.hub_namespace, metadata={"labels": {}})
        await ends.on_workload(lambda there: "web" in there)
        await ends.on_workload(lambda there: "repo" in there, resource=SECRETS)


async def test_an_agent_that_was_away_for_two_thousand_changes(ends: Ends) -> None:
    async with ends.principal():
        async with ends.connected():
            await ends.create_on_hub(project("first"))
            await ends.on_workload(lambda there: "first" in there)
        existing = 200
        gate = asyncio.Semaphore(16)

        async def write(number: int) -> None:
            async with gate:
                await ends.create_on_hub(application(f"app-{number}"), resource=APPLICATIONS)
                for turn in range(CHANGES // existing - 1):
                    body = {"spec": {"source": {"targetRevision": f"v{turn}"}}}
                    await merge(ends.hub, body, namespace=ends.agent, name=f"app-{number}")

        await asyncio.gather(*(write(number) for number in range(existing)))
        last = f"v{CHANGES // existing - 2}"
        async with ends.connected():
            await ends.on_workload(
                lambda there: (
                    len(there) == existing
                    and all(item["spec"]["source"]["targetRevision"] == last for item in there.values())
                ),
                resource=APPLICATIONS,
            )
